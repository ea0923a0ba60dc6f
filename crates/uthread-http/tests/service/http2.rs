//! HTTP/2, by the client of the crate `h2` and by frames made by hand.

use std::future::Future;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use tokio::task::JoinHandle;
use uthread_http::{Body, Request, Server};

use super::common::{LONG, Lines, SHORT, everywhere, router, server};

type Bytes = <Body as http_body::Body>::Data;

/// Runs a client, which has to end in time.
fn client<F: Future<Output = ()>>(client: F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime
        .block_on(async { tokio::time::timeout(LONG, client).await })
        .expect("the client waits too long");
}

struct Client {
    requests: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
}

impl Client {
    async fn connect(address: SocketAddr) -> Client {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(1 << 20);
        let (requests, connection) = builder.handshake(stream).await.unwrap();
        Client {
            requests,
            connection: tokio::spawn(connection),
        }
    }

    async fn send(
        &mut self,
        method: &str,
        path: &str,
        is_all: bool,
    ) -> (Answer, SendStream<Bytes>) {
        let request = http::Request::builder()
            .method(method)
            .uri(format!("http://here{path}"))
            .body(())
            .unwrap();
        self.try_send(request, is_all).await.unwrap()
    }

    async fn try_send(
        &mut self,
        request: http::Request<()>,
        is_all: bool,
    ) -> Result<(Answer, SendStream<Bytes>), h2::Error> {
        self.requests = self.requests.clone().ready().await?;
        let (answer, body) = self.requests.send_request(request, is_all)?;
        Ok((Answer(answer), body))
    }

    async fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, true).await.0
    }

    async fn post(&mut self, path: &str, body: &'static str) -> Answer {
        let (answer, mut sender) = self.send("POST", path, false).await;
        sender.send_data(body.into(), true).unwrap();
        answer
    }
}

struct Answer(ResponseFuture);

impl Answer {
    /// Returns the status and the body.
    async fn all(self) -> Result<(u16, Vec<u8>), h2::Error> {
        let (head, body) = self.0.await?.into_parts();
        Ok((head.status.as_u16(), collect(body).await?))
    }
}

async fn collect(mut body: RecvStream) -> Result<Vec<u8>, h2::Error> {
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await.transpose()? {
        body.flow_control().release_capacity(data.len()).unwrap();
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

#[test]
fn streams_of_a_connection_are_answered_at_once() {
    everywhere(server, |address| {
        client(async {
            let mut client = Client::connect(address).await;
            let start = Instant::now();
            let mut answers = Vec::new();
            for _ in 0..90 {
                answers.push(client.get("/slow").await.all());
            }
            let overtakes = client.get("/hello/a").await.all().await.unwrap();
            assert_eq!(overtakes, (200, b"hello a".to_vec()));
            for answer in join_all(answers).await {
                assert_eq!(answer.unwrap(), (200, b"slow".to_vec()));
            }
            assert!(start.elapsed() < 45 * SHORT, "one after another");
        });
    });
}

#[test]
fn each_failure_is_that_of_its_stream() {
    let bounded = || {
        let router = router().get("/lines/{count}", |request: Request| {
            use uthread_http::RequestExt;
            let count = request.param("count").unwrap().parse().unwrap();
            Body::from_reader(Lines(0..count))
        });
        Server::new(router).body_max(10)
    };
    everywhere(bounded, |address| {
        client(async {
            let mut client = Client::connect(address).await;
            for (path, status) in [("/panic", 500), ("/none", 404)] {
                assert_eq!(
                    client.get(path).await.all().await.unwrap().0,
                    status,
                    "{path}"
                );
            }
            for (body, status) in [("0123456789", 200), ("0123456789x", 413)] {
                assert_eq!(
                    client.post("/sum", body).await.all().await.unwrap().0,
                    status
                );
            }
            let broken = client.get("/broken").await.all().await.unwrap_err();
            assert_eq!(broken.reason(), Some(Reason::INTERNAL_ERROR));
            let lines = client.get("/lines/3").await.all().await.unwrap();
            assert_eq!(lines, (200, b"0\n1\n2\n".to_vec()));
        });
    });
}

#[test]
fn a_stream_has_until_its_deadline() {
    let hurried = || server().timeout(SHORT);
    everywhere(hurried, |address| {
        client(async {
            let mut client = Client::connect(address).await;
            let (unfinished, _sender) = client.send("POST", "/sum", false).await;
            let answers = [client.get("/never").await, unfinished];
            for answer in join_all(answers.map(Answer::all)).await {
                assert_eq!(answer.unwrap().0, 504);
            }
            assert_eq!(client.get("/hello/a").await.all().await.unwrap().0, 200);
        });
    });
}

/// Sends a body as the server takes it.
async fn pour(mut sender: SendStream<Bytes>, bytes: usize) -> Result<(), h2::Error> {
    let mut left = bytes;
    while left > 0 {
        sender.reserve_capacity(left.min(1 << 16));
        let room = std::future::poll_fn(|context| sender.poll_capacity(context)).await;
        let count = room.unwrap()?.min(left);
        left -= count;
        sender.send_data(vec![b'x'; count].into(), left == 0)?;
    }
    Ok(())
}

#[test]
fn bodies_are_streamed_both_ways_at_once() {
    const BYTES: usize = 3 << 20;
    let large = || server().body_max(u64::MAX);
    everywhere(large, |address| {
        client(async {
            let mut client = Client::connect(address).await;
            // Several share the window of the connection.
            let mut answers = Vec::new();
            for _ in 0..3 {
                let (answer, sender) = client.send("POST", "/echo", false).await;
                tokio::spawn(pour(sender, BYTES));
                answers.push(answer.all());
            }
            for answer in join_all(answers).await {
                let (status, body) = answer.unwrap();
                assert_eq!((status, body.len()), (200, BYTES));
            }
        });
    });
}

#[test]
fn a_stream_that_is_reset_is_no_obstacle() {
    let large = || {
        let zeros = |_: Request| Body::from_reader(std::io::repeat(0).take(1 << 20));
        Server::new(router().get("/zeros", zeros))
    };
    everywhere(large, |address| {
        client(async {
            let mut client = Client::connect(address).await;
            // Within the request, and within the response.
            let (answer, mut sender) = client.send("POST", "/sum", false).await;
            sender.send_data("ab".into(), false).unwrap();
            sender.send_reset(Reason::CANCEL);
            drop((answer, sender));
            let (zeros, _) = client.send("GET", "/zeros", true).await;
            drop(zeros.0.await.unwrap());
            let answer = client.get("/hello/a").await.all().await;
            assert_eq!(answer.unwrap(), (200, b"hello a".to_vec()));
        });
    });
}

#[test]
fn streams_that_are_reset_at_once_leave_few_handlers() {
    let most = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&most);
    let slow = move || {
        let (running, most) = (AtomicUsize::new(0), Arc::clone(&counted));
        let router = router().get("/counted", move |_: Request| {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            uthread::sleep(SHORT / 5);
            running.fetch_sub(1, Ordering::SeqCst);
        });
        Server::new(router)
    };
    everywhere(slow, |address| {
        client(async {
            let mut client = Client::connect(address).await;
            // Others may be reset before their handlers begin.
            client.get("/counted").await.0.await.unwrap();
            // The server may end the connection of such a client.
            for _ in 0..1000 {
                let request = http::Request::get("http://here/counted").body(()).unwrap();
                let Ok((answer, mut sender)) = client.try_send(request, true).await else {
                    break;
                };
                sender.send_reset(Reason::CANCEL);
                drop(answer);
                // Lets the connection send it.
                tokio::task::yield_now().await;
            }
        });
    });
    assert!((1..=201).contains(&most.load(Ordering::SeqCst)), "{most:?}");
}

#[test]
fn a_client_that_takes_nothing_is_left() {
    let strict = || {
        let endless = |_: Request| Body::from_reader(std::io::repeat(b'x'));
        Server::new(router().get("/endless", endless)).keep_alive(4 * SHORT)
    };
    everywhere(strict, |address| {
        client(async {
            let mut client = Client::connect(address).await;
            let body = client.get("/endless").await.0.await.unwrap().into_body();
            // No window is given back: the response cannot go on, and nothing else happens.
            let _ = client.connection.await.unwrap();
            drop(body);
        });
    });
}

#[test]
fn a_client_that_goes_ends_its_streams() {
    let (started, ended) = (Arc::default(), Arc::default());
    struct Ends(Arc<AtomicUsize>);
    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let slow = || {
        let (started, ended) = (Arc::clone(&started), Arc::clone(&ended));
        let router = router().get("/counted", move |_: Request| {
            let _ends = Ends(Arc::clone(&ended));
            AtomicUsize::fetch_add(&started, 1, Ordering::SeqCst);
            uthread::sleep(LONG);
        });
        Server::new(router)
    };
    everywhere(slow, |address| {
        let before = started.load(Ordering::SeqCst);
        client(async {
            let mut client = Client::connect(address).await;
            let _answers = [client.get("/counted").await, client.get("/counted").await];
            while started.load(Ordering::SeqCst) < before + 2 {
                tokio::time::sleep(SHORT / 50).await;
            }
        });
        let start = Instant::now();
        while ended.load(Ordering::SeqCst) < before + 2 {
            assert!(start.elapsed() < LONG / 2);
            thread::sleep(SHORT / 50);
        }
    });
}

#[test]
fn the_end_awaits_the_streams_that_are_open() {
    let runtime = uthread::Runtime::builder().workers(1).build().unwrap();
    let listener = runtime.run(|| uthread::net::TcpListener::bind("127.0.0.1:0"));
    let listener = listener.unwrap();
    let (address, end) = (
        listener.local_addr().unwrap(),
        listener.try_clone().unwrap(),
    );
    let serving = runtime.spawn(move || server().serve(&listener));
    client(async {
        let mut idle = Client::connect(address).await;
        let mut busy = Client::connect(address).await;
        idle.get("/hello/a").await.all().await.unwrap();
        let answer = busy.get("/slow").await;
        busy.get("/hello/a").await.all().await.unwrap();
        end.shutdown().unwrap();
        assert_eq!(answer.all().await.unwrap(), (200, b"slow".to_vec()));
        for connection in [idle.connection, busy.connection] {
            connection.await.unwrap().unwrap();
        }
    });
    serving.join().unwrap().unwrap();
}

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

/// The last one that a client may open.
const LAST_STREAM: u32 = 0x7fff_ffff;

/// `GET`, `/hello/a` and `http`, with the authority `here`, by RFC 7541.
pub(crate) const GET_HELLO: &[u8] = b"\x82\x86\x04\x08/hello/a\x01\x04here";

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = Vec::from(&length[1..]);
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// Returns the kind of a frame, and its stream.
pub(crate) fn read_frame(stream: &mut impl Read) -> Option<(u8, u32)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).ok()?;
    let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    Some((head[3], id))
}

/// What ends after frames that break the protocol.
#[derive(Debug, PartialEq)]
enum End {
    Stream,
    Connection,
    /// Nothing: the request after them is answered.
    Nothing,
}

/// The kind of a frame, its flags, its stream, and its payload.
type Frame = (u8, u8, u32, &'static [u8]);

const OPEN: Frame = (HEADERS, 4, 1, GET_HELLO);

/// What is broken, with the section of RFC 9113; the frames; and what ends.
const CASES: &[(&str, &[Frame], End)] = &[
    (
        "4.1: a frame of no known kind",
        &[(0xfe, 0, 0, b"x")],
        End::Nothing,
    ),
    (
        "4.2: a frame above the limit",
        &[(DATA, 0, 1, &[0; 20_000])],
        End::Connection,
    ),
    (
        "4.3: a head that does not decode",
        &[(HEADERS, 5, 1, b"\x82\xc8")],
        End::Connection,
    ),
    (
        "5.1: data on an idle stream",
        &[(DATA, 1, 1, b"x")],
        End::Connection,
    ),
    (
        "5.1: a window of an idle stream",
        &[(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])],
        End::Connection,
    ),
    (
        "5.1.1: an even stream",
        &[(HEADERS, 5, 2, GET_HELLO)],
        End::Connection,
    ),
    (
        "5.1.1: a stream before another one",
        &[(HEADERS, 5, 5, GET_HELLO), (HEADERS, 5, 3, GET_HELLO)],
        End::Connection,
    ),
    (
        "5.4: a reset of an idle stream",
        &[(RST_STREAM, 0, 1, &[0, 0, 0, 8])],
        End::Connection,
    ),
    (
        "6.1: data without a stream",
        &[(DATA, 1, 0, b"x")],
        End::Connection,
    ),
    (
        "6.1: more padding than data",
        &[OPEN, (DATA, 8, 1, b"\x09x")],
        End::Connection,
    ),
    (
        "6.2: a head without a stream",
        &[(HEADERS, 5, 0, GET_HELLO)],
        End::Connection,
    ),
    (
        "6.4: a reset of the wrong size",
        &[OPEN, (RST_STREAM, 0, 1, &[0])],
        End::Connection,
    ),
    (
        "6.5: settings on a stream",
        &[(SETTINGS, 0, 1, b"")],
        End::Connection,
    ),
    (
        "6.5: settings of the wrong size",
        &[(SETTINGS, 0, 0, b"x")],
        End::Connection,
    ),
    (
        "6.5.2: a window above the limit",
        &[(SETTINGS, 0, 0, &[0, 4, 0xff, 0xff, 0xff, 0xff])],
        End::Connection,
    ),
    (
        "6.6: a push by the client",
        &[OPEN, (PUSH_PROMISE, 4, 1, b"\0\0\0\x02")],
        End::Connection,
    ),
    (
        "6.7: a ping on a stream",
        &[(PING, 0, 1, &[0; 8])],
        End::Connection,
    ),
    (
        "6.7: a ping of the wrong size",
        &[(PING, 0, 0, &[0; 7])],
        End::Connection,
    ),
    (
        "6.9: a window of nothing",
        &[(WINDOW_UPDATE, 0, 0, &[0; 4])],
        End::Connection,
    ),
    (
        "6.9.1: a window that overflows",
        &[(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff])],
        End::Connection,
    ),
    (
        "6.10: another frame within a head",
        &[(HEADERS, 1, 1, GET_HELLO), (PING, 0, 0, &[0; 8])],
        End::Connection,
    ),
    (
        "6.10: a continuation of nothing",
        &[(CONTINUATION, 4, 1, GET_HELLO)],
        End::Connection,
    ),
    (
        "8.3: a pseudo header of no known name",
        &[(HEADERS, 5, 1, b"\x82\x86\x84\x00\x02:x\x01x")],
        End::Connection,
    ),
    (
        "8.2.2: a header of connections",
        &[(HEADERS, 5, 1, b"\x82\x86\x84\x00\x0aconnection\x05close")],
        End::Stream,
    ),
    (
        "8.2.1: an upper case name",
        &[(HEADERS, 5, 1, b"\x82\x86\x84\x00\x01X\x01x")],
        End::Connection,
    ),
    (
        "8.1.1: less data than the length",
        &[
            (
                HEADERS,
                4,
                1,
                b"\x83\x86\x04\x05/echo\x01\x04here\x00\x0econtent-length\x019",
            ),
            (DATA, 1, 1, b"x"),
        ],
        End::Stream,
    ),
];

#[test]
fn frames_that_break_the_protocol_end_their_stream_or_connection() {
    everywhere(server, |address| {
        for (name, frames, end) in CASES {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            let mut sent = [PREFACE, &frame(SETTINGS, 0, 0, b"")].concat();
            for (kind, flags, id, payload) in *frames {
                sent.extend(frame(*kind, *flags, *id, payload));
            }
            stream.write_all(&sent).unwrap();
            // It is answered if the connection goes on.
            let _ = stream.write_all(&frame(HEADERS, 5, LAST_STREAM, GET_HELLO));
            let mut seen = End::Nothing;
            while let Some((kind, id)) = read_frame(&mut stream) {
                match kind {
                    GOAWAY => seen = End::Connection,
                    RST_STREAM if id == 1 => seen = End::Stream,
                    // The answer to the last one.
                    DATA if id == LAST_STREAM => break,
                    _ => {}
                }
            }
            assert_eq!(seen, *end, "{name}");
        }
        // The server is as it was.
        client(async {
            let mut client = Client::connect(address).await;
            client.get("/hello/a").await.all().await.unwrap();
        });
    });
}

#[test]
fn a_connection_without_the_preface_ends() {
    let strict = || server().head_timeout(SHORT).keep_alive(2 * SHORT);
    everywhere(strict, |address| {
        for text in ["P", "PR", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", "PRIX"] {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            let start = Instant::now();
            let _ = stream.read_to_end(&mut Vec::new());
            assert!(start.elapsed() < LONG / 2, "{text}");
        }
        // A method that begins as the preface does is one of HTTP/1.
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        for part in [
            "P",
            "R",
            "OPFIND / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n",
        ] {
            stream.write_all(part.as_bytes()).unwrap();
            thread::sleep(Duration::from_millis(2));
        }
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 404"), "{text}");
    });
}

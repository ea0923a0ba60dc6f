//! The server over real sockets: requests, bodies both ways, limits, deadlines, failures of handlers,
//! clients that misbehave, and the end.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uthread::net::TcpListener;
use uthread::runtime::{Driver, Runtime};
use uthread_http::{
    Body, Failure, Method, Request, RequestExt, Response, Router, Server, StatusCode,
};

const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(20);

/// Runs a test on each driver, with one and two workers.
fn everywhere(server: impl Fn() -> Server<Router>, test: impl Fn(SocketAddr)) {
    for (driver, workers) in [
        (Driver::Uring, 1),
        (Driver::Uring, 2),
        (Driver::Epoll, 1),
        (Driver::Epoll, 2),
        (Driver::Threads, 2),
    ] {
        let runtime = Runtime::builder().driver(driver).workers(workers).build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                eprintln!("not checked: {driver}: {error}");
                continue;
            }
        };
        let listener = runtime.run(|| TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let end = listener.try_clone().unwrap();
        let server = server();
        let serving = runtime.spawn(move || server.serve(&listener));
        test(address);
        let start = Instant::now();
        end.shutdown().unwrap();
        serving.join().unwrap().unwrap();
        assert!(start.elapsed() < LONG / 2, "{driver}: the end takes long");
    }
}

fn connect(address: SocketAddr) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    BufReader::new(stream)
}

fn send(stream: &BufReader<TcpStream>, text: &str) {
    stream.get_ref().write_all(text.as_bytes()).unwrap();
}

/// Reads a response with a length or in chunks. Returns its status, the head and the body.
fn answer(stream: &mut BufReader<TcpStream>) -> io::Result<(u16, String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    let head = head.to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let value = |name: &str| {
        head.split_once(&format!("\r\n{name}: "))?
            .1
            .split('\r')
            .next()
    };
    let mut body = Vec::new();
    if value("transfer-encoding") == Some("chunked") {
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            let length = u64::from_str_radix(line.trim_end(), 16).unwrap();
            io::copy(&mut stream.by_ref().take(length), &mut body)?;
            stream.read_line(&mut line)?;
            if length == 0 {
                break;
            }
        }
    } else if let Some(length) = value("content-length") {
        let length: usize = length.parse().unwrap();
        body.resize(length, 0);
        stream.read_exact(&mut body)?;
    }
    Ok((status, head, body))
}

fn ask(address: SocketAddr, text: &str) -> (u16, String, Vec<u8>) {
    let mut stream = connect(address);
    send(&stream, text);
    answer(&mut stream).unwrap()
}

fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: here\r\nContent-Length: {length}\r\n\r\n{body}")
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n")
}

/// Numbers in lines, as many as it says.
struct Lines(std::ops::Range<u32>);

impl Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        uthread::yield_now();
        let Some(number) = self.0.next() else {
            return Ok(0);
        };
        let line = format!("{number}\n");
        buffer[..line.len()].copy_from_slice(line.as_bytes());
        Ok(line.len())
    }
}

fn router() -> Router {
    Router::new()
        .get("/hello/{name}", |request: Request| {
            format!("hello {}", request.param("name").unwrap())
        })
        .get("/lines", |_: Request| Body::from_reader(Lines(0..1000)))
        .get("/broken", |_: Request| -> Response {
            let broken = Lines(0..10).chain(Broken);
            Response::new(Body::from_reader(broken))
        })
        .post("/sum", |mut request: Request| -> Result<String, Failure> {
            let mut sum = 0_u64;
            let mut bytes = [0; 1000];
            loop {
                match request.body_mut().read(&mut bytes)? {
                    0 => return Ok(sum.to_string()),
                    count => {
                        sum += bytes[..count]
                            .iter()
                            .map(|byte| u64::from(*byte))
                            .sum::<u64>()
                    }
                }
            }
        })
        .post("/echo", |request: Request| request.into_body())
        .post("/ignored", |_: Request| "not read")
        .get("/panic", |_: Request| -> &'static str {
            panic!("as the test asks")
        })
        .post("/panic", |_: Request| -> &'static str {
            panic!("as the test asks")
        })
        .get("/slow", |_: Request| {
            uthread::sleep(SHORT);
            "slow"
        })
        .get("/never", |_: Request| {
            uthread::sleep(LONG);
            "never"
        })
        .route(Method::DELETE, "/hello/{name}", |_: Request| {
            StatusCode::FORBIDDEN
        })
}

struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("as the test asks"))
    }
}

fn server() -> Server<Router> {
    Server::new(router())
}

#[test]
fn requests_of_one_connection_are_answered_in_their_order() {
    everywhere(server, |address| {
        let mut stream = connect(address);
        for name in ["a", "b"] {
            send(&stream, &get(&format!("/hello/{name}")));
            let (status, head, body) = answer(&mut stream).unwrap();
            assert_eq!((status, body), (200, format!("hello {name}").into_bytes()));
            assert!(
                head.contains("\r\ncontent-type: text/plain; charset=utf-8\r\n"),
                "{head}"
            );
            assert!(head.contains("\r\ndate: "), "{head}");
        }
        // Without waiting for answers, and in pieces.
        let all = [
            get("/hello/c"),
            post("/echo", "four"),
            get("/lines"),
            post("/sum", "\u{1}\u{2}"),
        ];
        for piece in all.concat().as_bytes().chunks(17) {
            stream.get_ref().write_all(piece).unwrap();
            thread::yield_now();
        }
        assert_eq!(answer(&mut stream).unwrap().2, b"hello c");
        assert_eq!(answer(&mut stream).unwrap().2, b"four");
        let lines = Vec::from_iter((0..1000).map(|number| format!("{number}\n")));
        assert_eq!(answer(&mut stream).unwrap().2, lines.concat().into_bytes());
        assert_eq!(answer(&mut stream).unwrap().2, b"3");
    });
}

#[test]
fn what_no_handler_has_is_refused() {
    everywhere(server, |address| {
        assert_eq!(ask(address, &get("/")).0, 404);
        let (status, head, _) = ask(address, &post("/hello/a", ""));
        assert_eq!(status, 405);
        assert!(head.contains("\r\nallow: get,head,delete\r\n"), "{head}");
        assert_eq!(
            ask(address, "DELETE /hello/a HTTP/1.1\r\nHost: here\r\n\r\n").0,
            403
        );
        let mut stream = connect(address);
        send(&stream, "HEAD /hello/a HTTP/1.1\r\nHost: here\r\n\r\n");
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            stream.read_line(&mut head).unwrap();
        }
        assert!(head.contains("content-length: 7\r\n"), "{head}");
        // No body follows.
        send(&stream, &get("/hello/b"));
        assert_eq!(answer(&mut stream).unwrap().2, b"hello b");
    });
}

#[test]
fn malformed_requests_are_refused_and_end_the_connection() {
    let requests = [
        "nonsense\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET /\u{1} HTTP/1.1\r\nHost: here\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : here\r\n\r\n",
        "POST /echo HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        "POST /echo HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "POST /echo HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
    ];
    everywhere(server, |address| {
        for text in requests {
            let mut stream = connect(address);
            send(&stream, text);
            match answer(&mut stream) {
                Ok((status, ..)) => assert_eq!(status, 400, "{text:?}"),
                Err(error) => assert!(is_end(&error), "{text:?}: {error}"),
            }
            let mut rest = Vec::new();
            let end = stream.read_to_end(&mut rest);
            assert!(
                end.is_ok() || end.is_err_and(|error| is_end(&error)),
                "{text:?}"
            );
        }
        assert_eq!(ask(address, &get("/hello/a")).0, 200);
    });
}

fn is_end(error: &io::Error) -> bool {
    [
        ErrorKind::UnexpectedEof,
        ErrorKind::ConnectionReset,
        ErrorKind::BrokenPipe,
    ]
    .contains(&error.kind())
}

#[test]
fn bodies_are_streamed_both_ways_at_once() {
    const BYTES: usize = 8 << 20;
    let large = || server().body_max(u64::MAX);
    everywhere(large, |address| {
        let mut stream = connect(address);
        let mut sender = stream.get_ref().try_clone().unwrap();
        // Larger than all buffers: the echo is on its way while the request is.
        let sending = thread::spawn(move || {
            sender.write_all(
                b"POST /echo HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n",
            )?;
            let chunk = vec![b'x'; 1 << 16];
            for _ in 0..BYTES / chunk.len() {
                write!(sender, "{:x}\r\n", chunk.len())?;
                sender.write_all(&chunk)?;
                sender.write_all(b"\r\n")?;
            }
            sender.write_all(b"0\r\n\r\n")
        });
        let (status, _, body) = answer(&mut stream).unwrap();
        sending.join().unwrap().unwrap();
        assert_eq!((status, body.len()), (200, BYTES));
        assert!(body.iter().all(|byte| *byte == b'x'));
        send(&stream, &get("/hello/after"));
        assert_eq!(answer(&mut stream).unwrap().2, b"hello after");
    });
}

#[test]
fn a_body_above_the_limit_is_refused() {
    let small = || server().body_max(10);
    everywhere(small, |address| {
        assert_eq!(ask(address, &post("/sum", "0123456789")).0, 200);
        assert_eq!(ask(address, &post("/sum", "0123456789x")).0, 413);
        // Without a length.
        let chunked = "POST /sum HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n";
        let (status, ..) = ask(address, &format!("{chunked}b\r\n0123456789x\r\n0\r\n\r\n"));
        assert_eq!(status, 413);
        // One that is passed on ends where it is too large.
        let mut stream = connect(address);
        let chunked = chunked.replace("/sum", "/echo");
        send(&stream, &format!("{chunked}b\r\n0123456789x\r\n0\r\n\r\n"));
        let mut text = String::new();
        let end = stream.read_to_string(&mut text);
        assert!(end.is_ok() || end.is_err_and(|error| is_end(&error)));
        assert!(!text.contains("0123456789x"), "{text}");
    });
}

#[test]
fn a_body_that_is_not_read_is_no_obstacle() {
    everywhere(server, |address| {
        let mut stream = connect(address);
        send(&stream, &post("/ignored", "some text"));
        assert_eq!(answer(&mut stream).unwrap().2, b"not read");
        send(&stream, &get("/hello/a"));
        assert_eq!(answer(&mut stream).unwrap().2, b"hello a");
        // The client waits for the permission to send it.
        send(
            &stream,
            "POST /sum HTTP/1.1\r\nHost: here\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
        );
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        assert_eq!(line, "HTTP/1.1 100 Continue\r\n");
        stream.read_line(&mut line).unwrap();
        send(&stream, "\u{1}\u{1}");
        assert_eq!(answer(&mut stream).unwrap().2, b"2");
    });
}

#[test]
fn a_panic_ends_its_request_only() {
    everywhere(server, |address| {
        let mut stream = connect(address);
        for request in [get("/panic"), post("/panic", "body")] {
            send(&stream, &request);
            assert_eq!(answer(&mut stream).unwrap().0, 500);
        }
        send(&stream, &get("/hello/a"));
        assert_eq!(answer(&mut stream).unwrap().0, 200);
    });
}

#[test]
fn a_body_that_fails_is_not_complete() {
    everywhere(server, |address| {
        let mut stream = connect(address);
        send(&stream, &get("/broken"));
        let mut text = String::new();
        let end = stream.read_to_string(&mut text);
        assert!(end.is_ok() || end.is_err_and(|error| is_end(&error)));
        assert!(!text.ends_with("0\r\n\r\n"), "{text}");
    });
}

#[test]
fn a_handler_has_until_its_deadline() {
    let hurried = || server().timeout(SHORT);
    everywhere(hurried, |address| {
        let start = Instant::now();
        assert_eq!(ask(address, &get("/never")).0, 504);
        // A body that does not come.
        let started = "POST /sum HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\n";
        assert_eq!(ask(address, started).0, 504);
        assert!(start.elapsed() >= 2 * SHORT && start.elapsed() < LONG / 2);
    });
}

#[test]
fn a_handler_that_does_not_end_in_time_goes_on_beside() {
    let bounded = || {
        let stubborn = |_: Request| uthread::shield(|| uthread::sleep(10 * SHORT));
        let router = router().get("/stubborn", stubborn);
        Server::new(router).timeout(SHORT).overdue_max(2)
    };
    everywhere(bounded, |address| {
        let start = Instant::now();
        for status in [504, 504, 503] {
            assert_eq!(ask(address, &get("/stubborn")).0, status);
        }
        assert!(start.elapsed() < 8 * SHORT, "{:?}", start.elapsed());
        while ask(address, &get("/hello/a")).0 == 503 {
            thread::sleep(SHORT / 5);
        }
        assert!(start.elapsed() >= 10 * SHORT);
    });
}

#[test]
fn clients_that_do_not_send_are_left() {
    let strict = || server().keep_alive(SHORT).head_timeout(2 * SHORT);
    everywhere(strict, |address| {
        let mut silent = connect(address);
        assert_eq!(silent.read(&mut [0]).unwrap(), 0);
        let mut slow = connect(address);
        send(&slow, "GET / HT");
        let start = Instant::now();
        while slow.get_ref().write_all(b"T").is_ok() && start.elapsed() < LONG / 2 {
            thread::sleep(SHORT / 5);
        }
        assert!(start.elapsed() < LONG / 2);
        let _ = slow.read(&mut [0]);
    });
}

#[test]
fn the_end_closes_idle_connections_and_awaits_the_others() {
    for driver in [Driver::Uring, Driver::Epoll, Driver::Threads] {
        let Ok(runtime) = Runtime::builder().driver(driver).workers(1).build() else {
            continue;
        };
        let listener = runtime.run(|| TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let end = listener.try_clone().unwrap();
        let started = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&started);
        let server = Server::new(Router::new().get("/slow", move |_: Request| {
            counted.fetch_add(1, Ordering::SeqCst);
            uthread::sleep(4 * SHORT);
            "slow"
        }));
        let serving = runtime.spawn(move || server.serve(&listener));
        let (mut idle, mut used) = (connect(address), connect(address));
        send(&used, &get("/slow"));
        answer(&mut used).unwrap();
        let mut busy = connect(address);
        send(&busy, &get("/slow"));
        while started.load(Ordering::SeqCst) < 2 {
            thread::sleep(SHORT / 50);
        }
        end.shutdown().unwrap();
        assert_eq!(idle.read(&mut [0]).unwrap(), 0);
        assert_eq!(used.read(&mut [0]).unwrap(), 0);
        let (status, head, body) = answer(&mut busy).unwrap();
        assert_eq!((status, &body[..]), (200, &b"slow"[..]));
        assert!(head.contains("\r\nconnection: close\r\n"), "{head}");
        assert_eq!(busy.read(&mut [0]).unwrap(), 0);
        serving.join().unwrap().unwrap();
    }
}

#[test]
fn requests_beyond_the_grace_are_cancelled() {
    let impatient = || server().grace(SHORT);
    everywhere(impatient, |address| {
        let stream = connect(address);
        send(&stream, &get("/never"));
        thread::sleep(SHORT);
        std::mem::forget(stream);
    });
}

#[test]
fn a_client_that_goes_ends_its_request() {
    everywhere(server, |address| {
        let stream = connect(address);
        send(
            &stream,
            "POST /sum HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\nabc",
        );
        stream.get_ref().shutdown(Shutdown::Both).unwrap();
        drop(stream);
        assert_eq!(ask(address, &get("/hello/a")).0, 200);
    });
}

#[test]
fn many_connections_are_served_at_once() {
    everywhere(server, |address| {
        let mut streams = Vec::from_iter((0..200).map(|_| connect(address)));
        let start = Instant::now();
        for stream in &streams {
            send(stream, &get("/slow"));
        }
        for stream in &mut streams {
            assert_eq!(answer(stream).unwrap().2, b"slow");
        }
        assert!(start.elapsed() < 100 * SHORT, "one after another");
    });
}

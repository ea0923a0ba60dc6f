//! What handlers are made of: forms, files, routers of others, other protocols, and what is told of them.

use std::io::{BufRead, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use axum::routing::{get as axum_get, post as axum_post};
use tungstenite::protocol::Role;
use tungstenite::{Message, WebSocket};
use uthread_http::{
    Body, Failure, Files, Request, RequestExt, Router, Server, StatusCode, Tower, upgrade,
    websocket,
};

use super::common::{LONG, SHORT, answer, ask, connect, everywhere, get, post, router, send};

#[derive(serde::Deserialize)]
struct Sum {
    a: u32,
    b: u32,
}

#[test]
fn forms_and_queries_have_values() {
    let sums = || {
        let router = Router::new()
            .get("/sum", |request: Request| -> Result<String, Failure> {
                let Sum { a, b } = request.query()?;
                Ok((a + b).to_string())
            })
            .post("/sum", |request: Request| -> Result<String, Failure> {
                assert!(request.peer_addr().is_some());
                let Sum { a, b } = request.form()?;
                Ok((a + b).to_string())
            });
        Server::new(router)
    };
    everywhere(sums, |address| {
        assert_eq!(ask(address, &get("/sum?a=1&b=2")).2, b"3");
        assert_eq!(ask(address, &post("/sum", "a=3&b=%34")).2, b"7");
        for text in [get("/sum"), get("/sum?a=x&b=1"), post("/sum", "a=1")] {
            assert_eq!(ask(address, &text).0, 400, "{text}");
        }
    });
}

#[test]
fn files_are_served_as_a_whole_or_in_part() {
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("site");
    std::fs::create_dir_all(site.join("sub")).unwrap();
    std::fs::create_dir(site.join("empty")).unwrap();
    std::fs::write(folder.path().join("secret"), "secret").unwrap();
    std::fs::write(site.join("a b.txt"), "0123456789").unwrap();
    std::fs::write(site.join("sub/index.html"), "<p>").unwrap();
    let files = || Server::new(Router::new().get("/f/{*path}", Files::new(&site)));
    everywhere(files, |address| {
        let part = |range: &str| {
            let text = format!("GET /f/a%20b.txt HTTP/1.1\r\nHost: here\r\nRange: {range}\r\n\r\n");
            ask(address, &text)
        };
        let (status, head, body) = ask(address, &get("/f/a%20b.txt"));
        assert_eq!((status, &body[..]), (200, &b"0123456789"[..]));
        assert!(head.contains("content-type: text/plain"), "{head}");
        for (range, status, expected) in [
            ("bytes=2-4", 206, "234"),
            ("bytes=8-", 206, "89"),
            ("bytes=-3", 206, "789"),
            ("bytes=5-100", 206, "56789"),
            ("bytes=7-18446744073709551615", 206, "789"),
            ("bytes=0-1,4-5", 200, "0123456789"),
            ("lines=1-2", 200, "0123456789"),
            ("bytes=10-", 416, ""),
        ] {
            let (found, head, body) = part(range);
            assert_eq!((found, &body[..]), (status, expected.as_bytes()), "{range}");
            assert_eq!(
                head.contains("content-range: bytes "),
                status != 200,
                "{range}"
            );
        }
        let changed = head.split("last-modified: ").nth(1).unwrap();
        let changed = changed.split('\r').next().unwrap();
        // The name of the month and of the day begin with capitals.
        let since = format!("If-Modified-Since: {}", title(changed));
        let text = get("/f/a%20b.txt").replace("Host", &format!("{since}\r\nHost"));
        assert_eq!(ask(address, &text).0, 304);
        assert_eq!(ask(address, &get("/f/sub")).2, b"<p>");
        for path in [
            "/f/none",
            "/f/empty",
            "/f/a%20b.txt/x",
            "/f/../secret",
            "/f/%2e%2e/secret",
            "/f/sub/..%2f../secret",
            "/f//etc/passwd",
            "/f/%2fetc/passwd",
            "/f/%00",
            "/f/%ff",
        ] {
            assert_eq!(ask(address, &get(path)).0, 404, "{path}");
        }
    });
}

/// Returns a date of HTTP in lower case as it was.
fn title(date: &str) -> String {
    let words = date.split(' ').map(|word| match word {
        "gmt" => "GMT".to_owned(),
        word => word[..1].to_uppercase() + &word[1..],
    });
    Vec::from_iter(words).join(" ")
}

#[test]
fn a_router_of_axum_runs_as_it_is() {
    let mixed = || {
        let inner = axum::Router::new()
            .route(
                "/axum/{name}",
                axum_get(
                    |axum::extract::Path(name): axum::extract::Path<String>| async move {
                        // A handler may block.
                        uthread::sleep(SHORT / 10);
                        format!("axum {name}")
                    },
                ),
            )
            .route(
                "/axum/echo",
                axum_post(|body: axum::body::Body| async move { body }),
            )
            .route(
                "/axum/json",
                axum_post(
                    |axum::Json(value): axum::Json<u32>| async move { axum::Json(value + 1) },
                ),
            );
        let inner = Arc::new(Tower(inner));
        let [first, second] = [Arc::clone(&inner), inner];
        let call = |tower: Arc<Tower<axum::Router>>| {
            move |request: Request| uthread_http::Handler::call(&*tower, request)
        };
        Server::new(
            router()
                .get("/axum/{name}", call(first))
                .post("/axum/{name}", call(second)),
        )
    };
    everywhere(mixed, |address| {
        assert_eq!(ask(address, &get("/axum/a")).2, b"axum a");
        assert_eq!(ask(address, &get("/hello/a")).2, b"hello a");
        let json =
            post("/axum/json", "41").replace("Host", "Content-Type: application/json\r\nHost");
        assert_eq!(ask(address, &json).2, b"42");
        let chunked =
            "POST /axum/echo HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut stream = connect(address);
        send(&stream, &format!("{chunked}2\r\nab\r\n"));
        thread::sleep(SHORT / 5);
        send(&stream, "1\r\nc\r\n0\r\n\r\n");
        assert_eq!(answer(&mut stream).unwrap().2, b"abc");
        send(&stream, &get("/hello/b"));
        assert_eq!(answer(&mut stream).unwrap().2, b"hello b");
    });
}

#[test]
fn each_answer_is_told() {
    type Seen = Arc<Mutex<Vec<(String, u16)>>>;
    let seen = Seen::default();
    let observed = || {
        let seen = Arc::clone(&seen);
        let fails = |_: Request| -> Result<(), Failure> { Err(std::io::Error::other("hidden"))? };
        let server = Server::new(router().get("/fails", fails));
        let server = server.timeout(4 * SHORT).body_max(3);
        server.observe(move |answered| {
            assert!(answered.peer.ip().is_loopback());
            let mut shown = format!("{} {}", answered.method, answered.uri);
            if let Some(failure) = &answered.failure {
                shown += &format!(": {failure}");
            }
            seen.lock().unwrap().push((shown, answered.status.as_u16()));
        })
    };
    everywhere(observed, |address| {
        for text in [
            get("/hello/a?b"),
            get("/none"),
            post("/sum", "long"),
            get("/never"),
            get("/fails"),
        ] {
            ask(address, &text);
        }
        let told = std::mem::take(&mut *seen.lock().unwrap());
        let expected = [
            ("GET /hello/a?b", 200),
            ("GET /none", 404),
            ("POST /sum", 413),
            ("GET /never", 504),
            ("GET /fails: hidden", 500),
        ];
        assert_eq!(
            told,
            expected.map(|(text, status)| (text.to_owned(), status))
        );
    });
}

const UPGRADE: &str = "GET /upper HTTP/1.1\r\nHost: here\r\nConnection: keep-alive, Upgrade\r\nUpgrade: upper\r\n\r\n";

/// Sends back what it receives, in upper case; a WebSocket that does so, read by one fiber and written
/// by another one.
fn upgrading() -> Server<Router> {
    let router = router()
        .get("/upper", |request: Request| {
            upgrade(&request, "upper", |mut stream| {
                let mut bytes = [0; 100];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    stream
                        .write_all(&bytes[..count].to_ascii_uppercase())
                        .unwrap();
                }
                stream.write_all(b"end").unwrap();
            })
        })
        .get("/socket", |request: Request| {
            websocket(&request, |mut socket| {
                let mut writing =
                    WebSocket::from_raw_socket(socket.get_ref().clone(), Role::Server, None);
                let (sender, messages) = uthread::sync::mpsc::channel::<Message>();
                uthread::scope(|scope| {
                    scope.spawn(move || {
                        for message in messages {
                            let upper = message.to_text().unwrap().to_uppercase();
                            writing.send(upper.into()).unwrap();
                        }
                    });
                    while let Ok(message) = socket.read() {
                        if message.is_text() {
                            sender.send(message).unwrap();
                        }
                    }
                    drop(sender);
                });
            })
        });
    Server::new(router)
}

#[test]
fn a_connection_goes_on_with_another_protocol() {
    everywhere(upgrading, |address| {
        let mut stream = connect(address);
        // What follows the request is not lost.
        send(&stream, &format!("{UPGRADE}early "));
        let (status, head, _) = answer(&mut stream).unwrap();
        assert_eq!(status, 101);
        assert!(head.contains("\r\nupgrade: upper\r\n"), "{head}");
        send(&stream, "late");
        stream.get_ref().shutdown(Shutdown::Write).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text, "EARLY LATEend");
        for missing in ["Upgrade: upper\r\n", "keep-alive, Upgrade"] {
            assert_eq!(ask(address, &UPGRADE.replace(missing, "")).0, 426);
        }
        let other = UPGRADE.replace("Upgrade: upper", "Upgrade: lower");
        assert_eq!(ask(address, &other).0, 426);
    });
}

#[test]
fn the_end_of_the_server_is_the_end_of_the_other_protocol() {
    let open = Mutex::new(Vec::new());
    everywhere(upgrading, |address| {
        let mut stream = connect(address);
        send(&stream, UPGRADE);
        assert_eq!(answer(&mut stream).unwrap().0, 101);
        open.lock().unwrap().push(stream);
    });
    for mut stream in open.into_inner().unwrap() {
        let mut text = String::new();
        stream.read_line(&mut text).unwrap();
        assert_eq!(text, "end");
    }
}

#[test]
fn a_websocket_is_read_and_written_at_once() {
    everywhere(upgrading, |address| {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let (mut client, _) =
            tungstenite::client(format!("ws://{address}/socket"), stream).unwrap();
        for number in 0..100 {
            client
                .write(Message::text(format!("message {number}")))
                .unwrap();
            if number % 10 == 0 {
                client.write(Message::Ping("ping".into())).unwrap();
            }
        }
        client.flush().unwrap();
        let mut pongs = 0;
        let mut number = 0;
        while number < 100 {
            match client.read().unwrap() {
                Message::Pong(_) => pongs += 1,
                message => {
                    assert_eq!(message.to_text().unwrap(), format!("MESSAGE {number}"));
                    number += 1;
                }
            }
        }
        assert!(pongs > 0);
        client.close(None).unwrap();
        while client.read().is_ok() {}
        for wrong in [
            "Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 12\r\n",
            "Sec-WebSocket-Version: 13\r\n",
        ] {
            let text = UPGRADE.replace("/upper", "/socket").replace(
                "Upgrade: upper\r\n",
                &format!("Upgrade: websocket\r\n{wrong}"),
            );
            assert!([400, 426].contains(&ask(address, &text).0));
        }
    });
}

/// A service that fails.
#[derive(Clone)]
struct Fails;

impl tower_service::Service<Request> for Fails {
    type Response = http::Response<Body>;
    type Error = std::io::Error;
    type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request) -> Self::Future {
        std::future::ready(Err(std::io::Error::other("as the test asks")))
    }
}

#[test]
fn a_service_that_fails_is_a_failure() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let failing = || {
        let told = Arc::clone(&told);
        let server = Server::new(Router::new().get("/", Tower(Fails)));
        server.observe(move |answered| {
            let failure = answered.failure.as_ref().expect("it has failed");
            told.lock().unwrap().push(failure.to_string());
        })
    };
    everywhere(failing, |address| {
        assert_eq!(
            ask(address, &get("/")).0,
            StatusCode::INTERNAL_SERVER_ERROR.as_u16()
        );
        assert_eq!(told.lock().unwrap().pop().unwrap(), "as the test asks");
    });
}

//! HTTP/1: requests, bodies both ways, limits, deadlines, failures of handlers, clients that misbehave, and
//! the end.

use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use uthread::net::TcpListener;
use uthread::runtime::{Driver, Runtime};
use uthread_http::{Request, Router, Server};

use super::common::{
    LONG, SHORT, answer, ask, connect, everywhere, get, post, router, send, server,
};

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
        // With a part of the next one.
        let next = get("/hello/next");
        send(&stream, &[&get("/hello/a"), &next[..20]].concat());
        assert_eq!(answer(&mut stream).unwrap().2, b"hello a");
        send(&stream, &next[20..]);
        assert_eq!(answer(&mut stream).unwrap().2, b"hello next");
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
fn a_body_that_another_crate_makes_is_awaited() {
    everywhere(server, |address| {
        let mut stream = connect(address);
        // The next request arrives meanwhile.
        send(&stream, &[get("/frames"), get("/hello/a")].concat());
        let (_, _, frames) = answer(&mut stream).unwrap();
        assert_eq!(frames, b"0\n1\n2\n");
        assert_eq!(answer(&mut stream).unwrap().2, b"hello a");
    });
}

#[test]
fn a_body_that_stops_is_a_failure() {
    let strict = || server().keep_alive(SHORT);
    everywhere(strict, |address| {
        let started = "POST /sum HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\nabc";
        assert_eq!(ask(address, started).0, 504);
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
        // A panic for the error of a call that ended.
        assert_eq!(ask(address, &get("/unwraps")).0, 504);
        // A body that does not come.
        let started = "POST /sum HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\n";
        assert_eq!(ask(address, started).0, 504);
        assert!(start.elapsed() >= 3 * SHORT && start.elapsed() < LONG / 2);
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

fn is_end(error: &io::Error) -> bool {
    [
        ErrorKind::UnexpectedEof,
        ErrorKind::ConnectionReset,
        ErrorKind::BrokenPipe,
    ]
    .contains(&error.kind())
}

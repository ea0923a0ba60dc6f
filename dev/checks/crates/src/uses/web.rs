//! HTTP between fibers of one runtime: a client or a server of another crate, and the other side in
//! a fiber.

use std::net;

use uthread::io::{BufRead, BufReader, Read, Write};
use uthread::net::{TcpListener, TcpStream};

use super::{Use, WAIT, both};

pub(super) const USES: &[Use] = &[
    Use::new(
        "tiny_http",
        "a server in a fiber, and a client in a fiber",
        tiny_http,
    ),
    Use::new(
        "std-net",
        "a client on a socket of `std`, of a server in a fiber",
        std_net,
    ),
    Use::new("ureq", "a client, of a server in a fiber", ureq),
    Use::new(
        "reqwest-blocking",
        "a client with a Tokio inside, of a server in a fiber",
        reqwest,
    ),
];

/// Number of requests, each on a connection of its own.
const REQUESTS: usize = 2;

pub(super) const PAGE: &str = "a page from a fiber";

/// Reads a request, waits, and answers it.
pub(super) fn answer(stream: impl Read + Write) {
    let mut stream = BufReader::new(stream);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let count = stream.read_until(b'\n', &mut head).expect("a line");
        assert!(count > 0, "the request ends early");
    }
    uthread::sleep(WAIT);
    let length = PAGE.len();
    let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    let response = head + PAGE;
    let stream = stream.get_mut();
    stream.write_all(response.as_bytes()).expect("a client");
    stream.flush().expect("a client");
}

/// Serves all requests in a fiber, and makes them by `get` in another one.
pub(super) fn serve(get: impl Fn(&str) -> String + Sync) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    both(
        || {
            for _ in 0..REQUESTS {
                let (stream, _) = listener.accept().expect("a client");
                answer(stream);
            }
        },
        || {
            for _ in 0..REQUESTS {
                assert_eq!(get(&url), PAGE);
            }
        },
    );
}

fn std_net() {
    serve(|url| {
        let address = url.trim_start_matches("http://").trim_end_matches('/');
        let response = fetch(net::TcpStream::connect(address).expect("a server"), "path");
        let (_head, body) = response.split_once("\r\n\r\n").expect("a head");
        body.to_owned()
    });
}

fn ureq() {
    serve(|url| {
        let mut response = ureq::get(url).call().expect("a response");
        response.body_mut().read_to_string().expect("a body")
    });
}

fn reqwest() {
    serve(|url| {
        let response = reqwest::blocking::get(url).expect("a response");
        response.text().expect("a body")
    });
}

fn tiny_http() {
    let server = tiny_http::Server::http("127.0.0.1:0").expect("a port");
    let address = server.server_addr().to_ip().expect("an address of IP");
    both(
        || {
            for _ in 0..REQUESTS {
                let request = server.recv().expect("a request");
                assert_eq!(request.url(), "/path");
                let response = tiny_http::Response::from_string(PAGE);
                request.respond(response).expect("a client");
            }
        },
        || {
            for _ in 0..REQUESTS {
                uthread::sleep(WAIT);
                let response = fetch(TcpStream::connect(address).expect("a server"), "path");
                assert!(response.ends_with(PAGE), "{response}");
            }
        },
    );
}

/// Makes a request over a connection, and returns the response.
pub(super) fn fetch(mut stream: impl Read + Write, path: &str) -> String {
    let request = format!("GET /{path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a server");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    response
}

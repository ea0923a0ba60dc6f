//! Plain HTTP requests and responses that are malformed, ambiguous, late or incomplete.

use std::io::{self, Read};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

use super::Target;
use crate::harness::{Client, Program, Response, refusing_socket};

const GET: &str = "GET http://TARGET/ HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST http://TARGET/ HTTP/1.1\r\nHost: a\r\n";

/// Sends a request for the target.
fn send(proxy: &Program, target: &Target, request: &str) -> Client {
    let mut client = proxy.connect();
    client.send(request.replace("TARGET", &target.addr.to_string()));
    client
}

/// Reads a response that ends the connection.
fn refusal(mut client: Client) -> Response {
    let response = client.response();
    assert_eq!(response.field("connection"), Some("close"));
    assert_eq!(client.rest(), b"");
    response
}

#[test]
fn ambiguous_requests_are_refused_and_reach_no_origin() {
    let target = Target::start();
    let proxy = target.proxy(&[]);
    let smuggled = "GET http://TARGET/smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    for (fields, status) in [
        ("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", 400),
        ("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", 400),
        ("Content-Length: 3\r\nContent-Length: 3\r\n", 400),
        ("Content-Length: 3, 3\r\n", 400),
        ("Content-Length: +3\r\n", 400),
        ("Content-Length: 3\r\n 4\r\n", 400),
        ("X: a\r\n\tTransfer-Encoding: chunked\r\n", 400),
        ("Transfer-Encoding : chunked\r\n", 400),
        ("X: a\nTransfer-Encoding: chunked\r\n", 400),
        ("X: a\rTransfer-Encoding: chunked\r\n", 400),
        ("X: a\0\r\n", 400),
        ("Host: b\r\n", 400),
        ("Transfer-Encoding: xchunked\r\n", 501),
        ("Transfer-Encoding: chunked, identity\r\n", 501),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            501,
        ),
    ] {
        let client = send(
            &proxy,
            &target,
            &format!("{POST}{fields}\r\n0\r\n\r\n{smuggled}"),
        );
        assert_eq!(refusal(client).status, status, "{fields:?}");
    }
    assert!(target.accepted.try_recv().is_err());
}

#[test]
fn malformed_chunks_of_a_client_are_refused() {
    let target = Target::start();
    let proxy = target.proxy(&[]);
    let long = "x".repeat(5000);
    for chunks in [
        "x\r\n",
        "+3\r\nabc\r\n0\r\n\r\n",
        " 3\r\nabc\r\n0\r\n\r\n",
        "3 \r\nabc\r\n0\r\n\r\n",
        "0x3\r\nabc\r\n0\r\n\r\n",
        "3\nabc\r\n0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3\r\nabc\n0\r\n\r\n",
        "3;a\rb\r\nabc\r\n0\r\n\r\n",
        "10000000000000000\r\nabc",
        "\r\n",
        &format!("3;{long}\r\nabc\r\n"),
        &format!("0\r\nX: {long}\r\n\r\n"),
        &format!("0\r\n{}\r\n", "X: y\r\n".repeat(200)),
    ] {
        let client = send(
            &proxy,
            &target,
            &format!("{POST}Transfer-Encoding: chunked\r\n\r\n{chunks}"),
        );
        let mut server = target.accept();
        assert_eq!(refusal(client).status, 400, "{chunks:?}");
        let got = String::from_utf8(server.rest()).unwrap();
        assert!(!got.ends_with("0\r\n\r\n"), "{got}");
    }
}

#[test]
fn a_client_that_leaves_within_its_body_ends_the_request() {
    let target = Target::start();
    let proxy = target.proxy(&[]);
    for begin in [
        "Content-Length: 5\r\n\r\nabc",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nabc",
    ] {
        let client = send(&proxy, &target, &format!("{POST}{begin}"));
        let mut server = target.accept();
        drop(client);
        server.count_rest();
    }
}

#[test]
fn bad_responses_of_an_origin() {
    let target = Target::start();
    let mut proxy = target.proxy(&["--log", "text"]);
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(17_000));
    for (reply, error) in [
        ("", "connection_terminated"),
        ("HTTP/1.1 200 OK\r\nX", "connection_terminated"),
        ("nonsense\r\n\r\n", "http_protocol_error"),
        (
            "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
            "http_protocol_error",
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
            "http_protocol_error",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "http_protocol_error",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "http_protocol_error",
        ),
        (
            &"HTTP/1.1 103 Early\r\n\r\n".repeat(17),
            "http_protocol_error",
        ),
        (&long, "http_protocol_error"),
    ] {
        let mut client = send(&proxy, &target, GET);
        let mut server = target.accept();
        server.head();
        server.send(reply);
        drop(server);
        let mut response = client.response_head();
        while response.status == 103 {
            response = client.response_head();
        }
        assert_eq!(response.status, 502, "{reply:?}");
        let expected = format!("uthread; error={error}");
        assert_eq!(
            response.field("proxy-status"),
            Some(&*expected),
            "{reply:?}"
        );
        let line = proxy.stdout_line();
        let begin = format!("GET {}/ 502 refused", target.addr);
        assert!(
            line.contains(&begin) && line.contains(": the server sent"),
            "{line}"
        );
    }
}

/// A client could otherwise take a part for the whole.
#[test]
fn an_incomplete_response_ends_with_a_reset() {
    let target = Target::start();
    let proxy = target.proxy(&[]);
    for (reply, expected) in [
        ("Content-Length: 5\r\n\r\nab", "ab"),
        (
            "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
            "2\r\nab\r\n",
        ),
        (
            "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\nx\r\n",
            "2\r\nab\r\n",
        ),
    ] {
        let mut client = send(&proxy, &target, GET);
        let mut server = target.accept();
        server.head();
        server.send(format!("HTTP/1.1 200 OK\r\n{reply}"));
        client.response_head();
        assert_eq!(client.read_exact(expected.len()), expected.as_bytes());
        drop(server);
        let end = client.get_ref().read(&mut [0]).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::ConnectionReset, "{reply:?}");
    }
    // A reset is no end of a body without a length.
    let mut client = send(&proxy, &target, GET);
    let mut server = target.accept();
    server.head();
    server.send("HTTP/1.1 200 OK\r\n\r\nab");
    client.response_head();
    assert_eq!(client.read_exact(7), b"2\r\nab\r\n");
    set_socket_linger(server.get_ref(), Some(Duration::ZERO)).unwrap();
    drop(server);
    let end = client.get_ref().read(&mut [0]).unwrap_err();
    assert_eq!(end.kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn silent_peers() {
    let target = Target::start();
    let proxy = target.proxy(&["--idle-timeout", "200ms"]);
    let client = send(&proxy, &target, GET);
    let _server = target.accept();
    let response = refusal(client);
    assert_eq!(response.status, 504);
    let error = response.field("proxy-status");
    assert_eq!(error, Some("uthread; error=http_response_timeout"));

    let client = send(
        &proxy,
        &target,
        &format!("{POST}Content-Length: 5\r\n\r\nabc"),
    );
    let _server = target.accept();
    assert_eq!(refusal(client).status, 408);

    let mut client = send(&proxy, &target, GET);
    let mut server = target.accept();
    server.head();
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
    client.response_head();
    assert_eq!(client.count_rest(), 2);

    // Between two requests.
    let mut client = send(&proxy, &target, GET);
    let mut server = target.accept();
    server.head();
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab");
    assert_eq!(client.response().text(), "ab");
    assert_eq!(client.rest(), b"");
}

#[test]
fn origins_that_cannot_be_reached() {
    let (_socket, closed) = refusing_socket();
    let address = closed.to_string();
    let proxy = Program::tunnel(&["--allow", &address]);
    for (method, host, status) in [
        ("GET", address.as_str(), 502),
        ("GET", "127.0.0.1", 403),
        ("GET", "127.0.0.1:1", 403),
    ] {
        let mut client = proxy.connect();
        client.send(format!(
            "{method} http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n"
        ));
        assert_eq!(refusal(client).status, status);
    }
    // The response to HEAD has no body.
    let mut client = proxy.connect();
    client.send("HEAD http://127.0.0.1/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response_head().status, 403);
    assert_eq!(client.rest(), b"");
}

//! Responses to clients that get no tunnel.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType, bind, listen, socket};

use super::{Target, connect};
use crate::harness::{Program, Response, refusing_socket};

fn ask(proxy: &Program, request: &str) -> Response {
    let mut client = proxy.connect();
    client.send(request);
    let response = client.response();
    assert_eq!(client.rest(), b"");
    response
}

fn refusal(proxy: &Program, target: &str) -> Response {
    ask(
        proxy,
        &format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"),
    )
}

#[test]
fn requests_that_are_no_tunnel() {
    let proxy = Program::tunnel(&["--allow", "*:443"]);
    let long = "x".repeat(9000);
    for (request, status) in [
        (
            "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
            403,
        ),
        ("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", 400),
        (
            "CONNECT a.example:443 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
            411,
        ),
        ("CONNECT a.example HTTP/1.1\r\nHost: a.example\r\n\r\n", 400),
        (
            "CONNECT a.example:0 HTTP/1.1\r\nHost: a.example\r\n\r\n",
            400,
        ),
        ("CONNECT a.example:443 HTTP/1.1\r\n\r\n", 400),
        (
            "CONNECT a.example:443 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
            400,
        ),
        ("CONNECT a.example:443 HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        ("\x16\x03\x01\x02\x00\x01\n", 400),
        (
            &format!("CONNECT {long}:443 HTTP/1.1\r\nHost: a\r\n\r\n"),
            414,
        ),
    ] {
        assert_eq!(ask(&proxy, request).status, status, "{request:?}");
    }
}

#[test]
fn targets_that_are_not_allowed() {
    let target = Target::start();
    let port = target.addr.port();
    let any = format!("*:{port}");
    let subdomains = format!("*.example.com:{port}");
    let proxy = Program::tunnel(&["--allow", &any, "--allow", &subdomains]);
    for denied in [
        format!("127.0.0.1:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("localhost:{port}"),
        format!("0x7f.1:{port}"),
        "127.0.0.1:1".to_owned(),
        "example.com:1".to_owned(),
    ] {
        let response = refusal(&proxy, &denied);
        assert_eq!(response.status, 403, "{denied}");
        let error = response.field("proxy-status");
        assert_eq!(
            error,
            Some("uthread; error=http_request_denied"),
            "{denied}"
        );
    }
}

#[test]
fn targets_that_refuse() {
    let (_socket, closed) = refusing_socket();
    let (denied, unknown) = (closed.to_string(), "no-such-host.invalid:80");
    let proxy = Program::tunnel(&["--allow", &denied, "--allow", unknown]);
    let response = refusal(&proxy, &denied);
    assert_eq!(response.status, 502);
    let error = response.field("proxy-status");
    assert_eq!(error, Some("uthread; error=connection_refused"));
    assert!(response.text().contains(&denied), "{}", response.text());

    let response = refusal(&proxy, unknown);
    assert_eq!(response.status, 502, "{}", response.text());
    assert_eq!(
        response.field("proxy-status"),
        Some("uthread; error=dns_error")
    );
}

#[test]
fn a_target_that_refuses_repeatedly_is_not_tried_for_a_while() {
    let (socket, address) = refusing_socket();
    let (other, down) = (Target::start(), address.to_string());
    let allowed = other.addr.to_string();
    let breaker = ["--breaker", "2", "--breaker-time", "2s", "--retries", "1"];
    let proxy = Program::tunnel(&[&["--allow", &down, "--allow", &allowed], &breaker[..]].concat());
    assert_eq!(refusal(&proxy, &down).status, 502);
    assert_eq!(refusal(&proxy, &down).status, 502);
    // From now on it would accept.
    listen(&socket, 1).unwrap();
    let response = refusal(&proxy, &down);
    assert_eq!(response.status, 503);
    let error = response.field("proxy-status");
    assert_eq!(error, Some("uthread; error=destination_unavailable"));
    assert_eq!(connect(&mut proxy.connect(), &allowed), 200);
    crate::harness::wait_until(|| connect(&mut proxy.connect(), &down) == 200);
    assert_eq!(connect(&mut proxy.connect(), &down), 200);
}

/// Creates a listener that drops requests to connect, as its queue is full.
fn hanging() -> (OwnedFd, SocketAddr, Vec<TcpStream>) {
    let listener = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    listen(&listener, 0).unwrap();
    let addr: SocketAddr = rustix::net::getsockname(&listener)
        .unwrap()
        .try_into()
        .unwrap();
    let queued = vec![TcpStream::connect(addr).unwrap()];
    (listener, addr, queued)
}

#[test]
fn targets_that_hang() {
    let (_listener, addr, _queued) = hanging();
    let target = addr.to_string();
    let proxy = Program::tunnel(&["--allow", &target, "--connect-timeout", "100ms"]);
    let response = refusal(&proxy, &target);
    assert_eq!(response.status, 504);
    let error = response.field("proxy-status");
    assert_eq!(error, Some("uthread; error=connection_timeout"));
}

#[test]
fn requests_that_are_late() {
    let target = Target::start();
    let proxy = target.proxy(&["--header-timeout", "100ms"]);
    let mut silent = proxy.connect();
    assert_eq!(silent.response().status, 408);
    let mut slow = proxy.connect();
    slow.trickle_until_answered();
    assert_eq!(slow.response().status, 408);
}

#[test]
fn connections_beyond_a_limit() {
    let target = Target::start();
    let proxy = target.proxy(&["--max-connections", "1"]);
    let open = target.tunnel(&proxy);
    let response = refusal(&proxy, &target.addr.to_string());
    assert_eq!(response.status, 503);
    let error = response.field("proxy-status");
    assert_eq!(error, Some("uthread; error=connection_limit_reached"));
    drop(open);
    crate::harness::wait_until(|| {
        let mut client = proxy.connect();
        connect(&mut client, &target.addr.to_string()) == 200
    });

    let proxy = target.proxy(&["--max-per-client", "1"]);
    let (_first, _server) = target.tunnel(&proxy);
    assert_eq!(refusal(&proxy, &target.addr.to_string()).status, 503);
}

#[test]
fn a_program_without_descriptors_refuses() {
    let target = Target::start();
    let proxy = target.proxy(&["--workers", "1"]);
    let mut client = proxy.connect();
    // The first byte is read before the limit is lowered, so that the connection has been accepted.
    client.send("CONNECT");
    let (_other, _server) = target.tunnel(&proxy);
    proxy.limit_descriptors(3);
    assert_eq!(connect_rest(&mut client, &target), 503);
}

fn connect_rest(client: &mut crate::harness::Client, target: &Target) -> u16 {
    let host = target.addr;
    client.send(format!(" {host} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.response().status
}

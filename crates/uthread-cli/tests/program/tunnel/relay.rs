//! Bytes in both directions, and the ends of streams.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

use super::{Target, connect, drivers};
use crate::harness::{Client, Program};

/// Number of bytes, above what sockets and pipes hold together, and no multiple of a buffer.
const MANY_BYTES: usize = 20_000_003;

#[test]
fn each_end_of_a_stream_is_passed_on_by_itself() {
    for driver in drivers() {
        let target = Target::start();
        let proxy = target.proxy(&["--driver", driver]);
        let (mut client, mut server) = target.tunnel(&proxy);
        client.send("question");
        client.get_ref().shutdown(Shutdown::Write).unwrap();
        assert_eq!(server.rest(), b"question");
        server.send("a late answer");
        assert_eq!(client.read_exact(13), b"a late answer");
        drop(server);
        assert_eq!(client.rest(), b"");
    }
}

#[test]
fn bytes_behind_the_request_reach_the_target() {
    let target = Target::start();
    let proxy = target.proxy(&[]);
    let mut client = proxy.connect();
    let host = target.addr;
    client.send(format!(
        "CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\nearly"
    ));
    assert_eq!(client.response_head().status, 200);
    assert_eq!(target.accept().read_exact(5), b"early");
}

#[test]
fn one_empty_line_before_the_request_is_ignored() {
    let target = Target::start();
    let proxy = target.proxy(&[]);
    let host = target.addr;
    let request = format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    for (before, status) in [
        ("\r\n", 200),
        ("\r\n\r\n", 400),
        ("\n", 400),
        (" \r\n", 400),
    ] {
        let mut client = proxy.connect();
        client.send(format!("{before}{request}"));
        assert_eq!(client.response_head().status, status, "{before:?}");
    }
}

/// Sends and receives at the same time, and compares.
fn exchange(client: &Client, server: &Client, bytes: &[u8]) {
    let pass = |mut from: &TcpStream, mut to: &TcpStream| {
        thread::scope(|scope| {
            scope.spawn(|| {
                from.write_all(bytes).unwrap();
                from.shutdown(Shutdown::Write).unwrap();
            });
            let mut received = Vec::new();
            to.read_to_end(&mut received).unwrap();
            assert!(received == bytes);
        });
    };
    thread::scope(|scope| {
        scope.spawn(|| pass(client.get_ref(), server.get_ref()));
        pass(server.get_ref(), client.get_ref());
    });
}

#[test]
fn many_bytes_both_ways_at_once() {
    let bytes: Vec<u8> = (0..MANY_BYTES).map(|at| (at % 251) as u8).collect();
    for driver in drivers() {
        let target = Target::start();
        let proxy = target.proxy(&["--driver", driver, "--workers", "2"]);
        let (client, server) = target.tunnel(&proxy);
        exchange(&client, &server, &bytes);
    }
}

#[test]
fn many_bytes_pass_without_descriptors_for_pipes() {
    let bytes: Vec<u8> = (0..MANY_BYTES / 10).map(|at| (at % 251) as u8).collect();
    let target = Target::start();
    let proxy = target.proxy(&["--workers", "1"]);
    let (client, server) = target.tunnel(&proxy);
    proxy.limit_descriptors(3);
    exchange(&client, &server, &bytes);
}

#[test]
fn a_reset_is_passed_on_as_a_reset() {
    for driver in drivers() {
        let target = Target::start();
        let proxy = target.proxy(&["--driver", driver]);
        let (mut client, server) = target.tunnel(&proxy);
        client.send("x");
        set_socket_linger(server.get_ref(), Some(Duration::ZERO)).unwrap();
        drop(server);
        let end = client.get_ref().read(&mut [0]).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::ConnectionReset, "{driver}");
    }
}

#[test]
fn a_forwarder_needs_no_request() {
    let target = Target::start();
    let to = target.addr.to_string();
    let forwarder = Program::tunnel(&["--to", &to]);
    let mut client = forwarder.connect();
    client.send("hello");
    let mut server = target.accept();
    assert_eq!(server.read_exact(5), b"hello");
    server.send("world");
    assert_eq!(client.read_exact(5), b"world");
}

#[test]
fn a_connection_keeps_to_its_rate() {
    let target = Target::start();
    let proxy = target.proxy(&["--rate", "1M"]);
    let (mut client, mut server) = target.tunnel(&proxy);
    let bytes = vec![7; 512 * 1024];
    let start = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| client.send(&bytes));
        assert!(server.read_exact(bytes.len()) == bytes);
    });
    // The last piece is not waited for.
    assert!(
        start.elapsed() >= Duration::from_millis(440),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn names_are_resolved() {
    let target = Target::start();
    let name = format!("localhost:{}", target.addr.port());
    let proxy = Program::tunnel(&["--allow", &name]);
    for _ in 0..2 {
        let mut client = proxy.connect();
        assert_eq!(connect(&mut client, &name.to_uppercase()), 200);
        client.send("x");
        assert_eq!(target.accept().read_exact(1), b"x");
    }
}

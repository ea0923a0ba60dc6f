//! Clients that are too slow.

use crate::harness::{Program, sparse_file};
use crate::restrict::has_ring;

/// How long the server waits for a client that goes on at once: longer than either waits for a CPU.
const PATIENCE: &str = "1s";

#[test]
fn a_slow_head_is_answered_408() {
    let program = Program::serve(&[], &["--header-timeout", PATIENCE]);
    for begun in ["G", "GET / HTTP/1.1\r\nHost: a\r\nX: "] {
        let mut client = program.connect();
        client.send(begun);
        let response = client.response();
        assert_eq!(
            (response.status, response.field("connection")),
            (408, Some("close"))
        );
        assert_eq!(client.rest(), b"");
    }
}

#[test]
fn the_deadline_of_a_head_is_not_moved_by_its_bytes() {
    let program = Program::serve(&[], &["--header-timeout", PATIENCE]);
    let mut client = program.connect();
    client.send("GET / HTTP/1.1\r\nX: ");
    client.trickle_until_answered();
    assert_eq!(client.response().status, 408);
}

#[test]
fn a_body_that_does_not_come_is_answered_408() {
    let program = Program::serve(&[], &["--header-timeout", PATIENCE]);
    let mut client = program.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc");
    assert_eq!(client.response().status, 408);
    assert_eq!(client.rest(), b"");
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let program = Program::serve(&[("a", "hello")], &["--idle-timeout", PATIENCE]);
    let mut fresh = program.connect();
    let mut used = program.connect();
    used.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(used.response().text(), "hello");
    assert_eq!(used.rest(), b"");
    assert_eq!(fresh.rest(), b"");
}

#[test]
fn a_client_that_never_reads_is_cut() {
    let mut program = Program::serve(&[], &["--write-timeout", "200ms", "--log", "json"]);
    sparse_file(&program.dir().join("large"), 64 << 20);
    let mut client = program.connect();
    client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    let line = program.stdout_line();
    assert!(line.contains("\"status\":200,\"complete\":false"), "{line}");
    assert!(client.count_rest() < 64 << 20);
}

#[test]
fn a_request_after_a_pause_is_answered() {
    for driver in ["uring", "epoll", "threads"] {
        if driver == "uring" && !has_ring("the driver uring") {
            continue;
        }
        let program = Program::serve(&[("a", "hello")], &["--driver", driver]);
        let mut client = program.connect();
        // Long enough for the server to release the receive buffer.
        for pause_ms in [0, 100, 0, 100] {
            std::thread::sleep(std::time::Duration::from_millis(pause_ms));
            client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(client.response().text(), "hello", "{driver}");
        }
    }
}

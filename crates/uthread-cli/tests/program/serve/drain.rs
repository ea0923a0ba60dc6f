//! Shutdown: running responses finish, idle connections close, and slow ones are cut and counted.

use rustix::process::Signal;

use crate::harness::{Program, sparse_file};

const LARGE_BYTES: usize = 64 << 20;

/// Returns a program that is sending a response far larger than the sockets' buffers.
fn with_response_under_way(args: &[&str]) -> (Program, crate::harness::Client) {
    let program = Program::serve(&[], args);
    sparse_file(&program.dir().join("large"), LARGE_BYTES as u64);
    let mut client = program.connect();
    client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response_head().status, 200);
    (program, client)
}

#[test]
fn a_running_response_finishes() {
    let (mut program, mut client) = with_response_under_way(&[]);
    program.terminate();
    program.await_refusal();
    client.read_exact(LARGE_BYTES);
    assert_eq!(client.rest(), b"");
    program.stderr_line("stopped: served 1 requests, cut 0 connections");
    assert_eq!(program.exit_code(), 0);
}

#[test]
fn a_request_half_received_is_answered_with_close() {
    let mut program = Program::serve(&[("a", "hello")], &[]);
    let mut client = program.connect();
    // The response to the first request shows that half of the second one has arrived, too.
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /a HTTP/1.1\r\n");
    assert_eq!(client.response().field("connection"), None);
    program.terminate();
    program.await_refusal();
    client.send("Host: a\r\n\r\n");
    let response = client.response();
    assert_eq!(
        (response.text(), response.field("connection")),
        ("hello", Some("close"))
    );
    assert_eq!(client.rest(), b"");
    drop(client);
    assert_eq!(program.exit_code(), 0);
}

#[test]
fn idle_connections_close_long_before_the_grace_period_ends() {
    let mut program = Program::serve(&[("a", "hello")], &["--grace", "1h"]);
    let mut fresh = program.connect();
    let mut used = program.connect();
    used.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(used.response().text(), "hello");
    program.terminate();
    assert_eq!(used.rest(), b"");
    assert_eq!(fresh.count_rest(), 0);
    program.stderr_line("stopped: served 1 requests, cut 0 connections");
    assert_eq!(program.exit_code(), 0);
}

#[test]
fn a_request_on_an_idle_connection_is_answered_with_close() {
    // A drain leaves a second to requests on their way.
    let mut program = Program::serve(&[("a", "hello")], &[]);
    let mut client = program.connect();
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().field("connection"), None);
    program.terminate();
    program.await_refusal();
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    let response = client.response();
    assert_eq!(
        (response.text(), response.field("connection")),
        ("hello", Some("close"))
    );
    drop(client);
    assert_eq!(program.exit_code(), 0);
}

#[test]
fn connections_that_were_not_yet_accepted_are_answered() {
    let mut program = Program::serve(&[("a", "hello")], &[]);
    program.signal(Signal::STOP);
    let clients = (0..20).map(|_| {
        let mut client = program.connect();
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        client
    });
    let clients = Vec::from_iter(clients);
    program.terminate();
    program.signal(Signal::CONT);
    for mut client in clients {
        assert_eq!(client.response().text(), "hello");
    }
    program.stderr_line("stopped: served 20 requests, cut 0 connections");
    assert_eq!(program.exit_code(), 0);
}

#[test]
fn connections_beyond_the_grace_period_are_cut_and_counted() {
    let (mut program, mut client) = with_response_under_way(&["--grace", "100ms"]);
    program.terminate();
    program.stderr_line("stopped: served 1 requests, cut 1 connections");
    assert_eq!(program.exit_code(), 3);
    assert!(client.count_rest() < LARGE_BYTES as u64);
}

#[test]
fn a_second_signal_cuts_at_once() {
    let (mut program, mut client) = with_response_under_way(&["--grace", "1h"]);
    program.terminate();
    program.await_refusal();
    program.terminate();
    program.stderr_line("cut 1 connections");
    assert_eq!(program.exit_code(), 3);
    assert!(client.count_rest() < LARGE_BYTES as u64);
}

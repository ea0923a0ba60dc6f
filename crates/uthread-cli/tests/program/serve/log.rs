//! The access log.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::harness::Program;

#[test]
fn the_common_format() {
    let mut program = Program::serve(&[("a", "hello")], &["--log", "common"]);
    program.get("/a");
    let line = program.stdout_line();
    let (client, rest) = line.split_once(" - - [").unwrap();
    let (date, rest) = rest.split_once("] ").unwrap();
    assert_eq!(client, "127.0.0.1");
    assert_eq!(rest, "\"GET /a HTTP/1.1\" 200 5\n");
    assert_eq!(date.len(), "06/Nov/1994:08:49:37 +0000".len());
    program.get("/none?\"quoted\"\\\u{e9}");
    let line = program.stdout_line();
    assert!(
        line.contains("\"GET /none?\\x22quoted\\x22\\x5c\\xc3\\xa9 HTTP/1.1\" 404 "),
        "{line}"
    );
    program.connect().send("nonsense\r\n\r\n");
    let line = program.stdout_line();
    assert!(line.contains("] \"-\" 400 "), "{line}");
}

#[test]
fn the_json_format() {
    let mut program = Program::serve(&[("a", "hello")], &["--log", "json"]);
    program.get_with("/a?\"", "User-Agent: x\"\\\u{e9}\r\nReferer: http://b/\r\n");
    let line = program.stdout_line();
    assert!(
        line.starts_with("{\"time\":\"20") && line.ends_with("}\n"),
        "{line}"
    );
    for piece in [
        "\"client\":\"127.0.0.1\"",
        "\"method\":\"GET\",\"target\":\"/a?\\u0022\",\"version\":\"HTTP/1.1\"",
        "\"referer\":\"http://b/\",\"user_agent\":\"x\\u0022\\u005c\\u00c3\\u00a9\"",
        "\"status\":200,\"bytes\":5,\"complete\":true,\"duration_us\":",
    ] {
        assert!(line.contains(piece), "{piece} in {line}");
    }
}

#[test]
fn a_reader_that_is_slow_loses_nothing() {
    const REQUESTS: usize = 1000;
    let mut program = Program::serve(&[], &["--log", "common"]);
    let mut client = program.connect();
    let path = "x".repeat(4000);
    let (answered, answers) = mpsc::channel();
    let writer = thread::spawn(move || {
        // 4 MB of log lines: more than the pipe and the server's buffer hold, so requests wait
        // until the log is read.
        for _ in 0..REQUESTS {
            client.send(format!("HEAD /{path} HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert_eq!(client.response_head().status, 404);
            answered.send(()).unwrap();
        }
    });
    // Start reading when the responses have stopped. Starting too early would only prove less.
    let mut before_reading = 0;
    while answers.recv_timeout(Duration::from_millis(300)).is_ok() {
        before_reading += 1;
    }
    assert!(
        before_reading < REQUESTS,
        "the log took more than its bound"
    );
    for _ in 0..REQUESTS {
        assert!(program.stdout_line().ends_with(" HTTP/1.1\" 404 0\n"));
    }
    writer.join().unwrap();
}

#[test]
fn a_log_with_nothing_to_write_does_not_delay_the_end() {
    let mut program = Program::serve(&[("a", "hello")], &["--log", "common"]);
    program.get("/a");
    program.stdout_line();
    program.terminate();
    let line = program.stderr_line("");
    assert!(line.contains("stopped: served 1 requests"), "{line}");
}

#[test]
fn lines_are_written_before_the_end() {
    let mut program = Program::serve(&[("a", "hello")], &["--log", "common"]);
    program.get("/a");
    program.terminate();
    assert_eq!(program.exit_code(), 0);
    assert!(program.stdout_line().contains("GET /a"));
}

#[test]
fn a_closed_stdout_turns_the_log_off_and_nothing_else() {
    let mut program = Program::serve(&[("a", "hello")], &["--log", "common"]);
    drop(program.stdout.take());
    assert_eq!(program.get("/a").text(), "hello");
    program.stderr_line("turned off the access log");
    assert_eq!(program.get("/a").text(), "hello");
    program.terminate();
    assert_eq!(program.exit_code(), 0);
}

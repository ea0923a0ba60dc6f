//! The access log.

use std::fs::File;
use std::io::BufReader;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_setfl, mknodat};

use crate::harness::{Program, read_line, site};

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
fn the_log_goes_on_when_stdout_takes_lines_again() {
    let site = site(&[("a", "hello")]);
    let fifo = site.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let open = || {
        // Opening a FIFO without a writer would wait for one.
        let mut options = File::options();
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = options.read(true).custom_flags(flags).open(&fifo).unwrap();
        fcntl_setfl(&file, OFlags::empty()).unwrap();
        BufReader::new(file)
    };
    let mut reader = open();
    let script = "exec \"$0\" serve --listen 127.0.0.1:0 --log common . >fifo";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_uthread")]);
    let mut program = Program::serving(command.current_dir(site.path()));
    program.get("/a?first");
    assert!(read_line(&mut reader).contains("GET /a?first"));
    drop(reader);
    assert_eq!(program.get("/a?lost").text(), "hello");
    let line = program.stderr_line("losing lines of the access log");
    assert!(line.contains("Broken pipe"), "{line}");
    let mut reader = open();
    for target in ["/a?again", "/a?on"] {
        program.get(target);
        assert!(read_line(&mut reader).contains(target));
    }
    let line = program.stderr_line("stdout takes the access log again");
    assert!(line.ends_with(": lost 1 line\n"), "{line}");
    drop(reader);
    program.get("/a?last");
    program.terminate();
    program.stderr_line("lost 1 line of the access log");
}

#[test]
fn a_closed_stdout_ends_the_log_and_nothing_else() {
    let mut program = Program::serve(&[("a", "hello")], &["--log", "common"]);
    drop(program.stdout.take());
    assert_eq!(program.get("/a").text(), "hello");
    program.stderr_line("losing lines of the access log");
    assert_eq!(program.get("/a").text(), "hello");
    program.terminate();
    assert_eq!(program.exit_code(), 0);
}

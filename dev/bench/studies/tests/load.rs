//! The load as the studies run it: every message is answered, and it ends with its input.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::Value;

/// Starts a command of the program, and returns it with its first line.
fn start(arguments: &[&str]) -> (Child, String, BufReader<std::process::ChildStdout>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uthread-bench"));
    let command = command.args(arguments).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let (mut line, mut output) = (String::new(), BufReader::new(child.stdout.take().unwrap()));
    output.read_line(&mut line).unwrap();
    (child, line.trim().to_owned(), output)
}

#[test]
fn every_kind_of_load_is_answered() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming().map(Result::unwrap) {
            thread::spawn(move || io::copy(&mut &stream, &mut &stream));
        }
    });
    let mut answered = Vec::new();
    let rate = r#", "rate": 2000"#;
    let ways = [r#", "spin": true"#, r#", "has_threads": true"#];
    let ways = ways.map(|way| format!("{rate}{way}"));
    for more in ["", rate, &ways[0], &ways[1]] {
        let plan = format!(r#"{{ "connections": 20, "seconds": 1 {more} }}"#);
        let (mut load, line, mut output) = start(&["load", &address, &plan]);
        assert_eq!(line, "connected");
        load.stdin.as_mut().unwrap().write_all(b"run\n").unwrap();
        let mut report = String::new();
        output.read_line(&mut report).unwrap();
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["driver"] == "threads", more.contains("threads"));
        assert!(report["latency_us"]["max"].as_f64().unwrap() > 0.0);
        answered.push(report["answered"].as_u64().unwrap());
        // The load keeps its connections until its input ends, which `wait` closes.
        assert!(load.try_wait().unwrap().is_none());
        assert!(load.wait().unwrap().success());
    }
    assert!(answered[0] >= 20);
    // The schedule is random, but the same each time.
    assert!(answered[1] == answered[2] && answered[1] == answered[3]);
    assert!((1900..2100).contains(&answered[1]));
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let (_, line, _) = start(&[
        "load",
        &closed.to_string(),
        r#"{ "connections": 1, "seconds": 1 }"#,
    ]);
    let refused = "failed: 0 connections are open: 1 refused: ";
    assert!(line.starts_with(refused), "{line}");
}

//! The load and our own echo server, as the studies run them: every answer is right, and both end with their input.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_uthread-bench");
const CONNECTIONS: u64 = 20;

/// Loads a server for a second, and returns the report.
fn load(more: Value) -> Value {
    let mut plan = json!({ "connections": CONNECTIONS, "seconds": 1 });
    plan.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let mut server = Command::new(PROGRAM)
        .args(["own", "echo", "0", "2", "5"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    let stdout = server.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut address).unwrap();
    let mut load = Command::new(PROGRAM)
        .args(["load", address.trim(), &plan.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(load.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "connected");
    load.stdin.as_mut().unwrap().write_all(b"run\n").unwrap();
    let report = lines.next().unwrap().unwrap();
    // It keeps its connections until its input ends. `wait` closes it, as it does the server's.
    assert!(load.try_wait().unwrap().is_none());
    assert!(load.wait().unwrap().success());
    assert!(server.wait().unwrap().success());
    serde_json::from_str(&report).unwrap()
}

#[test]
fn a_refused_connection_is_reported() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let output = Command::new(PROGRAM)
        .args([
            "load",
            &free.to_string(),
            r#"{ "connections": 1, "seconds": 1 }"#,
        ])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.starts_with("failed: 0 connections are open: 1 refused: "),
        "{said}"
    );
}

#[test]
fn a_closed_loop_is_answered_on_all_connections() {
    let report = load(json!({}));
    assert!(report["answered"].as_u64().unwrap() >= CONNECTIONS);
    assert!(report["latency_us"]["max"].as_f64().unwrap() > 0.0);
}

#[test]
fn an_open_loop_is_answered_as_often_as_it_was_due() {
    let answered = [false, true].map(|spin| {
        let report = load(json!({ "rate": 2000, "spin": spin }));
        report["answered"].as_u64().unwrap()
    });
    // The schedule is random, but the same each time.
    assert_eq!(answered[0], answered[1]);
    assert!((1900..2100).contains(&answered[0]), "{answered:?}");
}

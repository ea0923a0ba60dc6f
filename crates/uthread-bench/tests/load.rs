//! The load against our own echo server, as the studies run them: every answer is right, and the server ends when told.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_uthread-bench");
const CONNECTIONS: u64 = 20;

/// Loads a server for a second, and returns the report.
fn load(arguments: &[&str]) -> Value {
    let mut server = Command::new(PROGRAM)
        .args(["own", "echo", "0", "2", "5"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    let stdout = server.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut address).unwrap();
    let output = Command::new(PROGRAM)
        .args(["load", address.trim(), "--warm-up-seconds=0", "--seconds=1"])
        .arg(format!("--connections={CONNECTIONS}"))
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    // `wait` closes the standard input.
    assert!(server.wait().unwrap().success());
    assert!(output.status.success(), "{}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_closed_loop_is_answered_on_all_connections() {
    let report = load(&[]);
    assert!(report["answered"].as_u64().unwrap() >= CONNECTIONS);
    assert!(report["max_us"].as_f64().unwrap() > 0.0);
}

#[test]
fn an_open_loop_is_answered_as_often_as_it_was_due() {
    let answered = [&[][..], &["--spin"]].map(|more: &[&str]| {
        let report = load(&[&["--rate=2000"], more].concat());
        report["answered"].as_u64().unwrap()
    });
    // The schedule is random, but the same each time.
    assert_eq!(answered[0], answered[1]);
    assert!((1900..2100).contains(&answered[0]), "{answered:?}");
}

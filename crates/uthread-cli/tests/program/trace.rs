//! `uthread trace` of a running server.

use std::fs;

use serde_json::Value;

use crate::harness::{Program, command};

#[test]
fn a_trace_of_a_server_is_written() {
    let program = Program::echo(&[]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let pid = program.pid().to_string();
    let arguments = ["trace", &pid, "--for", "50ms", "--fibers", "-o"];
    let output = command(&arguments).arg(&path).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let summary = String::from_utf8(output.stdout).unwrap();
    assert!(summary.contains(" events of "), "{summary}");
    let trace: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert!(!trace["traceEvents"].as_array().unwrap().is_empty());
}

#[test]
fn what_cannot_be_traced_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let output = command(&["trace", "2147483647", "-o"])
        .arg(&path)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/proc/2147483647/"));

    let program = Program::echo(&[]);
    let pid = program.pid().to_string();
    let output = command(&["trace", &pid, "-o", "/nowhere/trace.json"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/trace.json"));
}

//! `uthread dump`: the fibers of a server.
#![cfg(target_arch = "x86_64")]

use serde_json::Value;

use crate::harness::{Program, command, wait_until};

/// Returns the output of `uthread dump` for a program, which has to succeed.
fn dump(program: &Program, options: &[&str]) -> String {
    let pid = program.pid().to_string();
    let arguments = [&["dump", &*pid], options].concat();
    let output = command(&arguments).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_fibers_of_a_server_are_shown() {
    let program = Program::echo(&[]);
    let _clients = [program.connect(), program.connect()];
    let reads = ["--waiting-on", "TcpStream", "--json"];
    let fibers = |json: &Value| json["groups"][0]["fibers"].as_array().map_or(0, Vec::len);
    wait_until(|| fibers(&serde_json::from_str(&dump(&program, &reads)).unwrap()) == 2);

    let page = dump(&program, &[]);
    assert!(
        page.starts_with(&format!("process {}: ", program.pid())),
        "{page}"
    );
    assert!(
        page.contains("2 fibers, waiting for an operation"),
        "{page}"
    );
    assert!(page.contains("TcpListener"), "{page}");
    let page = dump(&program, &["--no-stop"]);
    assert!(page.contains(" workers, not stopped\n"), "{page}");
    let page = dump(&program, &["--older-than", "1h"]);
    assert!(page.contains(": 0 fibers on "), "{page}");
    let page = dump(&program, &["--name", "no such name"]);
    assert!(page.contains(": 0 fibers on "), "{page}");
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let output = command(&["dump", &i32::MAX.to_string()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/proc/2147483647/"));
}

//! Ctrl-C: no file stays, and what was measured has been written.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};

use super::{folder, is_empty, read_json};
use crate::harness::command;

#[test]
fn nothing_stays_after_an_interrupt() {
    let (disk, output) = (folder(), folder());
    let json = output.path().join("a.json");
    let mut command = command(&["iobench", "rand-read", "--only", "pread", "--depths", "1"]);
    command.args(["--mib", "1", "--blocks", "1000", "--rounds", "100"]);
    command
        .args(["--quiet-wait", "0", "--dir"])
        .arg(disk.path());
    command.arg("--json").arg(&json);
    // Ctrl-C reaches the measuring process too.
    command
        .process_group(0)
        .stderr(Stdio::piped())
        .stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
    let is_progress = |line: &String| line.starts_with('[') || line.contains("--dir");
    let line = errors
        .find_map(|line| line.ok().filter(is_progress))
        .unwrap();
    if line.contains("--dir") {
        println!("not tested here: {line}");
        child.wait().unwrap();
        return;
    }
    assert!(is_empty(disk.path()), "the files have no names");
    kill_process_group(Pid::from_child(&child), Signal::INT).unwrap();
    let rest: Vec<String> = errors.map_while(Result::ok).collect();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{rest:?}");
    assert!(rest.last().unwrap().contains("interrupted"), "{rest:?}");
    assert!(is_empty(disk.path()));
    let results = read_json(&json);
    let rounds = &results["studies"][0]["panels"][0]["rounds"][0][0];
    let count = rounds.as_array().unwrap().len();
    assert!((1..100).contains(&count), "{count} rounds");
}

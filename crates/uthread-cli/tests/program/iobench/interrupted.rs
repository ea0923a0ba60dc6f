//! Ctrl-C: no file stays, and what was measured has been written. `kill -9`: nothing goes on
//! measuring.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

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

#[test]
fn the_measuring_process_ends_with_the_program() {
    let disk = folder();
    let mut command = command(&["iobench", "rand-read", "--only", "pread", "--depths", "1"]);
    command.args(["--mib", "1", "--blocks", "100000000", "--rounds", "1"]);
    command
        .args(["--quiet-wait", "0", "--dir"])
        .arg(disk.path());
    let mut child = command
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let measuring = (0..1000).find_map(|_| {
        thread::sleep(Duration::from_millis(10));
        let text = fs::read_to_string(&children).ok()?;
        let pid: u32 = text.split_whitespace().next()?.parse().ok()?;
        // One of them finds out whether the technique works here, and ends at once.
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        line.contains("\"requests\":100000000").then_some(pid)
    });
    let Some(measuring) = measuring else {
        println!("not tested here: {:?}", child.wait());
        return;
    };
    child.kill().unwrap();
    child.wait().unwrap();
    let state = || fs::read_to_string(format!("/proc/{measuring}/stat")).unwrap_or_default();
    let has_ended = (0..2000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        let state = state();
        state.is_empty() || state.contains(") Z ")
    });
    assert!(has_ended, "{}", state());
}

//! The command `requests` with few requests: every figure is there.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_uthread-peer");

fn own(arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    let command = command.args(arguments).stdin(Stdio::null());
    command.output().unwrap()
}

#[test]
fn requests_have_a_cost_alone_and_together() {
    for fibers in ["1", "32"] {
        let output = own(&["requests", fibers, "3200"]);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let (ready, costs) = text.split_once('\n').unwrap();
        assert_eq!(ready, "ready");
        let costs: Vec<f64> = costs
            .split_whitespace()
            .map(|cost| cost.parse().unwrap())
            .collect();
        assert!(
            costs.len() == 2 && costs.iter().all(|&cost| cost > 0.0),
            "{text}"
        );
    }
    assert!(!own(&["requests", "32", "31"]).status.success());
    assert!(!own(&["requests", "0", "31"]).status.success());
    assert!(!own(&["nothing", "1"]).status.success());
}

#[test]
fn requests_wait_for_the_process_that_counts_their_calls() {
    let mut program = Command::new(PROGRAM)
        .args(["requests", "2", "100"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = program.stdin.take().unwrap();
    let mut from = BufReader::new(program.stdout.take().unwrap());
    let [mut ready, mut cost] = [String::new(), String::new()];
    from.read_line(&mut ready).unwrap();
    assert_eq!(ready, "ready\n");
    to.write_all(b"\n").unwrap();
    from.read_line(&mut cost).unwrap();
    assert_eq!(cost.split_whitespace().count(), 2, "{cost}");
    assert_eq!(program.try_wait().unwrap(), None, "its counts are read now");
    to.write_all(b"\n").unwrap();
    assert!(program.wait().unwrap().success());
}

#[test]
fn fibers_hold_the_stack_that_they_use_while_all_wait() {
    const FIBERS: u64 = 100;
    const BYTES: u64 = 64 * 1024;
    let growth = |command: &str| {
        let mut program = Command::new(PROGRAM)
            .args([command, &FIBERS.to_string(), "64"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut to = program.stdin.take().unwrap();
        let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
        let mut resident = Vec::new();
        for stage in ["before", "peak", "ended"] {
            assert_eq!(lines.next().unwrap().unwrap(), stage);
            resident.push(resident_bytes(program.id()));
            to.write_all(b"\n").unwrap();
        }
        assert!(program.wait().unwrap().success());
        resident[1] - resident[0]
    };
    assert!(growth("memory-held") >= FIBERS * BYTES);
    assert!(growth("memory") >= FIBERS * 4096);
}

#[test]
fn no_way_of_sharing_a_counter_loses_increments() {
    for way in ["batched", "shards", "atomic", "std-mutex", "mutex"] {
        for workers in ["0", "1", "2"] {
            let output = own(&["counter", way, workers, "3", "5000"]);
            assert!(output.status.success(), "{way} on {workers}: {output:?}");
            let cost: f64 = String::from_utf8(output.stdout)
                .unwrap()
                .trim()
                .parse()
                .unwrap();
            assert!(cost > 0.0, "{way} on {workers}: {cost}");
        }
    }
    assert!(!own(&["counter", "atomic", "1", "0", "1"]).status.success());
}

fn resident_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

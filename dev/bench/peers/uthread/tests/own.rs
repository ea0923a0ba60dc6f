//! Small runs of the commands that check their own results.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_uthread-peer");

fn own(arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    let command = command.args(arguments).stdin(Stdio::null());
    command.output().unwrap()
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
    assert!(!own(&["nothing", "1"]).status.success());
}

fn resident_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

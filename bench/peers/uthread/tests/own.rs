//! The commands `requests` and `disk` with few requests: every figure is there.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_uthread-peer");
const BLOCKS: u64 = 64;
/// Exit code of a study that cannot start.
const UNAVAILABLE: i32 = 2;

fn own(arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    let command = command.args(arguments).stdin(Stdio::null());
    command.output().unwrap()
}

/// Writes a file of numbered blocks; `wrong` names one with a wrong number.
fn blocks(name: &str, wrong: Option<u64>) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut bytes = Vec::new();
    for block in 0..BLOCKS {
        let number = if wrong == Some(block) { 0 } else { block };
        bytes.extend(number.to_le_bytes());
        bytes.resize((block as usize + 1) * 4096, 7);
    }
    fs::write(&path, bytes).unwrap();
    path
}

/// Reads it for a second. Returns `None` if the file system of the build has no `O_DIRECT`.
fn read(arguments: &[&str]) -> Option<Output> {
    let output = own(arguments);
    if output.status.code() == Some(UNAVAILABLE) {
        let reason = String::from_utf8_lossy(&output.stderr);
        assert!(reason.contains("--folder"), "{reason}");
        println!("reads past the page cache were not checked: {reason}");
        return None;
    }
    Some(output)
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
fn random_blocks_are_read_by_the_best_driver() {
    check_reads("right-blocks", &[], "random");
}

#[test]
fn a_file_is_read_in_order_by_threads() {
    check_reads("blocks-in-order", &["--driver", "threads"], "sequential");
}

fn check_reads(name: &str, mode: &[&str], pattern: &str) {
    let file = blocks(name, None);
    let reads = ["disk", file.to_str().unwrap(), pattern, "4", "1"];
    let Some(output) = read(&[mode, &reads].concat()) else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["reads"].as_u64().unwrap() >= 4, "{report}");
    for figure in ["per_second", "p50_us", "p99_us", "p999_us", "cpu_us"] {
        assert!(report[figure].as_f64().unwrap() > 0.0, "{figure}: {report}");
    }
}

#[test]
fn a_wrong_block_is_an_error() {
    let file = blocks("wrong-block", Some(BLOCKS - 1));
    let arguments = ["disk", file.to_str().unwrap(), "sequential", "1", "1"];
    let Some(output) = read(&arguments) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("block 63: 4096 bytes, which begin with [0, 0,"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(1));
}

//! `uthread iobench` with few requests to small files: its results, its refusals, and what it
//! leaves behind.

mod fio;
mod interrupted;
mod refusals;
mod results;
mod urgent;

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::command;

/// Exit code of a program that cannot start here.
const CANNOT_START: i32 = 2;
/// Options of all runs.
const SMALL: [&str; 8] = [
    "--mib",
    "1",
    "--blocks",
    "64",
    "--rounds",
    "1",
    "--quiet-wait",
    "0",
];

/// Returns an empty directory on the disk of the build.
fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn iobench(arguments: &[&str], dir: &Path) -> Command {
    let mut command = command(&["iobench"]);
    command.args(SMALL).args(arguments).arg("--dir").arg(dir);
    command
}

/// Runs it. Returns exit code and errors.
fn run(command: &mut Command) -> (i32, String) {
    let output = command.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), errors)
}

/// Returns `true` if it could not start because of the disk of the build or of missing permissions,
/// and says so.
fn is_skipped(code: i32, errors: &str) -> bool {
    let is_skipped = code == CANNOT_START && (errors.contains("--dir") || errors.contains("root"));
    if is_skipped {
        println!("not tested here: {errors}");
    }
    is_skipped
}

fn read_json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

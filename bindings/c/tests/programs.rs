//! Compiles the tests in C with the header and the library, and runs them on each driver.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The exit status of a program that finds no ring here.
const SKIPPED: i32 = 77;

/// Rounds of requests and pauses, of 1 ms on average.
const POLLING_ROUNDS: &str = "1000";

/// Returns the folder of the libraries that cargo has built with this test.
fn libraries() -> PathBuf {
    let own = env::current_exe().unwrap();
    own.parent().unwrap().to_owned()
}

fn compile(folder: &Path) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join("manager");
    let status = Command::new("cc")
        .args([
            "-std=gnu11",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pthread",
            "-o",
        ])
        .arg(&program)
        .arg(package.join("tests/manager.c"))
        .arg("-I")
        .arg(package.join("include"))
        .arg("-L")
        .arg(libraries())
        .arg("-luthread_ring")
        .arg(format!("-Wl,-rpath,{}", libraries().display()))
        .status()
        .unwrap();
    assert!(status.success(), "the tests in C do not compile");
    program
}

#[test]
fn programs_in_c_pass_on_each_driver() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path());
    for driver in ["1", "2"] {
        let status = Command::new(&program).arg(driver).status().unwrap();
        match status.code() {
            Some(SKIPPED) if driver == "1" => eprintln!("not checked: there is no ring here"),
            code => assert_eq!(code, Some(0), "driver {driver}"),
        }
    }
}

#[test]
fn kernel_polling_misses_no_request() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path());
    let mut polling = Command::new(&program);
    polling.args(["polling", POLLING_ROUNDS]);
    match polling.status().unwrap().code() {
        Some(SKIPPED) => eprintln!("not checked: the kernel refuses to poll"),
        code => assert_eq!(code, Some(0)),
    }
}

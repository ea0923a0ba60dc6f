//! Compiles the tests in C with the header and the library, and runs them on each driver.

mod library;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The exit status of a program that finds no ring here.
const SKIPPED: i32 = 77;

/// Rounds of requests and pauses, of 1 ms on average.
const POLLING_ROUNDS: &str = "1000";

fn compile(compiler: &str, folder: &Path) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join(compiler);
    let status = Command::new(compiler)
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
        .args(library::arguments("uthread_ring", folder))
        .status()
        .unwrap();
    assert!(status.success(), "the tests in C do not compile");
    program
}

#[test]
fn programs_in_c_pass_on_each_driver() {
    let folder = tempfile::tempdir().unwrap();
    for compiler in ["cc", "clang"] {
        if compiler != "cc" && Command::new(compiler).arg("--version").output().is_err() {
            eprintln!("not checked: there is no {compiler}");
            continue;
        }
        let program = compile(compiler, folder.path());
        for arguments in [&["1"][..], &["2"], &["polling", POLLING_ROUNDS]] {
            let status = Command::new(&program).args(arguments).status().unwrap();
            match status.code() {
                Some(SKIPPED) if arguments != ["2"] => {
                    eprintln!("not checked: the kernel refuses the ring of {arguments:?}");
                }
                code => assert_eq!(code, Some(0), "{compiler}, {arguments:?}"),
            }
        }
    }
}

#[test]
fn the_environment_changes_no_manager() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("cc", folder.path());
    let variables = [
        ("UTHREAD_LEAN", "1"),
        ("UTHREAD_DRIVER", "threads"),
        ("UTHREAD_DRIVER", "no driver"),
    ];
    for (variable, value) in variables {
        // The default driver, and epoll.
        for driver in ["0", "2"] {
            let mut manager = Command::new(&program);
            manager.args(["promises", driver]).env(variable, value);
            let status = manager.status().unwrap();
            assert!(
                status.success(),
                "{variable}={value}, driver {driver}: {status}"
            );
        }
    }
}

//! Tests with `#[uthread::test]`: these. Those that are ignored fail, each in a process of its own
//! that another one looks at.

use std::error::Error;
use std::process::{Command, Stdio};
use std::{env, thread};

use uthread::sync::mpsc::channel;
use uthread::{current, spawn};

#[uthread::test(workers = 1)]
fn the_body_runs_in_a_fiber() {
    assert_eq!(current().name(), Some("main"));
    assert_eq!(thread::current().name(), Some("uthread-0"));
    let (sender, receiver) = channel();
    spawn(move || sender.send(5));
    assert_eq!(receiver.recv(), Ok(5));
}

#[uthread::test(driver = "threads")]
fn the_driver_is_the_chosen_one() {
    assert_eq!(thread::current().name(), Some("main"));
}

#[uthread::test]
#[should_panic(expected = "on purpose")]
fn a_panic_is_expected() {
    panic!("on purpose");
}

#[uthread::test]
fn a_result_is_returned() -> Result<(), Box<dyn Error>> {
    let number: u32 = "5".parse()?;
    assert_eq!(number, 5);
    Ok(())
}

#[uthread::test]
#[ignore = "fails"]
fn fails_by_an_error() -> Result<(), Box<dyn Error>> {
    Err("the error".into())
}

#[uthread::test]
#[ignore = "fails"]
fn fails_by_a_panic() {
    panic!("the panic");
}

#[uthread::test]
#[ignore = "fails"]
#[should_panic(expected = "another panic")]
fn fails_by_another_panic() {
    panic!("the panic");
}

/// Ends the process if the fiber that has it is unwound.
struct AbortOnDrop;

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        std::process::abort();
    }
}

fn leave_fibers() {
    let (begins, begun) = channel();
    for _ in 0..4 {
        let begins = begins.clone();
        spawn(move || {
            let _abort = AbortOnDrop;
            begins.send(()).unwrap();
            loop {
                uthread::thread::park();
            }
        });
        begun.recv().unwrap();
    }
}

#[uthread::test]
fn fibers_left_by_a_test_are_not_unwound() {
    leave_fibers();
}

#[uthread::test(driver = "threads")]
#[should_panic(expected = "on purpose")]
fn fibers_left_by_a_failed_test_are_not_unwound() {
    leave_fibers();
    panic!("on purpose");
}

/// Returns the outcome of an ignored test.
fn outcome(test: &str) -> String {
    let output = Command::new(env::current_exe().unwrap())
        .args([test, "--exact", "--ignored"])
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(101));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn failures_are_reported() {
    let cases = [
        ("fails_by_an_error", "Error: \"the error\""),
        ("fails_by_a_panic", "the panic"),
        ("fails_by_a_panic", "uthread: fiber "),
        ("fails_by_another_panic", "\"another panic\""),
    ];
    for (test, said) in cases {
        let outcome = outcome(test);
        let (_, about) = outcome
            .split_once(&format!("---- {test} stdout ----"))
            .unwrap();
        assert!(about.contains(said), "captured: {outcome}");
    }
}

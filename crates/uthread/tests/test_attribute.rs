//! Tests with `#[uthread::test]`: these. Those that are ignored fail, each in a process of its own
//! that another one looks at.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, fs, thread};

use uthread::runtime::Metrics;
use uthread::sync::mpsc::channel;
use uthread::thread::Builder;
use uthread::{current, spawn, yield_now};

/// Reached only where something never happens.
const HANG: Duration = Duration::from_secs(30);

#[uthread::test(workers = 1)]
fn the_body_runs_in_a_fiber() {
    assert_eq!(current().name(), Some("main"));
    let name = fs::read_to_string("/proc/thread-self/comm").unwrap();
    assert_eq!(name, "uthread-0\n");
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

/// Blocks the only worker for good, after a fiber has panicked.
#[uthread::test(driver = "epoll", workers = 1)]
#[ignore = "hangs"]
fn hangs() {
    let lost = Builder::new().name("lost".into());
    assert!(lost.spawn(|| panic!("the reason")).unwrap().join().is_err());
    let lock = Arc::new(Mutex::new(()));
    let _guard = lock.lock();
    let other = Arc::clone(&lock);
    let blocked = spawn(move || drop(other.lock()));
    yield_now();
    blocked.join().unwrap();
}

/// Stalls until that was counted, once more after the first report.
#[uthread::test(driver = "epoll", workers = 1)]
#[ignore = "needs a standard error that takes nothing"]
fn the_monitor_goes_on_without_a_standard_error() {
    for expected in 1..=2 {
        let is_over = Arc::new(AtomicBool::new(false));
        let waits = Arc::clone(&is_over);
        let waiting = spawn(move || {
            while !waits.load(Ordering::Relaxed) {
                yield_now();
            }
        });
        yield_now();
        while Metrics::current().unwrap().total().stalls < expected {
            thread::sleep(Duration::from_millis(1));
        }
        is_over.store(true, Ordering::Relaxed);
        waiting.join().unwrap();
    }
}

/// Starts an ignored test, in which a worker of lean fibers stalls. `capture` is an option of the harness.
fn start(test: &str, capture: &str, errors: Stdio) -> Child {
    Command::new(env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", capture])
        .env("UTHREAD_LEAN", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors)
        .spawn()
        .unwrap()
}

/// Ends a child that takes too long.
fn watch(child: Child) -> Arc<Mutex<Child>> {
    let child = Arc::new(Mutex::new(child));
    let watched = Arc::clone(&child);
    thread::spawn(move || {
        thread::sleep(HANG);
        let _ = watched.lock().unwrap().kill();
    });
    child
}

#[test]
fn a_test_that_hangs_shows_why() {
    let mut child = start("hangs", "--quiet", Stdio::piped());
    let errors = BufReader::new(child.stderr.take().unwrap());
    let child = watch(child);
    let mut shown = Vec::new();
    for line in errors.lines() {
        shown.push(line.unwrap());
        if shown.last().unwrap().contains("has kept worker 0") {
            break;
        }
    }
    let _ = child.lock().unwrap().kill();
    child.lock().unwrap().wait().unwrap();
    let says = |text| shown.iter().any(|line: &String| line.contains(text));
    assert!(says("has kept worker 0") && says("\"lost\""), "{shown:?}");
}

#[test]
fn reports_that_nobody_can_read_are_harmless() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let test = "the_monitor_goes_on_without_a_standard_error";
    let child = watch(start(test, "--nocapture", full.into()));
    let status = loop {
        match child.lock().unwrap().try_wait().unwrap() {
            Some(status) => break status,
            None => thread::sleep(Duration::from_millis(1)),
        }
    };
    assert!(status.success(), "{status}");
}

/// Returns the outcome of an ignored test, with what its fibers print: as they have thread-locals of
/// their own, the harness captures nothing of that.
fn outcome(test: &str) -> String {
    let output = Command::new(env::current_exe().unwrap())
        .args([test, "--exact", "--ignored"])
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(101));
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
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
        assert!(outcome.contains(said), "{outcome}");
    }
}

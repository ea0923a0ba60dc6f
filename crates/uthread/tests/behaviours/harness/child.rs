//! Trials in processes of their own, for behaviours that affect or end the whole process.

use std::process::{Command, Output, Stdio};
use std::{env, thread};

use rustix::process::{Resource, Rlimit, setrlimit};

use super::lacks;
use super::place::Place;

/// Set for a child; says which trial it is to be.
const CHILD: &str = "UTHREAD_TEST_CHILD";

/// Returns `true` in such a process.
pub(crate) fn is_child() -> bool {
    env::var_os(CHILD).is_some()
}

/// Repeats the calling trial in a process of its own and returns what came of it; `None` in that
/// process, which then does what is to be watched.
pub(crate) fn child() -> Option<Output> {
    if is_child() {
        // A child that is meant to crash leaves no core file.
        setrlimit(
            Resource::Core,
            Rlimit {
                current: Some(0),
                maximum: Some(0),
            },
        )
        .unwrap();
        return None;
    }
    let mut command = Command::new(env::current_exe().unwrap());
    command.stdin(Stdio::null());
    Some(repeat(&mut command))
}

/// Repeats the calling trial in the process that this command starts, which takes the arguments of
/// this program.
pub(crate) fn repeat(command: &mut Command) -> Output {
    let thread = thread::current();
    let trial = thread.name().expect("the thread of a trial");
    command
        .args([trial, "--exact", "--test-threads=1"])
        .env(CHILD, trial)
        .env_remove("RUST_BACKTRACE")
        .output()
        .unwrap()
}

/// Runs the body in a process that runs no other trial.
pub(crate) fn alone(body: impl FnOnce()) {
    match child() {
        None => body(),
        Some(output) => assert_passed(&output),
    }
}

/// Checks that the trial of such a process has passed.
pub(crate) fn assert_passed(output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    if text.contains("1 ignored") {
        lacks("what its own process found missing");
    }
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Runs the body in the place in such a process: for what must not be disturbed by trials that
/// start processes, which have a copy of every descriptor for a moment, and for those that do.
pub(crate) fn run_alone(place: Place, body: impl FnOnce() + Send) {
    alone(|| place.run(body));
}

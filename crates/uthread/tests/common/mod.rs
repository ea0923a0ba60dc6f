//! What the tests share: the places where a behaviour has to hold, and children for what a whole
//! process shows.
#![allow(dead_code, reason = "each test file uses a part")]

use std::env;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, setrlimit};
use uthread::Runtime;

/// How long a test waits for what must happen: reached only where it never does.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Set for a child; says which test it is to be.
const CHILD: &str = "UTHREAD_TEST_CHILD";

/// A runtime of so many workers.
pub(crate) fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

/// Runs a behaviour in a fiber: on runtimes of one and of two workers.
pub(crate) fn in_fibers(behaviour: impl Fn() + Send + Sync) {
    for workers in [1, 2] {
        runtime(workers).run(&behaviour);
    }
}

/// Runs a behaviour on a plain thread, and in a fiber.
pub(crate) fn everywhere(behaviour: impl Fn() + Send + Sync) {
    behaviour();
    in_fibers(behaviour);
}

/// Waits for what another thread does soon but tells nobody.
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LONG, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Repeats the calling test, given by its name, in a process of its own and returns what came of
/// it; `None` in that process, which then does what is to be watched.
pub(crate) fn child(test: &str) -> Option<Output> {
    if env::var(CHILD).is_ok_and(|name| name == test) {
        // What is meant to crash leaves no core file.
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
    let output = Command::new(env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, test)
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Some(output)
}

/// The same for a test that has to pass there.
pub(crate) fn passes_in_child(test: &str) -> bool {
    let Some(output) = child(test) else {
        return false;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    true
}

//! What the tests share: the places where a behaviour has to hold, and children for what a whole
//! process shows.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod child;

use std::time::{Duration, Instant};

use uthread::Runtime;

/// How long a test waits for what must happen: reached only where it never does.
pub(crate) const LONG: Duration = Duration::from_secs(30);

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

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

/// A runtime of so many workers whose fibers migrate.
#[allow(unsafe_code, reason = "the tests promise it")]
pub(crate) fn migrating(workers: usize) -> Runtime {
    // SAFETY: the fibers of these tests keep neither thread-locals nor values that are not `Send` across
    // calls that suspend them.
    unsafe { Runtime::builder().workers(workers).migrating() }
        .build()
        .unwrap()
}

/// The kinds of runtimes that every behaviour has to hold on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    One,
    Two,
    TwoMigrating,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::One, Kind::Two, Kind::TwoMigrating];

    pub(crate) fn runtime(self) -> Runtime {
        match self {
            Kind::One => runtime(1),
            Kind::Two => runtime(2),
            Kind::TwoMigrating => migrating(2),
        }
    }
}

/// Runs a behaviour in a fiber on each kind of runtime.
pub(crate) fn in_fibers(behaviour: impl Fn() + Send + Sync) {
    for kind in Kind::ALL {
        kind.runtime().run(&behaviour);
    }
}

/// Runs a behaviour on a plain thread, and in a fiber.
pub(crate) fn everywhere(behaviour: impl Fn() + Send + Sync) {
    behaviour();
    in_fibers(behaviour);
}

/// Returns when all fibers of a runtime of one worker wait, but for those that go on by themselves.
pub(crate) fn let_all_wait(runtime: &Runtime) {
    runtime.run(|| (0..100).for_each(|_| uthread::yield_now()));
}

/// Waits for what another thread does soon but tells nobody.
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LONG, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

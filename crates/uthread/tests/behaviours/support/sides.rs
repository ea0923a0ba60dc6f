//! The sides of a channel: fibers and threads in each mix.

use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::harness::place::Place;
use crate::support::spawn_begun;
use uthread::thread::{Cancelled, park};
use uthread::{JoinHandle, Runtime, spawn};

/// Where one end of a channel is used: in a fiber or in a thread.
pub(crate) enum Side<'a> {
    Fiber(&'a Runtime),
    Thread,
}

/// The code that runs on a side, to be joined.
pub(crate) enum Running<T> {
    Fiber(JoinHandle<T>),
    Thread(std::thread::JoinHandle<T>),
}

impl Side<'_> {
    pub(crate) fn start<T: Send + 'static>(
        &self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Running<T> {
        match self {
            Side::Fiber(runtime) => Running::Fiber(runtime.spawn(f)),
            Side::Thread => Running::Thread(std::thread::spawn(f)),
        }
    }
}

impl<T> Running<T> {
    pub(crate) fn join(self) -> T {
        let result = match self {
            Running::Fiber(fiber) => fiber.join(),
            Running::Thread(thread) => thread.join(),
        };
        result.unwrap_or_else(|payload| panic::resume_unwind(payload))
    }
}

/// Runs a behaviour with each mix of senders' and receiver's sides: two fibers, a thread and a fiber; or two
/// threads.
pub(crate) fn mixed(place: Place, behaviour: impl Fn(&Side<'_>, &Side<'_>)) {
    if place.is_outside() {
        return behaviour(&Side::Thread, &Side::Thread);
    }
    let runtime = place.runtime();
    behaviour(&Side::Fiber(&runtime), &Side::Fiber(&runtime));
    behaviour(&Side::Fiber(&runtime), &Side::Thread);
    behaviour(&Side::Thread, &Side::Fiber(&runtime));
}

/// Notes that it was dropped.
pub(crate) struct Counted(pub(crate) Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Calls its function when it is dropped.
pub(crate) struct InDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for InDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Runs fibers of one worker that never have to wait, until another fiber has run.
pub(crate) fn assert_neighbour_runs(place: Place, calls: impl Fn() + Send) {
    let neighbour = Arc::new(AtomicBool::new(false));
    let ran = Arc::clone(&neighbour);
    place.run(move || {
        spawn(move || ran.store(true, Ordering::Relaxed));
        let mut rounds = 0;
        while !neighbour.load(Ordering::Relaxed) {
            calls();
            rounds += 1;
            assert!(rounds < 10_000, "the neighbour starves");
        }
    });
}

/// Parks until it is cancelled.
pub(crate) fn park_for_ever() {
    loop {
        park();
    }
}

/// Expects that a fiber that never returns is cancelled at the end of its runtime.
pub(crate) fn assert_ends_with_runtime(place: Place, endless: impl FnOnce() + Send + 'static) {
    let runtime = place.runtime();
    let (fiber, _) = spawn_begun(&runtime, endless);
    drop(runtime);
    assert!(is_cancelled(fiber));
}

/// Waits for the end of a fiber. Returns `true` if it ended by cancellation.
pub(crate) fn is_cancelled<T>(fiber: JoinHandle<T>) -> bool {
    fiber.join().is_err_and(|payload| payload.is::<Cancelled>())
}

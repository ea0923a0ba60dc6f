//! How a caller waits: a fiber gives its worker up, a thread outside the runtime blocks.

use std::io;
use std::time::{Duration, Instant};

use super::current;
use super::worker::{Expiry, Worker};
use crate::driver::native::{self, Patience};
use crate::fiber::{FiberRef, Pause, Waiter};
use crate::op::Operation;

/// Carries an operation out; returns only after its terminal completion.
///
/// # Errors
///
/// The kernel's; `EAGAIN` after the timeout, `ECANCELED` once the fiber is cancelled.
pub(crate) fn perform(operation: &mut Operation<'_>, timeout: Option<Duration>) -> io::Result<u32> {
    match current::with_fiber(|worker| worker.perform(operation, timeout)) {
        Some(result) => result,
        None => native::perform(operation, Patience::new(timeout)),
    }
}

/// Waits for a wake-up of the caller; may return without one.
#[inline(always)]
pub(crate) fn park() {
    let parked = current::with_fiber(|worker| {
        if !worker.take_wake() {
            worker.suspend(Pause::Parked);
            worker.take_wake();
        }
    });
    if parked.is_none() {
        std::thread::park();
    }
}

/// The user's own park, ended by an unpark: unwound once the runtime is shut down. An unpark that came
/// during another wait, which took its wake-up, is remembered apart.
pub(crate) fn park_cancellable() {
    unwind_if_shut_down();
    let unparked = current::with_fiber(|worker| {
        let unparked = worker.running_fiber().control().take_unpark();
        if unparked {
            worker.take_wake(); // It came along.
        }
        unparked
    });
    // After shutdown nobody else ends a park in a destructor.
    if unparked != Some(true) && !is_shut_down() {
        park();
        current::with_fiber(|worker| worker.running_fiber().control().take_unpark());
    }
    unwind_if_shut_down();
}

/// Ends the calling fiber once its runtime is shut down, for a call that cannot return an error.
pub(crate) fn unwind_if_shut_down() {
    current::with_fiber(Worker::unwind_if_shut_down);
}

/// Whether the caller is a fiber whose runtime is shut down.
pub(crate) fn is_shut_down() -> bool {
    current::with_fiber(|worker| worker.shared().is_shut_down()).unwrap_or(false)
}

/// The error for a call of a fiber whose runtime is shut down.
pub(crate) fn refusal() -> Option<io::Error> {
    current::with_fiber(Worker::refusal).flatten()
}

/// Counts a spawn by a fiber whose runtime is shut down, so that a loop that restarts what has ended does
/// not go on for ever.
pub(crate) fn note_spawn() {
    let _ = refusal();
}

/// Waits until `done`, which whoever makes it true follows by a wake-up.
#[inline(always)]
pub(crate) fn park_until(done: impl Fn() -> bool) {
    while !done() {
        park();
    }
}

/// A handle by which the caller is woken from [`park`].
pub(crate) fn waiter() -> Waiter {
    match current::with_fiber(|worker| worker.running_reference()) {
        Some(fiber) => Waiter::Fiber(fiber),
        None => Waiter::Thread(std::thread::current()),
    }
}

/// Lets others run; unwound once the runtime is shut down.
#[inline(always)]
pub(crate) fn yield_now() {
    let yielded = current::with_fiber(|worker| {
        worker.unwind_if_shut_down();
        worker.requeue_running();
        worker.suspend(Pause::Held);
    });
    if yielded.is_none() {
        std::thread::yield_now();
    }
}

/// Lets others run in the midst of a call that can return an error.
///
/// # Errors
///
/// `ECANCELED` once the fiber is cancelled.
pub(crate) fn yield_within_call() -> io::Result<()> {
    let refused = current::with_fiber(|worker| {
        worker.requeue_running();
        worker.suspend(Pause::Held);
        worker.refusal()
    });
    match refused {
        Some(Some(cancelled)) => Err(cancelled),
        Some(None) => Ok(()),
        None => {
            std::thread::yield_now();
            Ok(())
        }
    }
}

/// The time by the clock that the caller's waits go by.
pub(crate) fn now() -> Instant {
    current::with_fiber(Worker::now).unwrap_or_else(Instant::now)
}

/// Waits until the deadline.
pub(crate) fn sleep_until(deadline: Instant) {
    let slept = current::with_fiber(|worker| {
        worker.unwind_if_shut_down();
        if worker.shared().is_shut_down() {
            return; // It is unwinding already, and nothing shall hold up the end.
        }
        worker.add_timer(deadline, Expiry::Resume(worker.running_fiber()));
        worker.note_unwinding(worker.running_fiber());
        worker.suspend(Pause::Held);
        worker.unwind_if_shut_down();
    });
    if slept.is_none() {
        std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
    }
}

/// Whether the caller is on a worker's thread, so that [`spawn_here`] may be called.
pub(crate) fn on_worker() -> bool {
    current::with_worker(|_| ()).is_some()
}

/// Queues a new fiber on the caller's worker.
///
/// # Panics
///
/// When the caller is on none.
pub(crate) fn spawn_here(fiber: FiberRef) {
    let spawned = current::with_worker(|worker| worker.spawn(fiber));
    assert!(spawned.is_some(), "only a worker has a queue of its own");
}

/// Takes a new fiber back that the calling fiber has queued, if it is still the newest of its worker:
/// true if only the caller has it now.
pub(crate) fn take_back(fiber: &FiberRef) -> bool {
    current::with_fiber(|worker| worker.take_back(fiber)).unwrap_or(false)
}

/// Whether the caller is a fiber.
pub(crate) fn in_fiber() -> bool {
    current::with_fiber(|_| ()).is_some()
}

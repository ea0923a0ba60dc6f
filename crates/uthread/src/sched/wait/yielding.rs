//! Letting other fibers run.

use std::io;

use super::{in_fiber, refuse_if_cancelled, running, unwind_if_cancelled};
use crate::fiber::Pause;
use crate::sched::budget;
use crate::sched::worker::calls;

/// Called once by each call that may have no need to wait: now and then lets others run, so that a fiber
/// that never waits does not keep its worker.
#[inline(always)]
pub(crate) fn spend_turn() {
    #[cold]
    #[inline(never)]
    fn let_others_run() {
        // A thread learns here that it is cancelled.
        if in_fiber() {
            yield_now();
        }
    }
    if budget::is_used_up() {
        let_others_run();
    }
}

/// Called by each look at what other fibers do that finds it not done yet, a try of a lock above all: as [`spend_turn`],
/// so that a loop of them lets the fiber run that it waits for. A cancelled fiber may go on with its loop as long as with
/// one of refused calls.
#[cold]
pub(crate) fn spend_try() {
    if in_fiber() && budget::is_used_up() {
        let _ = yield_within_call();
    }
}

/// Lets others run; unwound once the runtime is shut down.
#[inline(always)]
pub(crate) fn yield_now() {
    unwind_if_cancelled();
    pass_turn();
}

/// The same, whatever the caller's limits.
#[inline(always)]
pub(crate) fn pass_turn() {
    match running() {
        Some(fiber) => calls::suspend(fiber, Pause::Yielded),
        None => std::thread::yield_now(),
    }
}

/// Lets others run in the midst of a call that can return an error.
///
/// # Errors
///
/// `ECANCELED` once the fiber is cancelled.
pub(crate) fn yield_within_call() -> io::Result<()> {
    pass_turn();
    refuse_if_cancelled()
}

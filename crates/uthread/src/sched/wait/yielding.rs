//! Letting other fibers run.

use std::io;

use super::cancellation::unlimited;
use super::{in_fiber, refuse_if_cancelled, running, unwind_if_cancelled};
use crate::fiber::Pause;
use crate::sched::budget;
use crate::sched::worker::calls;

/// Called once by each call that may complete without waiting. Now and then it lets others run, so that a
/// fiber that never waits does not monopolize its worker.
#[inline(always)]
pub(crate) fn spend_turn() {
    #[cold]
    #[inline(never)]
    fn let_others_run() {
        // A thread notices here that it is cancelled.
        if in_fiber() {
            yield_now();
        }
    }
    if budget::is_used_up() {
        let_others_run();
    }
}

/// Called by each unsuccessful check of other fibers' work, above all by trying a lock. Now and then it lets
/// others run, so that a loop of such checks makes progress. A cancelled fiber may continue its loop as long
/// as a loop of refused calls.
#[cold]
pub(crate) fn spend_try() {
    if in_fiber() && budget::is_used_up() {
        let _ = yield_within_call();
    }
}

/// Lets others run. Unwinds the fiber if its runtime is shut down.
#[inline(always)]
pub(crate) fn yield_now() {
    match unlimited() {
        Some(fiber) => calls::suspend(fiber, Pause::Yielded),
        None => yield_within_limits(),
    }
}

#[inline(never)]
fn yield_within_limits() {
    unwind_if_cancelled();
    pass_turn();
}

/// Lets others run, whatever the caller's limits.
#[inline(always)]
pub(crate) fn pass_turn() {
    match running() {
        Some(fiber) => calls::suspend(fiber, Pause::Yielded),
        None => std::thread::yield_now(),
    }
}

/// Lets others run in the middle of a call that can return an error.
///
/// # Errors
///
/// `ECANCELED` or `ETIMEDOUT` if the caller may not wait.
pub(crate) fn yield_within_call() -> io::Result<()> {
    pass_turn();
    refuse_if_cancelled()
}

//! Letting other fibers run.
#![allow(
    clippy::inline_always,
    reason = "hot paths, whose instructions are counted"
)]

use std::io;

use super::cancellation::{refuse_if_cancelled, unlimited, unwind_if_cancelled};
use super::{in_fiber, running};
use crate::fiber::Pause;
use crate::root::Awaited;
use crate::sched::budget;
use crate::sched::worker::calls;

/// Lets others run now and then, so that a fiber that never waits does not monopolize its worker.
/// Called once by each call that may complete without waiting.
#[inline]
pub(crate) fn spend() {
    #[cold]
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

/// Begins a call that enters the kernel, never waits, and can return an error. Now and then it lets
/// others run.
///
/// # Errors
///
/// `ECANCELED` or `ETIMEDOUT` if the caller may not wait.
pub(crate) fn begin_call() -> io::Result<()> {
    if budget::is_used_up_by_system_call() {
        pass_in_fiber();
    }
    refuse_if_cancelled()
}

/// Lets others run now and then. Called after a call that has entered the kernel, never waits for
/// another fiber, and cannot return an error.
pub(crate) fn end_call() {
    if budget::is_used_up_by_system_call() {
        pass_in_fiber();
    }
}

/// Lets others run now and then, so that a loop of calls that rarely wait makes progress. Called by
/// each call that usually does not wait but affects other fibers or depends on them, such as taking
/// or trying a lock, or waking a fiber. A cancelled fiber may continue its loop as long as a loop
/// of refused calls.
#[inline]
pub(crate) fn spend_try() {
    if budget::is_used_up() {
        yield_in_fiber();
    }
}

/// Lets others run like [`spend_try`], and returns the [bits](super::holder_bits) of the caller.
#[inline]
pub(crate) fn spend_try_as_holder() -> u32 {
    let (is_used_up, address) = budget::is_used_up_at();
    if is_used_up {
        yield_in_fiber();
    }
    Awaited::bits_of(address as u64)
}

#[cold]
fn yield_in_fiber() {
    if in_fiber() {
        let _ = yield_within_call();
    }
}

/// Spends a turn like [`spend_try`], in the middle of a call that must not unwind.
pub(crate) fn spend_within_wait() {
    if budget::is_used_up() {
        pass_in_fiber();
    }
}

#[cold]
fn pass_in_fiber() {
    if in_fiber() {
        pass();
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

#[cold]
fn yield_within_limits() {
    unwind_if_cancelled();
    pass();
}

/// Lets others run, whatever the caller's limits.
#[inline(always)]
pub(crate) fn pass() {
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
    pass();
    refuse_if_cancelled()
}

//! Whether the caller may wait, and how it is told that it may not: by an error, or by unwinding.
//!
//! The caller is a fiber, on a worker or as a thread, or a plain thread, which has limits but no handle by
//! which it could be cancelled.

use std::time::Instant;
use std::{io, panic, thread};

use super::worker::{Worker, calls};
use super::{current, threads, wait};
use crate::fiber::limits::{Limits, Outer};
use crate::fiber::{Cancelled, Elapsed, Pause};
use crate::op;

/// Calls that fail, and fibers spawned in vain, before a caller is unwound: one that handles the errors
/// ends long before; a loop that only tries again would never.
pub(super) const REFUSALS_MAX: u32 = 100;

/// Why the caller may not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Cancelled,
    Elapsed,
}

impl End {
    fn error(self) -> io::Error {
        io::Error::from_raw_os_error(match self {
            End::Cancelled => op::CANCELLED,
            End::Elapsed => op::DEADLINE_PASSED,
        })
    }
}

/// Why the caller may not wait, if it may not. Cancellation comes before time.
#[inline(always)]
pub(crate) fn end() -> Option<End> {
    let is_free = current::with_fiber(|worker| {
        let fiber = worker.running_fiber();
        let limits = &fiber.control().limits;
        !limits.are_any() && !worker.shared().is_shut_down()
    });
    match is_free {
        Some(true) => None,
        _ => look_for_end(),
    }
}

/// The same of a caller that has limits, or is a thread.
#[inline(never)]
fn look_for_end() -> Option<End> {
    let shut_down = is_shut_down();
    let (is_cancelled, deadline) =
        with_limits(|limits| (limits.is_cancelled(shut_down), limits.deadline()));
    match deadline {
        _ if is_cancelled => {
            threads::note_end();
            Some(End::Cancelled)
        }
        None => None,
        Some(deadline) => (deadline <= wait::now()).then_some(End::Elapsed),
    }
}

/// Whether the caller may not wait.
#[inline]
pub(crate) fn is_cancelled() -> bool {
    end().is_some()
}

/// Whether the caller is a fiber whose runtime is shut down.
pub(crate) fn is_shut_down() -> bool {
    current::with_fiber(|worker| worker.shared().is_shut_down())
        .unwrap_or_else(|| threads::current().is_some_and(|seat| seat.is_shut_down()))
}

/// When the caller's calls stop to wait, if ever.
#[inline(always)]
pub(crate) fn deadline() -> Option<Instant> {
    let free = current::with_fiber(|worker| !worker.running_fiber().control().limits.are_any());
    match free {
        Some(true) => None,
        _ => look_for_deadline(),
    }
}

#[inline(never)]
fn look_for_deadline() -> Option<Instant> {
    with_limits(|limits| limits.deadline())
}

/// The earlier of that and a time of the call's own.
pub(crate) fn earliest(own: Option<Instant>) -> Option<Instant> {
    match (own, deadline()) {
        (Some(own), Some(deadline)) => Some(own.min(deadline)),
        (own, deadline) => own.or(deadline),
    }
}

/// The error of a call that may not wait.
#[inline(always)]
pub(crate) fn refusal() -> Option<io::Error> {
    end().map(refuse)
}

#[cold]
fn refuse(end: End) -> io::Error {
    if with_limits(|limits| limits.count_refusal()) > REFUSALS_MAX {
        unwind(end);
    }
    end.error()
}

/// The same as a result.
///
/// # Errors
///
/// That one, if the caller may not wait.
#[inline(always)]
pub(crate) fn refuse_if_cancelled() -> io::Result<()> {
    refusal().map_or(Ok(()), Err)
}

/// Ends what the caller does if it may not wait, for a call that cannot return an error. Where it cannot be
/// ended, because panics abort or it unwinds already, the call lets others run and returns.
#[inline]
pub(crate) fn unwind_if_cancelled() {
    if let Some(end) = end() {
        unwind(end);
    }
}

#[cold]
fn unwind(end: End) {
    let begins = current::with_fiber(Worker::begin_unwinding)
        .unwrap_or_else(|| cfg!(panic = "unwind") && !thread::panicking());
    if begins {
        match end {
            End::Cancelled => panic::resume_unwind(Box::new(Cancelled)),
            End::Elapsed => panic::resume_unwind(Box::new(Elapsed)),
        }
    }
    // Whoever is waited for must be able to go on.
    match current::with_fiber(Worker::running_fiber) {
        Some(fiber) => calls::suspend(fiber, Pause::Yielded),
        None => thread::yield_now(),
    }
}

/// Goes back to the limits of before when it is dropped.
pub(crate) struct Within(Option<Outer>);

impl Within {
    /// Changes the caller's limits.
    pub(crate) fn enter(change: impl FnOnce(&Limits) -> Outer) -> Within {
        Within(Some(with_limits(|limits| change(limits))))
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        if let Some(outer) = self.0.take() {
            with_limits(|limits| limits.leave(outer));
        }
    }
}

/// Calls `action` with the caller's limits.
fn with_limits<R>(action: impl FnOnce(&Limits) -> R) -> R {
    let mut action = Some(action);
    let mut act = |limits: &Limits| action.take().expect("there is one caller")(limits);
    match wait::with_control(|control| act(&control.limits)) {
        Some(result) => result,
        None => with_own(act),
    }
}

/// Calls `action` with the limits of a thread that is no fiber. Never inlined, as every access to a
/// thread-local that fibers make.
#[inline(never)]
fn with_own<R>(action: impl FnOnce(&Limits) -> R) -> R {
    thread_local! {
        static LIMITS: Limits = Limits::default();
    }
    let mut action = Some(action);
    let mut act = |limits: &Limits| action.take().expect("it is called once")(limits);
    match LIMITS.try_with(&mut act) {
        Ok(result) => result,
        // The thread is at its end.
        Err(_) => act(&Limits::default()),
    }
}

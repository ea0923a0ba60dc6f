//! Waiting for a wake-up, a deadline or cancellation.
#![allow(
    clippy::inline_always,
    reason = "hot paths, whose instructions are counted"
)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::driver::native;
use crate::fiber::{Control, Pause, Started};
use crate::sched::caller::cancellation::{
    self, End, is_cancelled, is_shut_down, unwind_if_cancelled, vanish_if_abandoned,
};
use crate::sched::caller::turn::yield_now;
use crate::sched::caller::{in_fiber, now, running, with_control};
use crate::sched::threads;
use crate::sched::worker::{calls, current};

/// Waits for a wake-up of the caller. May return spuriously.
#[inline(always)]
pub(crate) fn park() {
    match running() {
        Some(fiber) => park_fiber(fiber),
        None => block(None),
    }
}

#[inline]
fn park_fiber(fiber: Started) {
    let token = &fiber.control().token;
    if !token.take() {
        calls::suspend(fiber, Pause::Parked);
        token.take();
    }
}

/// Waits for a wake-up, at most until `time` or the caller's own deadline. May return spuriously.
pub(crate) fn park_deadline(time: Instant) {
    let deadline = cancellation::timer_until(time);
    match running() {
        Some(fiber) => {
            let token = &fiber.control().token;
            if !token.take() {
                calls::park_deadline(fiber, deadline);
                token.take();
            }
        }
        None => block(Some(deadline)),
    }
}

/// Waits like [`park_deadline`], for a thread. Never inlined, as `std` accesses thread-locals here.
#[inline(never)]
fn block(deadline: Option<Instant>) {
    match (threads::current(), deadline) {
        (Some(context), deadline) => context.park(deadline),
        (None, None) => std::thread::park(),
        (None, Some(deadline)) => {
            std::thread::park_timeout(deadline.saturating_duration_since(Instant::now()));
        }
    }
}

/// Waits for a wake-up unless the caller may not wait. Returns `false`, at once, if it may not. May
/// return spuriously.
#[inline]
pub(crate) fn park_unless_cancelled() -> bool {
    let may_wait = !is_cancelled();
    if may_wait {
        match cancellation::deadline() {
            None => park(),
            Some(deadline) => park_deadline(deadline),
        }
    }
    may_wait
}

/// Waits like [`park_unless_cancelled`]. Also returns `false` if the caller may not wait any more
/// after the wait.
#[inline(always)]
pub(crate) fn park_until_cancelled() -> bool {
    if let Some(fiber) = cancellation::unlimited() {
        park_fiber(fiber);
        fiber.control().limits.is_empty() || !is_cancelled()
    } else {
        park_unless_cancelled() && !is_cancelled()
    }
}

/// Waits for a wake-up unless the caller may not wait, at most until the deadline. May return
/// spuriously.
pub(crate) fn park_unless_over(deadline: Option<Instant>) {
    match deadline {
        None => drop(park_unless_cancelled()),
        Some(deadline) if !is_cancelled() => park_deadline(deadline),
        Some(_) => {}
    }
}

/// Waits for an unpark until the deadline, and unwinds the caller if it may not wait. An unpark
/// that arrived during another wait, which consumed its wake-up, is remembered separately.
#[inline]
pub(crate) fn park_cancellable(deadline: Option<Instant>) {
    match (cancellation::unlimited(), deadline) {
        (Some(fiber), None) => park_unlimited(fiber),
        _ => park_within_limits(deadline),
    }
}

#[inline(always)]
fn park_unlimited(fiber: Started) {
    let control = fiber.control();
    if control.take_unpark() {
        control.token.take(); // It came along.
    } else {
        if !control.token.take() {
            calls::suspend(fiber, Pause::Parked);
            control.token.take();
        }
        control.take_unpark();
    }
    if !control.limits.is_empty() {
        unwind_if_cancelled();
    }
}

#[inline(never)]
fn park_within_limits(deadline: Option<Instant>) {
    unwind_if_cancelled();
    if with_control(Control::take_unpark) == Some(true) {
        with_control(|control| control.token.take()); // It came along.
    } else if !is_cancelled() {
        // After a shutdown nothing else ends a park in a destructor.
        cancellation::earliest(deadline).map_or_else(park, park_deadline);
        with_control(Control::take_unpark);
    }
    unwind_if_cancelled();
}

/// Waits until `done` returns `true`. The change must be followed by a wake-up.
pub(crate) fn park_until(done: impl Fn() -> bool) {
    while !done() {
        park();
    }
}

/// Waits until `done` returns `true`, for work of other fibers of the same runtime. If the caller
/// is cancelled, calls `cancel` to cancel them. The caller may be abandoned with them.
pub(crate) fn park_until_or_cancel(done: impl Fn() -> bool, cancel: impl FnOnce()) {
    let done_or_vanish = || {
        let done = done();
        if !done && is_shut_down() {
            vanish_if_abandoned("it waits for fibers that do not end");
        }
        done
    };
    park_until_or_cancel_outside(done_or_vanish, cancel);
}

/// Waits like [`park_until_or_cancel`], for work outside of the runtime.
pub(crate) fn park_until_or_cancel_outside(done: impl Fn() -> bool, cancel: impl FnOnce()) {
    let mut cancel = Some(cancel);
    while !done() {
        if cancel.is_some()
            && cancellation::end() == Some(End::Cancelled)
            && let Some(cancel) = cancel.take()
        {
            cancel();
        } else {
            park();
        }
    }
}

/// Records, until it is dropped, that the calling fiber waits for an event outside of its runtime
/// that will occur.
pub(crate) struct Outside(());

impl Outside {
    pub(crate) fn enter() -> Outside {
        count_outside(|count| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        Outside(())
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        count_outside(|count| {
            count.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Changes the runtime's count of outside waits. Relaxed: a slightly old count delays the end of a
/// runtime without progress.
fn count_outside(change: impl Fn(&AtomicUsize)) {
    if current::with_fiber(|worker| change(&worker.shared().outside)).is_none()
        && let Some(context) = threads::current()
    {
        change(context.outside());
    }
}

/// Waits until `time`, or until the caller may not wait any more.
pub(crate) fn sleep_until(time: Instant) {
    unwind_if_cancelled();
    if now() >= time {
        return yield_now();
    }
    // The caller may be unwinding already, and must not delay the end.
    while !is_cancelled() && now() < time {
        if in_fiber() {
            park_deadline(time);
        } else {
            // Not a park, which would consume the wake-up of the next one.
            native::sleep_until(cancellation::earliest(Some(time)).unwrap_or(time));
        }
    }
    unwind_if_cancelled();
}

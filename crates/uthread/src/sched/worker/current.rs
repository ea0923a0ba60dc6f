//! The worker of the calling thread and the fiber that it runs: the only place where they are
//! stored and read.
#![allow(
    clippy::inline_always,
    reason = "hot paths, whose instructions are counted"
)]

use std::ptr;

use super::{Worker, budget};
use crate::fiber::{Started, kept};
use crate::stack::overflow::Victim;
use crate::tls::record::{self, Record};

/// Returns the worker of the calling thread, or null. Never inlined: an inlined copy would let the
/// compiler keep a thread-local address across a switch.
#[inline(never)]
fn current() -> *const Worker {
    record::with(|record| record.worker.get()).cast()
}

/// Returns the calling fiber, if the caller is a fiber on a worker. Never inlined, like
/// [`current`].
#[inline(never)]
pub(crate) fn running() -> Option<Started> {
    record::with(fiber_of)
}

/// Returns both [`current`] and [`running`].
#[inline(never)]
fn current_and_running() -> (*const Worker, Option<Started>) {
    record::with(|record| (record.worker.get().cast(), fiber_of(record)))
}

#[allow(unsafe_code, reason = "a pointer without its type")]
fn fiber_of(record: &Record) -> Option<Started> {
    // SAFETY: the pointer is that of the running fiber, which lives, or null.
    unsafe { Started::from_raw(record.fiber.get()) }
}

/// Sets the running fiber. Called by the loop of the worker, which stays on its thread. Always
/// inlined: the address of the thread-local is in a register during the loop.
#[inline(always)]
pub(super) fn set_running(fiber: Option<Started>) {
    record::with(|record| {
        record
            .fiber
            .set(fiber.map_or(ptr::null(), Started::into_raw))
    });
}

/// Records the running fiber, and the worker that runs it, in thread-local storage that is the
/// fiber's own. Never inlined: an address of the worker's storage must not be used for it.
#[inline(never)]
pub(super) fn record_in_fiber(worker: &Worker, fiber: Started) {
    record::with(|record| {
        record.worker.set(ptr::from_ref(worker).cast());
        record.fiber.set(fiber.into_raw());
    });
    worker.fibers.lend_kept();
    budget::renew();
}

/// Calls `action` while the calling thread is this worker.
pub(crate) fn enter(worker: &Worker, action: impl FnOnce()) {
    let _leave = Leave(set_worker(worker));
    action();
}

fn set_worker(worker: *const Worker) -> *const Worker {
    record::with(|record| record.worker.replace(worker.cast())).cast()
}

struct Leave(*const Worker);

impl Drop for Leave {
    fn drop(&mut self) {
        set_worker(self.0);
    }
}

/// Makes the calling thread a plain one until it ends, so that none of its calls use a worker. This
/// includes the fiber that it runs, which must not return.
pub(crate) fn leave_for_good() {
    set_worker(ptr::null());
    set_running(None);
    kept::withdraw();
}

/// Calls `action` with the worker of the calling thread, if it is one.
#[inline]
#[allow(unsafe_code, reason = "the worker lives as long as its thread runs it")]
pub(crate) fn with_worker<R>(action: impl FnOnce(&Worker) -> R) -> Option<R> {
    // SAFETY: `enter` sets the pointer only while it borrows the worker on this thread.
    unsafe { current().as_ref() }.map(action)
}

/// Calls `action` with the worker of the calling fiber, if the caller is a fiber on a worker.
pub(crate) fn with_fiber<R>(action: impl FnOnce(&Worker) -> R) -> Option<R> {
    with_running(|worker, _| action(worker))
}

/// Calls `action` with the calling fiber and its worker, if the caller is a fiber on a worker.
#[inline]
#[allow(unsafe_code, reason = "the worker lives as long as its thread runs it")]
pub(crate) fn with_running<R>(action: impl FnOnce(&Worker, Started) -> R) -> Option<R> {
    let (worker, fiber) = current_and_running();
    // SAFETY: as in `with_worker`.
    Some(action(unsafe { worker.as_ref() }?, fiber?))
}

/// Reports the running fiber to the overflow handler if the address is in its guard page.
pub(crate) fn find_overflow(address: usize, report: &mut dyn FnMut(Victim<'_>)) {
    if let Some(fiber) = running() {
        let control = fiber.control();
        if let Some(stack_size) = control.guarding_stack_size(address) {
            report(Victim {
                id: control.id().get(),
                name: control.name(),
                spawn_site: control.spawn_site(),
                stack_size,
            });
        }
    }
}

//! The worker of the calling thread and the fiber that it runs: the only place where they are
//! stored and read.
#![allow(
    clippy::inline_always,
    reason = "hot paths, whose instructions are counted"
)]

use std::ptr::{self, NonNull};

use super::Worker;
use crate::clock::VirtualClock;
use crate::fiber::{Started, kept};
use crate::stack::overflow::Victim;
use crate::tls::claim::Named;
use crate::tls::record::{self, Record};

/// Returns the calling fiber, if the caller is a fiber on a worker. Never inlined: an inlined copy
/// would let the compiler keep a thread-local address across a switch.
#[inline(never)]
pub(crate) fn running() -> Option<Started> {
    record::with(fiber_of)
}

#[allow(unsafe_code, reason = "a pointer without its type")]
fn fiber_of(record: &Record) -> Option<Started> {
    // SAFETY: the pointer is that of the running fiber, which lives, or null.
    unsafe { Started::from_raw(record.fiber.get()) }
}

/// Returns `true` if the caller is a fiber with thread-local storage of its own, and runs code that
/// is not the library's, on its own stack: so in no handler of a signal that has another one.
#[inline(never)]
pub(crate) fn runs_foreign_code() -> bool {
    record::with(|record| {
        let is_foreign = record.pointer.get() != 0 && !record.claim.is_in_call();
        let here = ptr::from_ref(&is_foreign).addr();
        is_foreign && fiber_of(record).is_some_and(|fiber| fiber.control().has_on_stack(here))
    })
}

/// Sets the running fiber. Called by the loop of the worker, which stays on its thread, whose own
/// thread pointer is set. Always inlined: the address of the thread-local is in a register during
/// the loop.
#[inline(always)]
pub(super) fn set_running(fiber: Option<Started>) {
    record::with(|record| {
        record
            .fiber
            .set(fiber.map_or(ptr::null(), Started::into_raw))
    });
}

/// Records the fiber that starts, and its worker, in thread-local storage that is the fiber's own,
/// to which the thread pointer refers. Returns the record. Never inlined: an address of other
/// storage must not be used for it.
#[inline(never)]
pub(super) fn record_in_fiber(worker: &Worker, fiber: Started, pointer: usize) -> NonNull<Record> {
    record::with(|record| {
        record.claim.name(ptr::from_ref(worker).cast());
        record.fiber.set(fiber.into_raw());
        record.pointer.set(pointer);
        NonNull::from_ref(record)
    })
}

/// Calls `action` while the calling thread is this worker.
pub(crate) fn enter<R>(worker: &Worker, action: impl FnOnce() -> R) -> R {
    let _leave = Leave(set_worker(worker));
    action()
}

fn set_worker(worker: *const Worker) -> *const Worker {
    record::with(|record| record.claim.name(worker.cast())).cast()
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
    record::with(|record: &Record| record.claim.begin_call());
    set_worker(ptr::null());
    set_running(None);
    kept::withdraw();
}

/// Makes the only thread of a forked child a plain one.
pub(crate) fn leave_in_child() {
    record::with(|record| record.claim.forget());
    leave_for_good();
}

/// Calls `action`. Until it returns or unwinds, the worker is not taken from the calling fiber.
#[inline]
pub(in crate::sched) fn in_call<R>(action: impl FnOnce() -> R) -> R {
    struct End {
        record: &'static Record,
        outer: bool,
    }
    impl Drop for End {
        fn drop(&mut self) {
            self.record.claim.end_call(self.outer);
        }
    }
    let record = own_record();
    let _end = End {
        record,
        outer: record.claim.begin_call(),
    };
    action()
}

/// Returns the record of the caller. A fiber with thread-local storage of its own takes it along
/// when it suspends, and others stay on their thread.
#[inline]
#[allow(unsafe_code, reason = "a record without its lifetime")]
fn own_record() -> &'static Record {
    // SAFETY: the record lives as long as the caller, who alone uses the reference.
    unsafe { record::own().as_ref() }
}

/// Calls `action` with the worker of the calling thread, if it is one. A fiber whose worker was
/// taken suspends first, to be handed back to it.
#[inline]
pub(crate) fn with_worker<R>(action: impl FnOnce(&Worker) -> R) -> Option<R> {
    with_worker_of(own_record(), await_worker_of, action)
}

/// Calls `action` with the worker of the calling thread, if it is one. Never suspends the caller:
/// one whose worker was taken has none.
#[inline]
pub(crate) fn with_present_worker<R>(action: impl FnOnce(&Worker) -> R) -> Option<R> {
    with_worker_of(own_record(), |_| (), action)
}

/// Calls `read` with the clock of the caller's runtime, if that has virtual time. Never suspends the
/// caller, which may be a fiber that runs without its worker.
pub(crate) fn with_virtual_clock<R>(read: impl Fn(&VirtualClock) -> Option<R>) -> Option<R> {
    let of_worker = with_present_worker(|worker| read(worker.queues.remote.clock.as_ref()?));
    of_worker.unwrap_or_else(|| read(running()?.control().scheduler()?.clock()?))
}

/// Calls `action` with the worker that the record names. If one was taken, calls `wait` first.
#[inline(always)]
#[allow(unsafe_code, reason = "the worker lives as long as its thread runs it")]
fn with_worker_of<R>(
    record: &Record,
    wait: impl FnOnce(&Record),
    action: impl FnOnce(&Worker) -> R,
) -> Option<R> {
    let outer = record.claim.begin_call();
    let worker = match record.claim.worker() {
        Some(worker) => worker,
        None => {
            wait(record);
            match record.claim.named() {
                Named::Worker(worker) => worker.as_ptr().cast_const(),
                Named::None | Named::Taken => {
                    record.claim.end_call(outer);
                    return None;
                }
            }
        }
    };
    // SAFETY: `enter` names the worker only while it borrows it on this thread.
    let result = action(unsafe { &*worker.cast::<Worker>() });
    record.claim.end_call(outer);
    Some(result)
}

#[allow(unsafe_code, reason = "leaving the fiber's stack")]
fn await_worker_of(record: &Record) {
    if let Some(fiber) = fiber_of(record) {
        // SAFETY: the caller is the running fiber.
        unsafe { fiber.control().await_worker(record) };
    }
}

/// Calls `action` with the worker of the calling fiber, if the caller is a fiber on a worker.
pub(crate) fn with_fiber<R>(action: impl FnOnce(&Worker) -> R) -> Option<R> {
    with_running(|worker, _| action(worker))
}

/// Calls `action` with the calling fiber and its worker, if the caller is a fiber on a worker.
#[inline]
pub(crate) fn with_running<R>(action: impl FnOnce(&Worker, Started) -> R) -> Option<R> {
    let record = own_record();
    let fiber = fiber_of(record)?;
    with_worker_of(record, await_worker_of, |worker| action(worker, fiber))
}

/// Calls `action` like [`with_running`], but never suspends the caller.
#[inline]
pub(crate) fn with_present_running<R>(action: impl FnOnce(&Worker, Started) -> R) -> Option<R> {
    let record = own_record();
    let fiber = fiber_of(record)?;
    with_worker_of(record, |_| (), |worker| action(worker, fiber))
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

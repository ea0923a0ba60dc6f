//! The worker of the calling thread: the only place where it is stored and read.

use std::cell::Cell;
use std::ptr;

use super::Worker;
use crate::stack::overflow::Victim;

thread_local! {
    static CURRENT: Cell<*const Worker> = const { Cell::new(ptr::null()) };
}

/// The only read. Never inlined: an inlined copy would let the compiler keep a thread-local address across a
/// switch.
#[inline(never)]
fn current() -> *const Worker {
    CURRENT.get()
}

/// Calls `action` while the calling thread is this worker.
pub(crate) fn enter(worker: &Worker, action: impl FnOnce()) {
    let _leave = Leave(CURRENT.replace(worker));
    action();
}

struct Leave(*const Worker);

impl Drop for Leave {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Makes the calling thread a plain one until it ends, so that none of its calls use a worker. This includes
/// the fiber that it runs, which must not return.
pub(crate) fn leave_for_good() {
    CURRENT.set(ptr::null());
}

/// Calls `action` with the worker of the calling thread, if it is one.
#[inline(always)]
#[allow(unsafe_code, reason = "the worker lives as long as its thread runs it")]
pub(crate) fn with_worker<R>(action: impl FnOnce(&Worker) -> R) -> Option<R> {
    // SAFETY: `enter` sets the pointer only while it borrows the worker on this thread.
    unsafe { current().as_ref() }.map(action)
}

/// Calls `action` with the worker of the calling fiber, if the caller is a fiber on a worker.
#[inline(always)]
pub(crate) fn with_fiber<R>(action: impl FnOnce(&Worker) -> R) -> Option<R> {
    with_worker(|worker| worker.running().is_some().then(|| action(worker))).flatten()
}

/// Reports the running fiber to the overflow handler if the address is in its guard page.
pub(crate) fn find_overflow(address: usize, report: &mut dyn FnMut(Victim<'_>)) {
    with_fiber(|worker| {
        let fiber = worker.running_fiber();
        let control = fiber.control();
        if let Some(stack_size) = control.guarding_stack_size(address) {
            report(Victim {
                id: control.id().get(),
                name: control.name(),
                spawn_site: control.spawn_site(),
                stack_size,
            });
        }
    });
}

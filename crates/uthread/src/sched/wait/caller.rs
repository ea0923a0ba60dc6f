//! The caller: a fiber on a worker, a fiber that is a thread, or a plain thread.

use std::ptr;
use std::time::{Duration, Instant};

use crate::fiber::locals::Locals;
use crate::fiber::{Control, WakeHandle};
use crate::sched::threads;
use crate::sched::worker::{Worker, current};

/// Returns a handle that wakes the caller from `park`.
pub(crate) fn wake_handle() -> WakeHandle {
    let reference = |worker: &Worker, fiber| worker.io.reference(&worker.queues, fiber);
    match current::with_running(reference) {
        Some(fiber) => WakeHandle::Fiber(fiber),
        None => threads::current().map_or_else(
            || WakeHandle::Thread(std::thread::current(), None),
            |context| context.wake_handle(),
        ),
    }
}

/// Returns `true` if the handle is that of the caller.
pub(crate) fn is_caller(waiter: &WakeHandle) -> bool {
    match waiter {
        WakeHandle::Fiber(fiber) => {
            with_control(|running| ptr::eq(fiber.control(), running)).unwrap_or(false)
        }
        WakeHandle::Thread(thread, _) => !in_fiber() && thread.id() == std::thread::current().id(),
    }
}

/// Returns the current time of the clock that the caller's waits use.
pub(crate) fn now() -> Instant {
    current::with_fiber(|worker| worker.io.now()).unwrap_or_else(Instant::now)
}

/// Returns `begin + duration`, or a time that is practically never reached if the clock cannot represent
/// that.
pub(crate) fn after(begin: Instant, duration: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    begin.checked_add(duration).unwrap_or(begin + CENTURY)
}

/// Returns `true` if the caller belongs to a runtime, so that `spawn_here` may be called.
pub(crate) fn is_inside() -> bool {
    current::with_worker(|_| ()).is_some() || threads::current().is_some()
}

/// Returns `true` if the caller is a fiber, on a worker or as a thread.
pub(crate) fn in_fiber() -> bool {
    with_control(|_| ()).is_some()
}

/// Returns `true` if the caller is a fiber on a worker, which it must not block.
pub(crate) fn is_on_worker() -> bool {
    current::running().is_some()
}

/// Calls `action` with the calling fiber's control block, if the caller is a fiber.
#[inline(always)]
pub(crate) fn with_control<R>(action: impl FnOnce(&Control) -> R) -> Option<R> {
    match current::running() {
        Some(fiber) => Some(action(fiber.control())),
        None => threads::current().map(|context| action(context.control())),
    }
}

/// Calls `action` with the calling fiber's local values, if the caller is a fiber.
#[inline(always)]
pub(crate) fn with_locals<R>(action: impl FnOnce(&Locals) -> R) -> Option<R> {
    with_control(|control| action(control.locals_or_new()))
}

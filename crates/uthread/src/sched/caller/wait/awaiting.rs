//! Telling lists and debuggers which fiber a wait is for.

use super::Awaiting;
use crate::fiber::{Started, WakeHandle};
use crate::sched::caller::{self, running};

/// Withdraws what the calling fiber waits for when it is dropped.
pub(crate) struct Shown(Option<Started>);

impl Drop for Shown {
    #[inline]
    fn drop(&mut self) {
        if let Some(fiber) = self.0 {
            fiber.control().set_awaiting(None);
        }
    }
}

fn show(fiber: Option<Started>, what: Awaiting<'_>) -> Shown {
    if let Some(fiber) = fiber {
        fiber.control().set_awaiting(Some(what));
    }
    Shown(fiber)
}

/// Calls `wait`, which is for what is told meanwhile, if the caller is a fiber on a worker.
pub(crate) fn awaiting<R>(what: Awaiting<'_>, wait: impl FnOnce() -> R) -> R {
    let _shown = show(running(), what);
    wait()
}

/// Returns a [handle](caller::wake_handle) that wakes the caller. It is told what the caller waits
/// for until the second value is dropped.
#[inline]
pub(crate) fn handle_awaiting(what: Awaiting<'_>) -> (WakeHandle, Shown) {
    match running() {
        Some(fiber) => (
            WakeHandle::Fiber(fiber.reference()),
            show(Some(fiber), what),
        ),
        None => (caller::wake_handle(), Shown(None)),
    }
}

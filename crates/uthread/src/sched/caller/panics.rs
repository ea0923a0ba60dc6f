//! The caller's panics.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::thread;

use super::cancellation::is_shut_down;
use super::with_control;
use crate::sched::worker::panics::BEGUN;
pub(crate) use crate::sched::worker::panics::{is_panicking, record_panic};

/// A point in time, to ask about the caller's later panics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Since {
    begun: u32,
    /// `true` if the caller was panicking already, so that its state is no sign of another panic.
    panicking: bool,
}

impl Since {
    #[inline]
    pub(crate) fn now() -> Since {
        Since {
            begun: BEGUN.load(Ordering::Relaxed),
            panicking: is_panicking(),
        }
    }

    /// Returns a point in time after which no panic counts.
    pub(crate) fn never() -> Since {
        Since {
            begun: BEGUN.load(Ordering::Relaxed).wrapping_add(u32::MAX / 2),
            panicking: true,
        }
    }

    /// Returns `true` if the caller has started to panic since then, and still panics. The end of a
    /// runtime, which unwinds its fibers and fails their calls, is not a panic.
    #[inline]
    pub(crate) fn has_panicked(self) -> bool {
        thread::panicking() && self.has_begun() && !is_shut_down()
    }

    #[cold]
    fn has_begun(self) -> bool {
        let last = with_control(|control| control.last_panic()).flatten();
        // The counts may have wrapped around.
        let is_later = |last: u32| last.wrapping_sub(self.begun).cast_signed() > 0;
        last.is_some_and(is_later) || !self.panicking && is_panicking()
    }
}

/// Catches a panic like [`panic::catch_unwind`], and records that the caller no longer panics.
///
/// # Errors
///
/// The payload of the panic.
pub(crate) fn catch_unwind<T>(f: impl FnOnce() -> T) -> thread::Result<T> {
    let panicked = is_panicking();
    let result = panic::catch_unwind(AssertUnwindSafe(f));
    if result.is_err() {
        with_control(|control| control.panics.set(panicked));
    }
    result
}

/// Calls a function that catches its own panics. Afterwards the caller is known to panic only if it
/// did before.
pub(crate) fn contain(f: impl FnOnce()) {
    let panicked = is_panicking();
    f();
    if thread::panicking() {
        with_control(|control| control.panics.set(panicked));
    }
}

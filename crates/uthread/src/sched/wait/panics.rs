//! The caller's panics.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::thread;

use super::{is_panicking, is_shut_down, with_control};
use crate::sched::worker::panics::BEGUN;

/// A time, to ask about the caller's panics since.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Since {
    begun: u32,
    /// Whether the caller panicked already: what it does then is no sign of another panic.
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

    /// A time since which no panic counts.
    pub(crate) fn never() -> Since {
        Since {
            begun: BEGUN.load(Ordering::Relaxed).wrapping_add(u32::MAX / 2),
            panicking: true,
        }
    }

    /// Whether the caller has started to panic since, and still does. The end of a runtime, which unwinds its fibers and fails their
    /// calls, is no panic of theirs.
    #[inline]
    pub(crate) fn has_panicked(self) -> bool {
        thread::panicking() && self.has_begun() && !is_shut_down()
    }

    #[cold]
    fn has_begun(self) -> bool {
        let last = with_control(|control| control.last_panic.get()).flatten();
        // The counts may have wrapped around.
        let is_later = |last: u32| last.wrapping_sub(self.begun).cast_signed() > 0;
        last.is_some_and(is_later) || !self.panicking && is_panicking()
    }
}

/// As [`panic::catch_unwind`], after which the caller is known not to panic any more.
///
/// # Errors
///
/// What the panic carries.
pub(crate) fn catch_unwind<T>(f: impl FnOnce() -> T) -> thread::Result<T> {
    let panicked = is_panicking();
    let result = panic::catch_unwind(AssertUnwindSafe(f));
    if result.is_err() {
        with_control(|control| control.panics.set(panicked));
    }
    result
}

/// Calls what catches its own panics, after which the caller is known to panic only if it did before.
pub(crate) fn contain(f: impl FnOnce()) {
    let panicked = is_panicking();
    f();
    if thread::panicking() {
        with_control(|control| control.panics.set(panicked));
    }
}

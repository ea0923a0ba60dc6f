//! Which calls suspend a fiber: those of code in a fiber that is not the library's. What a call does
//! meanwhile is the library's.

use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{self, AssertUnwindSafe};

use uthread::interposition;
use uthread::thread::Cancelled;
use uthread::time::Elapsed;

use crate::raw;

thread_local! {
    /// `true` during a call that may suspend the fiber.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Returns the value of the calling fiber, whose own it is.
#[inline(never)]
fn is_inside() -> bool {
    IS_INSIDE.get()
}

#[inline(never)]
fn set_inside(is_inside: bool) {
    IS_INSIDE.set(is_inside);
}

/// Returns `true` if the call of the caller suspends it if it has to wait.
pub(crate) fn suspends() -> bool {
    !is_inside() && interposition::may_suspend()
}

/// Calls `action`, whose calls of the C library block the thread, and never suspend the fiber.
#[doc(hidden)]
pub fn keep_thread<R>(action: impl FnOnce() -> R) -> R {
    struct End(bool);
    impl Drop for End {
        fn drop(&mut self) {
            set_inside(self.0);
        }
    }
    let _end = End(is_inside());
    set_inside(true);
    action()
}

/// Makes a call that may suspend the caller. A caller that has ignored the error of a cancellation or
/// of a deadline again and again would be unwound; here it gets the error once more, as C and `std`
/// do not expect that these calls unwind.
pub(crate) fn within<T: From<i8>>(call: impl FnOnce() -> T) -> T {
    set_inside(true);
    let result = panic::catch_unwind(AssertUnwindSafe(call));
    set_inside(false);
    result.unwrap_or_else(|payload| {
        let number: c_int = match () {
            () if payload.is::<Cancelled>() => libc::ECANCELED,
            () if payload.is::<Elapsed>() => libc::ETIMEDOUT,
            () => panic::resume_unwind(payload),
        };
        // It may ignore this error, too, and others are to run.
        uthread::shield(uthread::yield_now);
        raw::set_errno(number);
        T::from(-1)
    })
}

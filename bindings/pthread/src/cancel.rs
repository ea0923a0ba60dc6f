//! Cancellation, and clean-up handlers.

use std::ffi::{c_int, c_void};

use crate::record::{self, Thread, uthread_cleanup, uthread_t};

/// The thread can be cancelled. This is the default.
pub const UTHREAD_CANCEL_ENABLE: c_int = 0;
/// A cancellation waits until the thread allows it.
pub const UTHREAD_CANCEL_DISABLE: c_int = 1;
/// The thread is cancelled in a call that may wait. This is the only type that is supported.
pub const UTHREAD_CANCEL_DEFERRED: c_int = 0;

/// Requests a thread to end. It ends in a call that may wait, at once if it waits in one now.
/// Returns 0, or `ESRCH` for a thread that is no fiber or has ended.
///
/// # Safety
///
/// The thread was not released.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_cancel(thread: uthread_t) -> c_int {
    // SAFETY: the caller's contract.
    let thread = unsafe { Thread::of(thread) };
    match thread.fiber.lock().as_deref() {
        Ok(Some(fiber)) => {
            fiber.cancel();
            0
        }
        _ => libc::ESRCH,
    }
}

/// Ends the calling thread if it was cancelled.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn uthread_testcancel() {
    record::test_cancel();
}

/// Sets whether the calling thread may be cancelled, and stores whether it could if `before` is not
/// null. Returns 0, or `EINVAL` for another state.
///
/// # Safety
///
/// `before` is null or points to where the state is stored.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int {
    if ![UTHREAD_CANCEL_ENABLE, UTHREAD_CANCEL_DISABLE].contains(&state) {
        return libc::EINVAL;
    }
    let kept = record::here().keep_cancellation(state == UTHREAD_CANCEL_DISABLE);
    if !before.is_null() {
        // SAFETY: the caller's contract.
        unsafe { before.write(c_int::from(kept)) };
    }
    0
}

/// Accepts `UTHREAD_CANCEL_DEFERRED` alone, and stores it if `before` is not null. Returns 0, or
/// `EINVAL` for another type: a fiber is cancelled only in a call.
///
/// # Safety
///
/// `before` is null or points to where the type is stored.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int {
    if kind != UTHREAD_CANCEL_DEFERRED {
        return libc::EINVAL;
    }
    if !before.is_null() {
        // SAFETY: the caller's contract.
        unsafe { before.write(UTHREAD_CANCEL_DEFERRED) };
    }
    0
}

/// Pushes a clean-up handler. `uthread_cleanup_push` of the header calls this.
///
/// # Safety
///
/// `handler` points to a variable of the caller, which pops it before it returns. The routine may be
/// called with the argument until then.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_cleanup_enter(
    handler: *mut uthread_cleanup,
    routine: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
    argument: *mut c_void,
) {
    let outer = record::here().push(handler);
    let pushed = uthread_cleanup {
        routine,
        argument,
        outer,
    };
    // SAFETY: the caller's contract.
    unsafe { handler.write(pushed) };
}

/// Removes the clean-up handler that was pushed last, and calls it if `execute` is not zero.
/// `uthread_cleanup_pop` of the header calls this.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn uthread_cleanup_leave(execute: c_int) {
    if let Some(handler) = record::current().and_then(Thread::pop)
        && execute != 0
    {
        record::run(handler);
    }
}

//! How locks are initialized: the attributes are those of the C library.

use std::ffi::c_int;
use std::ptr;

use uthread_pthread::condition::{self, uthread_cond_t, uthread_condattr_t};
use uthread_pthread::mutex::{self, uthread_mutex_t, uthread_mutexattr_t};

/// `pthread_mutex_init`.
#[allow(unsafe_code, reason = "a C function")]
pub(crate) unsafe extern "C" fn mutex_init(
    mutex: *mut uthread_mutex_t,
    attr: *const libc::pthread_mutexattr_t,
) -> c_int {
    if attr.is_null() {
        // SAFETY: the contract of the call is the caller's.
        return unsafe { mutex::uthread_mutex_init(mutex, ptr::null()) };
    }
    let mut kind = mutex::UTHREAD_MUTEX_NORMAL;
    // SAFETY: the contract of the call is the caller's.
    unsafe { pthread_mutexattr_gettype(attr, &raw mut kind) };
    let attr = uthread_mutexattr_t::new(kind);
    // SAFETY: the contract of the call is the caller's.
    unsafe { mutex::uthread_mutex_init(mutex, &raw const attr) }
}

/// `pthread_cond_init`.
#[allow(unsafe_code, reason = "a C function")]
pub(crate) unsafe extern "C" fn cond_init(
    condition: *mut uthread_cond_t,
    attr: *const libc::pthread_condattr_t,
) -> c_int {
    let mut clock = libc::CLOCK_REALTIME;
    if !attr.is_null() {
        // SAFETY: the contract of the call is the caller's.
        unsafe { libc::pthread_condattr_getclock(attr, &raw mut clock) };
    }
    let attr = uthread_condattr_t::new(clock);
    // SAFETY: the contract of the call is the caller's.
    unsafe { condition::uthread_cond_init(condition, &raw const attr) }
}

#[allow(unsafe_code, reason = "a function of the C library")]
unsafe extern "C" {
    fn pthread_mutexattr_gettype(attr: *const libc::pthread_mutexattr_t, kind: *mut c_int)
    -> c_int;
}

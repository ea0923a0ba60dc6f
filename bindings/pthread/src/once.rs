//! Initialization that happens once, and values of a thread.
//!
//! A key is one of the C library: a fiber has thread-local storage of its own, where its values are,
//! and their destructors are called at its end.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use uthread::sync::futex;

/// Whether an initialization has happened. `UTHREAD_ONCE_INIT` says that it has not.
pub type uthread_once_t = c_int;

/// A key of values of a thread.
pub type uthread_key_t = c_uint;

const NEVER: u32 = 0;
const RUNS: u32 = 1;
const DONE: u32 = 2;

/// Makes the initialization due again, if its routine is unwound.
struct Again<'a>(&'a AtomicU32);

impl Again<'_> {
    fn set(&self, state: u32) {
        self.0.store(state, Ordering::Release);
        futex::wake(self.0, usize::MAX);
    }
}

impl Drop for Again<'_> {
    fn drop(&mut self) {
        self.set(NEVER);
    }
}

fn call_once(state: &AtomicU32, routine: impl FnOnce()) {
    loop {
        match state.compare_exchange(NEVER, RUNS, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => break,
            Err(DONE) => return,
            Err(_) => {
                let _ = uthread::shield(|| futex::wait(state, RUNS, None));
            }
        }
    }
    let again = Again(state);
    routine();
    again.set(DONE);
    std::mem::forget(again);
}

/// Calls the routine, unless that has happened; if another thread calls it now, waits for its end. If
/// the routine is cancelled, the next call calls it again.
///
/// # Safety
///
/// `control` points to a control of the program, and the routine may be called.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_once(
    control: *mut uthread_once_t,
    routine: unsafe extern "C-unwind" fn(),
) -> c_int {
    // SAFETY: the caller's contract; nothing but this function accesses the control.
    let state = unsafe { AtomicU32::from_ptr(control.cast()) };
    // SAFETY: the caller's contract.
    call_once(state, || unsafe { routine() });
    0
}

/// Creates a key, whose values the destructor is called with at the end of their thread if it is not
/// null. Returns 0, or the errors of `pthread_key_create(3)`.
///
/// # Safety
///
/// `key` points to where the key is stored, and the destructor may be called with the values.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_key_create(
    key: *mut uthread_key_t,
    destructor: Option<unsafe extern "C" fn(*mut c_void)>,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { libc::pthread_key_create(key, destructor) }
}

/// Deletes a key, and calls no destructor.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub extern "C" fn uthread_key_delete(key: uthread_key_t) -> c_int {
    // SAFETY: any number may be passed.
    unsafe { libc::pthread_key_delete(key) }
}

/// Returns the value of the calling thread, or null.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub extern "C" fn uthread_getspecific(key: uthread_key_t) -> *mut c_void {
    // SAFETY: any number may be passed.
    unsafe { libc::pthread_getspecific(key) }
}

/// Sets the value of the calling thread.
///
/// # Safety
///
/// The destructor of the key may be called with the value.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_setspecific(key: uthread_key_t, value: *const c_void) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { libc::pthread_setspecific(key, value) }
}

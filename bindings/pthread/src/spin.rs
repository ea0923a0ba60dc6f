//! Locks that are held for so short that waiting would take longer: whoever does not get one lets
//! others run, and tries again.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

/// A spin lock.
pub type uthread_spinlock_t = c_int;

const FREE: i32 = 0;
const TAKEN: i32 = 1;

/// Returns the lock at this address.
///
/// # Safety
///
/// A lock of the program, which outlives the reference.
#[allow(unsafe_code, reason = "an object of the program")]
unsafe fn at<'a>(lock: *mut uthread_spinlock_t) -> &'a AtomicI32 {
    // SAFETY: the caller's contract; nothing but these functions accesses the lock.
    unsafe { AtomicI32::from_ptr(lock) }
}

fn try_lock(lock: &AtomicI32) -> bool {
    let taken = lock.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
    taken.is_ok()
}

/// Initializes a lock. `shared` is not used: the lock also works between processes.
///
/// # Safety
///
/// `lock` points to where it is stored.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_spin_init(lock: *mut uthread_spinlock_t, _shared: c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { lock.write(FREE) };
    0
}

/// Does nothing: a lock owns no memory.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub extern "C" fn uthread_spin_destroy(_lock: *mut uthread_spinlock_t) -> c_int {
    0
}

/// Locks.
///
/// # Safety
///
/// `lock` points to a lock.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_spin_lock(lock: *mut uthread_spinlock_t) -> c_int {
    // SAFETY: the caller's contract.
    let lock = unsafe { at(lock) };
    while !try_lock(lock) {
        uthread::yield_now();
    }
    0
}

/// Locks if the lock is free. Returns 0 or `EBUSY`.
///
/// # Safety
///
/// `lock` points to a lock.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_spin_trylock(lock: *mut uthread_spinlock_t) -> c_int {
    // SAFETY: the caller's contract.
    if try_lock(unsafe { at(lock) }) {
        return 0;
    }
    // Lets the owner run: the caller may try in a loop.
    uthread::yield_now();
    libc::EBUSY
}

/// Unlocks.
///
/// # Safety
///
/// `lock` points to a lock that the caller has locked.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_spin_unlock(lock: *mut uthread_spinlock_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { at(lock) }.store(FREE, Ordering::Release);
    0
}

//! Locks and semaphores: in the memory of glibc's.
//!
//! What several processes share, or what a thread that ends leaves to others, or what has a priority
//! ceiling, stays glibc's, which marks its objects:
//!
//! | object | its mark |
//! | --- | --- |
//! | `pthread_mutex_t` | bits of the kind, at 16, beyond those of the kinds of POSIX |
//! | `pthread_cond_t` | the lowest bit at 36 |
//! | `pthread_rwlock_t` | a number at 28 |
//! | `pthread_barrier_t` | a number at 12 |
//! | `sem_t` | a number at 8, also for named ones |
//!
//! Those of this library have zeros there. The offsets are the same in each glibc since 2.25, as they
//! are part of its binary interface.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use uthread_pthread::barrier::{self, uthread_barrier_t};
use uthread_pthread::condition::{self, uthread_cond_t, uthread_condattr_t};
use uthread_pthread::mutex::{self, uthread_mutex_t, uthread_mutexattr_t};
use uthread_pthread::rwlock::{self, uthread_rwlock_t};
use uthread_pthread::semaphore::{self, uthread_sem_t};

use crate::functions::Function;
use crate::real::real;
use crate::report::{self, Reason};

/// The bits of the kinds of POSIX.
const KINDS: u32 = 3;

/// Returns a word of an object.
///
/// # Safety
///
/// The object is there, and is as large.
#[allow(unsafe_code, reason = "an object of the program")]
unsafe fn word<T>(object: *mut T, offset: usize) -> u32 {
    let place = object.cast::<AtomicU32>().wrapping_byte_add(offset);
    // SAFETY: the caller's contract.
    unsafe { &*place }.load(Ordering::Relaxed)
}

#[allow(unsafe_code, reason = "an object of the program")]
unsafe fn mutex_is_foreign(mutex: *mut uthread_mutex_t) -> bool {
    // SAFETY: the caller passes a mutex.
    let kind = unsafe { word(mutex, 16) };
    kind & !KINDS != 0
}

#[allow(unsafe_code, reason = "an object of the program")]
unsafe fn cond_is_foreign(condition: *mut uthread_cond_t) -> bool {
    // SAFETY: the caller passes a condition variable.
    let references = unsafe { word(condition, 36) };
    references & 1 != 0
}

#[allow(unsafe_code, reason = "an object of the program")]
unsafe fn rwlock_is_foreign(lock: *mut uthread_rwlock_t) -> bool {
    // SAFETY: the caller passes a lock.
    let shared = unsafe { word(lock, 28) };
    shared != 0
}

#[allow(unsafe_code, reason = "an object of the program")]
unsafe fn barrier_is_foreign(barrier: *mut uthread_barrier_t) -> bool {
    // SAFETY: the caller passes a barrier.
    let shared = unsafe { word(barrier, 12) };
    shared != 0
}

#[allow(unsafe_code, reason = "an object of the program")]
unsafe fn sem_is_foreign(semaphore: *mut uthread_sem_t) -> bool {
    // SAFETY: the caller passes a semaphore.
    let shared = unsafe { word(semaphore, 8) };
    shared != 0
}

/// Defines what takes the place of functions about an object, unless the object is glibc's.
macro_rules! objects {
    ($($name:ident($object:ident: $type:ty $(, $argument:ident: $kind:ty)*), $is_foreign:ident, $own:path;)*) => {
        $(
            #[allow(unsafe_code, reason = "a C function")]
            pub(crate) unsafe extern "C-unwind" fn $name($object: *mut $type $(, $argument: $kind)*) -> c_int {
                // SAFETY: the contract of the call is the caller's.
                if unsafe { !$is_foreign($object) } {
                    #[allow(unused_unsafe, reason = "some of them are safe")]
                    // SAFETY: the contract of the call is the caller's.
                    return unsafe { $own($object $(, $argument)*) };
                }
                report::call_native(Function::$name);
                let call = real!($name: fn(*mut $type $(, $kind)*) -> c_int);
                // SAFETY: the contract of the call is the caller's.
                unsafe { call($object $(, $argument)*) }
            }
        )*
    };
}

type Time = *const libc::timespec;

objects! {
    pthread_mutex_destroy(object: uthread_mutex_t), mutex_is_foreign, mutex::uthread_mutex_destroy;
    pthread_mutex_lock(object: uthread_mutex_t), mutex_is_foreign, mutex::uthread_mutex_lock;
    pthread_mutex_trylock(object: uthread_mutex_t), mutex_is_foreign, mutex::uthread_mutex_trylock;
    pthread_mutex_timedlock(object: uthread_mutex_t, time: Time), mutex_is_foreign, mutex::uthread_mutex_timedlock;
    pthread_mutex_clocklock(object: uthread_mutex_t, clock: libc::clockid_t, time: Time), mutex_is_foreign, mutex::uthread_mutex_clocklock;
    pthread_mutex_unlock(object: uthread_mutex_t), mutex_is_foreign, mutex::uthread_mutex_unlock;
    pthread_cond_destroy(object: uthread_cond_t), cond_is_foreign, condition::uthread_cond_destroy;
    pthread_cond_wait(object: uthread_cond_t, mutex: *mut uthread_mutex_t), cond_is_foreign, cond_wait;
    pthread_cond_timedwait(object: uthread_cond_t, mutex: *mut uthread_mutex_t, time: Time), cond_is_foreign, cond_timedwait;
    pthread_cond_clockwait(object: uthread_cond_t, mutex: *mut uthread_mutex_t, clock: libc::clockid_t, time: Time), cond_is_foreign, cond_clockwait;
    pthread_cond_signal(object: uthread_cond_t), cond_is_foreign, condition::uthread_cond_signal;
    pthread_cond_broadcast(object: uthread_cond_t), cond_is_foreign, condition::uthread_cond_broadcast;
    pthread_rwlock_destroy(object: uthread_rwlock_t), rwlock_is_foreign, rwlock::uthread_rwlock_destroy;
    pthread_rwlock_rdlock(object: uthread_rwlock_t), rwlock_is_foreign, rwlock::uthread_rwlock_rdlock;
    pthread_rwlock_tryrdlock(object: uthread_rwlock_t), rwlock_is_foreign, rwlock::uthread_rwlock_tryrdlock;
    pthread_rwlock_timedrdlock(object: uthread_rwlock_t, time: Time), rwlock_is_foreign, rwlock::uthread_rwlock_timedrdlock;
    pthread_rwlock_clockrdlock(object: uthread_rwlock_t, clock: libc::clockid_t, time: Time), rwlock_is_foreign, rwlock::uthread_rwlock_clockrdlock;
    pthread_rwlock_clockwrlock(object: uthread_rwlock_t, clock: libc::clockid_t, time: Time), rwlock_is_foreign, rwlock::uthread_rwlock_clockwrlock;
    pthread_rwlock_wrlock(object: uthread_rwlock_t), rwlock_is_foreign, rwlock::uthread_rwlock_wrlock;
    pthread_rwlock_trywrlock(object: uthread_rwlock_t), rwlock_is_foreign, rwlock::uthread_rwlock_trywrlock;
    pthread_rwlock_timedwrlock(object: uthread_rwlock_t, time: Time), rwlock_is_foreign, rwlock::uthread_rwlock_timedwrlock;
    pthread_rwlock_unlock(object: uthread_rwlock_t), rwlock_is_foreign, rwlock::uthread_rwlock_unlock;
    pthread_barrier_destroy(object: uthread_barrier_t), barrier_is_foreign, barrier::uthread_barrier_destroy;
    pthread_barrier_wait(object: uthread_barrier_t), barrier_is_foreign, barrier::uthread_barrier_wait;
    sem_destroy(object: uthread_sem_t), sem_is_foreign, semaphore::uthread_sem_destroy;
    sem_wait(object: uthread_sem_t), sem_is_foreign, semaphore::uthread_sem_wait;
    sem_timedwait(object: uthread_sem_t, time: Time), sem_is_foreign, semaphore::uthread_sem_timedwait;
    sem_clockwait(object: uthread_sem_t, clock: libc::clockid_t, time: Time), sem_is_foreign, semaphore::uthread_sem_clockwait;
    sem_trywait(object: uthread_sem_t), sem_is_foreign, semaphore::uthread_sem_trywait;
    sem_post(object: uthread_sem_t), sem_is_foreign, semaphore::uthread_sem_post;
    sem_getvalue(object: uthread_sem_t, value: *mut c_int), sem_is_foreign, semaphore::uthread_sem_getvalue;
}

/// Waits for a condition variable of this library, with a mutex that may be glibc's.
///
/// # Safety
///
/// The contract of `pthread_cond_wait`; or with a time, that of `pthread_cond_timedwait`.
#[allow(unsafe_code, reason = "objects of the program")]
unsafe fn wait_with_any(
    condition: *mut uthread_cond_t,
    mutex: *mut uthread_mutex_t,
    clock: Option<libc::clockid_t>,
    time: Time,
) -> c_int {
    // SAFETY: the caller's contract.
    let unlock = || unsafe { pthread_mutex_unlock(mutex) };
    // SAFETY: the caller's contract.
    let lock = || unsafe { pthread_mutex_lock(mutex) };
    // SAFETY: the caller's contract.
    unsafe { condition::wait_without(condition, clock, time, unlock, lock) }
}

#[allow(unsafe_code, reason = "objects of the program")]
unsafe fn cond_wait(condition: *mut uthread_cond_t, mutex: *mut uthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { wait_with_any(condition, mutex, None, ptr::null()) }
}

#[allow(unsafe_code, reason = "objects of the program")]
unsafe fn cond_timedwait(
    condition: *mut uthread_cond_t,
    mutex: *mut uthread_mutex_t,
    time: Time,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { wait_with_any(condition, mutex, None, time) }
}

#[allow(unsafe_code, reason = "objects of the program")]
unsafe fn cond_clockwait(
    condition: *mut uthread_cond_t,
    mutex: *mut uthread_mutex_t,
    clock: libc::clockid_t,
    time: Time,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { wait_with_any(condition, mutex, Some(clock), time) }
}

#[allow(unsafe_code, reason = "functions of the C library")]
unsafe extern "C" {
    fn pthread_mutexattr_gettype(attr: *const libc::pthread_mutexattr_t, kind: *mut c_int)
    -> c_int;
    fn pthread_barrierattr_getpshared(
        attr: *const libc::pthread_barrierattr_t,
        shared: *mut c_int,
    ) -> c_int;
    fn pthread_rwlockattr_getpshared(
        attr: *const libc::pthread_rwlockattr_t,
        shared: *mut c_int,
    ) -> c_int;
}

/// Returns an attribute of an object of glibc.
macro_rules! attribute {
    ($get:path, $attr:expr) => {{
        let mut value: c_int = 0;
        // SAFETY: the contract of the call is the caller's.
        unsafe { $get($attr, &raw mut value) };
        value
    }};
}

/// `pthread_mutex_init`. Without inheritance of priorities, which fibers do not have: the kernel does not
/// know them as owners.
#[allow(unsafe_code, reason = "a C function")]
pub(crate) unsafe extern "C" fn pthread_mutex_init(
    mutex: *mut uthread_mutex_t,
    attr: *const libc::pthread_mutexattr_t,
) -> c_int {
    if attr.is_null() {
        // SAFETY: the contract of the call is the caller's.
        return unsafe { mutex::uthread_mutex_init(mutex, ptr::null()) };
    }
    // SAFETY: the contract of the call is the caller's.
    if let Some(reason) = unsafe { reason_for_native(attr) } {
        report::fall_back(Function::pthread_mutex_init, reason);
        // SAFETY: the caller's contract. The attributes are a number.
        let mut attr = unsafe { *attr };
        if attribute!(libc::pthread_mutexattr_getprotocol, &raw const attr)
            == libc::PTHREAD_PRIO_INHERIT
        {
            // SAFETY: initialized above.
            unsafe { libc::pthread_mutexattr_setprotocol(&raw mut attr, libc::PTHREAD_PRIO_NONE) };
        }
        let call = real!(pthread_mutex_init: fn(*mut uthread_mutex_t, *const libc::pthread_mutexattr_t) -> c_int);
        // SAFETY: the contract of the call is the caller's.
        return unsafe { call(mutex, &raw const attr) };
    }
    let attr = uthread_mutexattr_t::new(attribute!(pthread_mutexattr_gettype, attr));
    // SAFETY: the contract of the call is the caller's.
    unsafe { mutex::uthread_mutex_init(mutex, &raw const attr) }
}

/// Returns the reason why a mutex with these attributes stays glibc's, if there is one.
///
/// # Safety
///
/// The attributes are initialized.
#[allow(unsafe_code, reason = "attributes of the program")]
unsafe fn reason_for_native(attr: *const libc::pthread_mutexattr_t) -> Option<Reason> {
    if attribute!(libc::pthread_mutexattr_getpshared, attr) != 0 {
        return Some(Reason::SharedMutex);
    }
    if attribute!(libc::pthread_mutexattr_getrobust, attr) != 0 {
        return Some(Reason::RobustMutex);
    }
    let protocol = attribute!(libc::pthread_mutexattr_getprotocol, attr);
    (protocol == libc::PTHREAD_PRIO_PROTECT).then_some(Reason::CeilingMutex)
}

/// `pthread_cond_init`.
#[allow(unsafe_code, reason = "a C function")]
pub(crate) unsafe extern "C" fn pthread_cond_init(
    condition: *mut uthread_cond_t,
    attr: *const libc::pthread_condattr_t,
) -> c_int {
    let mut clock = libc::CLOCK_REALTIME;
    if !attr.is_null() {
        if attribute!(libc::pthread_condattr_getpshared, attr) != 0 {
            report::fall_back(Function::pthread_cond_init, Reason::SharedCondition);
            let call = real!(pthread_cond_init: fn(*mut uthread_cond_t, *const libc::pthread_condattr_t) -> c_int);
            // SAFETY: the contract of the call is the caller's.
            return unsafe { call(condition, attr) };
        }
        clock = attribute!(libc::pthread_condattr_getclock, attr);
    }
    let attr = uthread_condattr_t::new(clock);
    // SAFETY: the contract of the call is the caller's.
    unsafe { condition::uthread_cond_init(condition, &raw const attr) }
}

/// `pthread_rwlock_init`.
#[allow(unsafe_code, reason = "a C function")]
pub(crate) unsafe extern "C" fn pthread_rwlock_init(
    lock: *mut uthread_rwlock_t,
    attr: *const libc::pthread_rwlockattr_t,
) -> c_int {
    if !attr.is_null() && attribute!(pthread_rwlockattr_getpshared, attr) != 0 {
        report::fall_back(Function::pthread_rwlock_init, Reason::SharedRwlock);
        let call = real!(pthread_rwlock_init: fn(*mut uthread_rwlock_t, *const libc::pthread_rwlockattr_t) -> c_int);
        // SAFETY: the contract of the call is the caller's.
        return unsafe { call(lock, attr) };
    }
    // SAFETY: the contract of the call is the caller's.
    unsafe { rwlock::uthread_rwlock_init(lock, attr.cast::<c_void>()) }
}

/// `pthread_barrier_init`.
#[allow(unsafe_code, reason = "a C function")]
pub(crate) unsafe extern "C" fn pthread_barrier_init(
    barrier: *mut uthread_barrier_t,
    attr: *const libc::pthread_barrierattr_t,
    count: c_uint,
) -> c_int {
    if !attr.is_null() && attribute!(pthread_barrierattr_getpshared, attr) != 0 {
        report::fall_back(Function::pthread_barrier_init, Reason::SharedBarrier);
        let call = real!(pthread_barrier_init: fn(*mut uthread_barrier_t, *const libc::pthread_barrierattr_t, c_uint) -> c_int);
        // SAFETY: the contract of the call is the caller's.
        return unsafe { call(barrier, attr, count) };
    }
    // SAFETY: the contract of the call is the caller's.
    unsafe { barrier::uthread_barrier_init(barrier, attr.cast::<c_void>(), count) }
}

/// `sem_init`.
#[allow(unsafe_code, reason = "a C function")]
pub(crate) unsafe extern "C" fn sem_init(
    semaphore: *mut uthread_sem_t,
    shared: c_int,
    value: c_uint,
) -> c_int {
    if shared != 0 {
        report::fall_back(Function::sem_init, Reason::SharedSemaphore);
        let call = real!(sem_init: fn(*mut uthread_sem_t, c_int, c_uint) -> c_int);
        // SAFETY: the contract of the call is the caller's.
        return unsafe { call(semaphore, shared, value) };
    }
    // SAFETY: the contract of the call is the caller's.
    unsafe { semaphore::uthread_sem_init(semaphore, shared, value) }
}

//! Condition variables.
//!
//! A waiter reads the number of signals before it unlocks the mutex, and waits for that number to
//! change. So a signal that is sent once the mutex is unlocked is not missed.

use std::ffi::c_int;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use uthread::sync::futex;

use crate::deadline;
use crate::errno::code;
use crate::mutex::{Mutex, uthread_mutex_t};
use crate::record;

/// A condition variable. `UTHREAD_COND_INITIALIZER` has deadlines of `CLOCK_REALTIME`.
#[repr(C)]
#[derive(Debug)]
pub struct uthread_cond_t {
    words: [u64; 6],
}

/// The clock of the deadlines of a condition variable. A zeroed one is `CLOCK_REALTIME`.
#[repr(C)]
#[derive(Debug)]
pub struct uthread_condattr_t {
    clock: c_int,
}

impl uthread_condattr_t {
    /// Returns attributes with this clock.
    #[must_use]
    pub fn new(clock: libc::clockid_t) -> uthread_condattr_t {
        uthread_condattr_t { clock }
    }
}

#[repr(C)]
struct Condition {
    signals: AtomicU32,
    /// Number of threads between their unlock and the end of their wait, and `DESTROYED`.
    waiting: AtomicU32,
    clock: AtomicU32,
}

const _: () = assert!(size_of::<Condition>() <= size_of::<uthread_cond_t>());

/// Somebody waits for the end of all waits.
const DESTROYED: u32 = 1 << 31;

impl Condition {
    /// Returns the condition variable at this address.
    ///
    /// # Safety
    ///
    /// A condition variable of the program, which outlives the reference.
    #[allow(unsafe_code, reason = "an object of the program")]
    unsafe fn at<'a>(condition: *const uthread_cond_t) -> &'a Condition {
        // SAFETY: the caller's contract; all of its words are atomics.
        unsafe { &*condition.cast() }
    }

    fn wait(&self, mutex: &Mutex, deadline: Option<Instant>) -> io::Result<()> {
        self.wait_without(|| mutex.unlock(), || mutex.lock(None), deadline)
    }

    /// Waits without a mutex that these unlock and lock.
    fn wait_without(
        &self,
        unlock: impl FnOnce() -> io::Result<()>,
        lock: impl FnOnce() -> io::Result<()>,
        deadline: Option<Instant>,
    ) -> io::Result<()> {
        record::point(|| {
            let signals = self.signals.load(Ordering::Relaxed);
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let unlocked = unlock();
            if unlocked.is_err() {
                self.leave();
                return unlocked;
            }
            let ended = futex::wait(&self.signals, signals, deadline);
            self.leave();
            lock()?;
            match ended {
                // There was a signal before the wait.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
                ended => ended,
            }
        })
    }

    /// Ends a wait. Nothing of the condition variable may be accessed after it.
    fn leave(&self) {
        let waiting = ptr::from_ref(&self.waiting);
        // Release: whoever destroys it may free the memory.
        if self.waiting.fetch_sub(1, Ordering::Release) == DESTROYED | 1 {
            futex::wake_at(waiting, usize::MAX);
        }
    }

    /// Waits until all have left. No cancellation point.
    fn destroy(&self) {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return;
        }
        self.waiting.fetch_or(DESTROYED, Ordering::Relaxed);
        uthread::shield(|| {
            loop {
                match self.waiting.load(Ordering::Acquire) {
                    DESTROYED => break,
                    waiting => {
                        let _ = futex::wait(&self.waiting, waiting, None);
                    }
                }
            }
        });
    }

    fn signal(&self, count: usize) {
        // Relaxed: a waiter that the caller knows of has locked the mutex before the caller.
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.signals.fetch_add(1, Ordering::Relaxed);
            futex::wake(&self.signals, count);
        }
    }

    fn wait_until(
        &self,
        mutex: &Mutex,
        clock: libc::clockid_t,
        time: &libc::timespec,
    ) -> io::Result<()> {
        self.wait(mutex, deadline::of(clock, time)?)
    }
}

/// Initializes a condition variable, with deadlines of `CLOCK_REALTIME` if `attr` is null.
///
/// # Safety
///
/// `condition` points to where it is stored, and `attr` is null or points to a clock.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_cond_init(
    condition: *mut uthread_cond_t,
    attr: *const uthread_condattr_t,
) -> c_int {
    // SAFETY: the caller's contract.
    let clock = unsafe { attr.as_ref() }.map_or(libc::CLOCK_REALTIME, |attr| attr.clock);
    // SAFETY: the caller's contract.
    unsafe { condition.write(uthread_cond_t { words: [0; 6] }) };
    // SAFETY: initialized now.
    let condition = unsafe { Condition::at(condition) };
    condition.clock.store(clock as u32, Ordering::Relaxed);
    0
}

/// Waits until all threads that were woken have left the condition variable, so that its memory may be
/// reused. A thread that nobody has woken is waited for, too, as glibc does. Returns 0.
///
/// # Safety
///
/// `condition` points to a condition variable.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_cond_destroy(condition: *mut uthread_cond_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { Condition::at(condition) }.destroy();
    0
}

/// Unlocks the mutex, waits for a signal, and locks the mutex again. A cancellation point: the mutex
/// is locked when the clean-up handlers are called. May return without a signal. Returns 0, or `EPERM`
/// if a mutex that is not normal is not the caller's.
///
/// # Safety
///
/// Both point to objects; the caller has locked the mutex, once if it is recursive.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_cond_wait(
    condition: *mut uthread_cond_t,
    mutex: *mut uthread_mutex_t,
) -> c_int {
    // SAFETY: the caller's contract.
    let (condition, mutex) = (unsafe { Condition::at(condition) }, unsafe {
        Mutex::at(mutex)
    });
    code(condition.wait(mutex, None))
}

/// Waits like `uthread_cond_wait`, until a time of the clock of the condition variable; then returns
/// `ETIMEDOUT`.
///
/// # Safety
///
/// As for `uthread_cond_wait`; `time` points to the time.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_cond_timedwait(
    condition: *mut uthread_cond_t,
    mutex: *mut uthread_mutex_t,
    time: *const libc::timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    let (condition, mutex) = (unsafe { Condition::at(condition) }, unsafe {
        Mutex::at(mutex)
    });
    let clock = condition.clock.load(Ordering::Relaxed) as c_int;
    // SAFETY: the caller's contract.
    code(condition.wait_until(mutex, clock, unsafe { &*time }))
}

/// Waits like `uthread_cond_timedwait`, until a time of this clock. Returns `EINVAL` for a clock other
/// than `CLOCK_REALTIME` and `CLOCK_MONOTONIC`.
///
/// # Safety
///
/// As for `uthread_cond_timedwait`.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_cond_clockwait(
    condition: *mut uthread_cond_t,
    mutex: *mut uthread_mutex_t,
    clock: libc::clockid_t,
    time: *const libc::timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    let (condition, mutex) = (unsafe { Condition::at(condition) }, unsafe {
        Mutex::at(mutex)
    });
    // SAFETY: the caller's contract.
    code(condition.wait_until(mutex, clock, unsafe { &*time }))
}

/// Waits like `uthread_cond_wait`, or until a time of this clock, or that of the condition variable, with
/// a mutex that these unlock and lock. Returns what they return if it is not 0.
///
/// # Safety
///
/// `condition` points to a condition variable, and `time` is null or points to the time.
#[allow(unsafe_code, reason = "an object of the program")]
pub unsafe fn wait_without(
    condition: *mut uthread_cond_t,
    clock: Option<libc::clockid_t>,
    time: *const libc::timespec,
    unlock: impl FnOnce() -> c_int,
    lock: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    let condition = unsafe { Condition::at(condition) };
    let clock = clock.unwrap_or_else(|| condition.clock.load(Ordering::Relaxed) as c_int);
    // SAFETY: the caller's contract.
    let deadline = unsafe { time.as_ref() }.map(|time| deadline::of(clock, time));
    let result = |code| match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    };
    code(deadline.transpose().and_then(|deadline| {
        condition.wait_without(|| result(unlock()), || result(lock()), deadline.flatten())
    }))
}

/// Wakes the thread that has waited longest, if there is one.
///
/// # Safety
///
/// `condition` points to a condition variable.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_cond_signal(condition: *mut uthread_cond_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { Condition::at(condition) }.signal(1);
    0
}

/// Wakes all threads that wait.
///
/// # Safety
///
/// `condition` points to a condition variable.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_cond_broadcast(condition: *mut uthread_cond_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { Condition::at(condition) }.signal(usize::MAX);
    0
}

/// Makes the clock `CLOCK_REALTIME`.
///
/// # Safety
///
/// `attr` points to where the clock is stored.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_condattr_init(attr: *mut uthread_condattr_t) -> c_int {
    let clock = libc::CLOCK_REALTIME;
    // SAFETY: the caller's contract.
    unsafe { attr.write(uthread_condattr_t { clock }) };
    0
}

/// Does nothing: a clock owns no memory.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub extern "C" fn uthread_condattr_destroy(_attr: *mut uthread_condattr_t) -> c_int {
    0
}

/// Sets the clock: `CLOCK_REALTIME` or `CLOCK_MONOTONIC`. Returns 0, or `EINVAL` for another.
///
/// # Safety
///
/// `attr` points to a clock.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_condattr_setclock(
    attr: *mut uthread_condattr_t,
    clock: libc::clockid_t,
) -> c_int {
    code(deadline::check(clock).map(|()| {
        // SAFETY: the caller's contract.
        unsafe { &mut *attr }.clock = clock;
    }))
}

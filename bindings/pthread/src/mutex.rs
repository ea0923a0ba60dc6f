//! Mutexes: normal, recursive and error-checking.
//!
//! The lock is that of "Futexes Are Tricky" (Drepper, 2011):
//!
//! ```text
//!   lock    FREE -> TAKEN, or any -> AWAITED until it was FREE, with waits for AWAITED to change
//!   unlock  any -> FREE; if it was AWAITED, one waiter is woken
//! ```

use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Instant;

use uthread::sync::futex;

use crate::deadline;
use crate::errno::code;
use crate::record;

/// A mutex that neither counts nor checks. This is the default.
pub const UTHREAD_MUTEX_NORMAL: c_int = 0;
/// A mutex that its owner may lock again, and unlocks as often.
pub const UTHREAD_MUTEX_RECURSIVE: c_int = 1;
/// A mutex that refuses to be locked again by its owner, and to be unlocked by others.
pub const UTHREAD_MUTEX_ERRORCHECK: c_int = 2;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const AWAITED: u32 = 2;

/// A mutex. `UTHREAD_MUTEX_INITIALIZER` is a normal one.
#[repr(C)]
#[derive(Debug)]
pub struct uthread_mutex_t {
    words: [u64; 5],
}

/// The kind of a mutex. A zeroed one is normal.
#[repr(C)]
#[derive(Debug)]
pub struct uthread_mutexattr_t {
    kind: c_int,
}

impl uthread_mutexattr_t {
    /// Returns attributes with this kind.
    #[must_use]
    pub fn new(kind: c_int) -> uthread_mutexattr_t {
        uthread_mutexattr_t { kind }
    }
}

/// The words of a mutex. The kind is where glibc has it, so that its initializers are understood.
#[repr(C)]
pub(crate) struct Mutex {
    state: AtomicU32,
    /// How often the owner has locked it beyond the first time. The owner alone changes it.
    depth: AtomicU32,
    owner: AtomicUsize,
    kind: AtomicU32,
}

const _: () = assert!(size_of::<Mutex>() <= size_of::<uthread_mutex_t>());

impl Mutex {
    /// Returns the mutex at this address.
    ///
    /// # Safety
    ///
    /// A mutex of the program, which outlives the reference.
    #[allow(unsafe_code, reason = "an object of the program")]
    pub(crate) unsafe fn at<'a>(mutex: *const uthread_mutex_t) -> &'a Mutex {
        // SAFETY: the caller's contract; all of its words are atomics.
        unsafe { &*mutex.cast() }
    }

    fn kind(&self) -> c_int {
        // Relaxed: whoever shares a mutex has initialized it before.
        self.kind.load(Ordering::Relaxed) as c_int
    }

    /// Locks, at most until the deadline. No cancellation point.
    ///
    /// # Errors
    ///
    /// `TimedOut` after the deadline; `EDEADLK` if the caller owns an error-checking mutex; `EAGAIN`
    /// if a recursive one is locked too often.
    pub(crate) fn lock(&self, deadline: Option<Instant>) -> io::Result<()> {
        if self.is_relocked()? {
            return Ok(());
        }
        if !self.try_take() {
            uthread::shield(|| self.await_lock(deadline))?;
        }
        self.own();
        Ok(())
    }

    #[cold]
    fn await_lock(&self, deadline: Option<Instant>) -> io::Result<()> {
        while self.state.swap(AWAITED, Ordering::Acquire) != FREE {
            match futex::wait(&self.state, AWAITED, deadline) {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn try_take(&self) -> bool {
        let taken =
            (self.state).compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok()
    }

    fn try_lock(&self) -> io::Result<()> {
        let busy = io::Error::from_raw_os_error(libc::EBUSY);
        if self.kind() == UTHREAD_MUTEX_ERRORCHECK && self.is_mine() {
            return Err(busy);
        }
        if self.is_relocked()? {
            return Ok(());
        }
        if !self.try_take() {
            // Lets the owner run: the caller may try in a loop.
            uthread::yield_now();
            return Err(busy);
        }
        self.own();
        Ok(())
    }

    /// Returns `true` if the caller owns a recursive mutex, and counts that.
    fn is_relocked(&self) -> io::Result<bool> {
        let kind = self.kind();
        if kind == UTHREAD_MUTEX_NORMAL || !self.is_mine() {
            return Ok(false);
        }
        if kind == UTHREAD_MUTEX_ERRORCHECK {
            return Err(io::Error::from_raw_os_error(libc::EDEADLK));
        }
        let depth = self.depth.load(Ordering::Relaxed);
        let deeper = depth.checked_add(1).ok_or(io::ErrorKind::WouldBlock)?;
        self.depth.store(deeper, Ordering::Relaxed);
        Ok(true)
    }

    /// Returns `true` if the caller owns the mutex. Only the caller could have stored its number.
    fn is_mine(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == record::number()
    }

    fn own(&self) {
        if self.kind() != UTHREAD_MUTEX_NORMAL {
            self.owner.store(record::number(), Ordering::Relaxed);
        }
    }

    /// Unlocks.
    ///
    /// # Errors
    ///
    /// `EPERM` if a mutex that is not normal is not the caller's.
    pub(crate) fn unlock(&self) -> io::Result<()> {
        if self.kind() != UTHREAD_MUTEX_NORMAL {
            if !self.is_mine() {
                return Err(io::Error::from_raw_os_error(libc::EPERM));
            }
            let depth = self.depth.load(Ordering::Relaxed);
            if depth > 0 {
                self.depth.store(depth - 1, Ordering::Relaxed);
                return Ok(());
            }
            self.owner.store(0, Ordering::Relaxed);
        }
        if self.state.swap(FREE, Ordering::Release) == AWAITED {
            futex::wake(&self.state, 1);
        }
        Ok(())
    }
}

/// Initializes a mutex, as a normal one if `attr` is null.
///
/// # Safety
///
/// `mutex` points to where the mutex is stored, and `attr` is null or points to a kind.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_mutex_init(
    mutex: *mut uthread_mutex_t,
    attr: *const uthread_mutexattr_t,
) -> c_int {
    // SAFETY: the caller's contract.
    let kind = unsafe { attr.as_ref() }.map_or(UTHREAD_MUTEX_NORMAL, |attr| attr.kind);
    // SAFETY: the caller's contract.
    unsafe { mutex.write(uthread_mutex_t { words: [0; 5] }) };
    // SAFETY: initialized now.
    let mutex = unsafe { Mutex::at(mutex) };
    mutex.kind.store(kind as u32, Ordering::Relaxed);
    0
}

/// Returns 0, or `EBUSY` if the mutex is locked.
///
/// # Safety
///
/// `mutex` points to a mutex.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_mutex_destroy(mutex: *mut uthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    match unsafe { Mutex::at(mutex) }.state.load(Ordering::Relaxed) {
        FREE => 0,
        _ => libc::EBUSY,
    }
}

/// Locks a mutex. Not a cancellation point. Returns 0; `EDEADLK` if the caller owns an error-checking
/// one; `EAGAIN` if a recursive one is locked too often.
///
/// # Safety
///
/// `mutex` points to a mutex.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_mutex_lock(mutex: *mut uthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    code(unsafe { Mutex::at(mutex) }.lock(None))
}

/// Locks a mutex if it is free. Returns 0 or `EBUSY`, or `EAGAIN` like `uthread_mutex_lock`.
///
/// # Safety
///
/// `mutex` points to a mutex.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_mutex_trylock(mutex: *mut uthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    code(unsafe { Mutex::at(mutex) }.try_lock())
}

/// Locks a mutex like `uthread_mutex_lock`, until a time of `CLOCK_REALTIME`; then returns
/// `ETIMEDOUT`.
///
/// # Safety
///
/// `mutex` points to a mutex, and `time` to the time.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_mutex_timedlock(
    mutex: *mut uthread_mutex_t,
    time: *const libc::timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { uthread_mutex_clocklock(mutex, libc::CLOCK_REALTIME, time) }
}

/// Unlocks a mutex. Returns 0, or `EPERM` if a mutex that is not normal is not the caller's.
///
/// # Safety
///
/// `mutex` points to a mutex.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_mutex_unlock(mutex: *mut uthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    code(unsafe { Mutex::at(mutex) }.unlock())
}

/// Makes the kind normal.
///
/// # Safety
///
/// `attr` points to where the kind is stored.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_mutexattr_init(attr: *mut uthread_mutexattr_t) -> c_int {
    let kind = UTHREAD_MUTEX_NORMAL;
    // SAFETY: the caller's contract.
    unsafe { attr.write(uthread_mutexattr_t { kind }) };
    0
}

/// Does nothing: a kind owns no memory.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub extern "C" fn uthread_mutexattr_destroy(_attr: *mut uthread_mutexattr_t) -> c_int {
    0
}

/// Sets the kind, one of `UTHREAD_MUTEX_*`. Returns 0, or `EINVAL` for another.
///
/// # Safety
///
/// `attr` points to a kind.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_mutexattr_settype(
    attr: *mut uthread_mutexattr_t,
    kind: c_int,
) -> c_int {
    if !(UTHREAD_MUTEX_NORMAL..=UTHREAD_MUTEX_ERRORCHECK).contains(&kind) {
        return libc::EINVAL;
    }
    // SAFETY: the caller's contract.
    unsafe { &mut *attr }.kind = kind;
    0
}

/// Stores the kind.
///
/// # Safety
///
/// `attr` points to a kind, and `kind` to where it is stored.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_mutexattr_gettype(
    attr: *const uthread_mutexattr_t,
    kind: *mut c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    let attr = unsafe { &*attr };
    // SAFETY: the caller's contract.
    unsafe { kind.write(attr.kind) };
    0
}

/// Locks a mutex like `uthread_mutex_lock`, until a time of this clock, `CLOCK_REALTIME` or
/// `CLOCK_MONOTONIC`; then returns `ETIMEDOUT`.
///
/// # Safety
///
/// `mutex` points to a mutex, and `time` to the time.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_mutex_clocklock(
    mutex: *mut uthread_mutex_t,
    clock: libc::clockid_t,
    time: *const libc::timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    let (mutex, time) = (unsafe { Mutex::at(mutex) }, unsafe { &*time });
    let locked = deadline::of(clock, time).and_then(|deadline| mutex.lock(deadline));
    code(locked)
}

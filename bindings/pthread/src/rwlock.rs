//! Locks for readers and writers. As with glibc, readers do not wait for a writer that waits.

use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};
use std::time::Instant;

use uthread::sync::futex;

use crate::deadline;
use crate::errno::code;
use crate::record;

/// A lock for readers and writers. `UTHREAD_RWLOCK_INITIALIZER` is a free one.
#[repr(C)]
#[derive(Debug)]
pub struct uthread_rwlock_t {
    words: [u64; 7],
}

/// The number of readers that stands for a writer.
const WRITER: u32 = u32::MAX;

#[repr(C)]
struct RwLock {
    /// Number of readers, or `WRITER`.
    readers: AtomicU32,
    /// Number of unlocks that somebody may have waited for, in which waiters wait.
    unlocks: AtomicU32,
    waiting: AtomicU32,
    /// The writer.
    owner: AtomicUsize,
}

const _: () = assert!(size_of::<RwLock>() <= size_of::<uthread_rwlock_t>());

impl RwLock {
    /// Returns the lock at this address.
    ///
    /// # Safety
    ///
    /// A lock of the program, which outlives the reference.
    #[allow(unsafe_code, reason = "an object of the program")]
    unsafe fn at<'a>(lock: *const uthread_rwlock_t) -> &'a RwLock {
        // SAFETY: the caller's contract; all of its words are atomics.
        unsafe { &*lock.cast() }
    }

    fn try_read(&self) -> io::Result<bool> {
        let mut readers = self.readers.load(Ordering::Relaxed);
        while readers != WRITER {
            if readers == WRITER - 1 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let taken = self.readers.compare_exchange_weak(
                readers,
                readers + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            match taken {
                Ok(_) => return Ok(true),
                Err(found) => readers = found,
            }
        }
        Ok(false)
    }

    fn try_write(&self) -> io::Result<bool> {
        let taken = self
            .readers
            .compare_exchange(0, WRITER, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_ok() {
            self.owner.store(record::number(), Ordering::Relaxed);
        }
        Ok(taken.is_ok())
    }

    fn is_mine(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == record::number()
    }

    /// Takes the lock by `take`, at most until the deadline. No cancellation point.
    fn lock(
        &self,
        take: fn(&RwLock) -> io::Result<bool>,
        deadline: Option<Instant>,
    ) -> io::Result<()> {
        if take(self)? {
            return Ok(());
        }
        if self.is_mine() {
            return Err(io::Error::from_raw_os_error(libc::EDEADLK));
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let locked = uthread::shield(|| self.await_lock(take, deadline));
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        locked
    }

    #[cold]
    fn await_lock(
        &self,
        take: fn(&RwLock) -> io::Result<bool>,
        deadline: Option<Instant>,
    ) -> io::Result<()> {
        loop {
            let unlocks = self.unlocks.load(Ordering::Relaxed);
            // Ordered after the count of waiters, as an unlock reads that after it has freed the
            // lock: one of them sees the other.
            fence(Ordering::SeqCst);
            if take(self)? {
                return Ok(());
            }
            match futex::wait(&self.unlocks, unlocks, deadline) {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(error),
                _ => {}
            }
        }
    }

    fn try_lock(&self, take: fn(&RwLock) -> io::Result<bool>) -> io::Result<()> {
        if take(self)? {
            return Ok(());
        }
        // Lets the owner run: the caller may try in a loop.
        uthread::yield_now();
        Err(io::Error::from_raw_os_error(libc::EBUSY))
    }

    fn unlock(&self) -> io::Result<()> {
        let is_free = match self.readers.load(Ordering::Relaxed) {
            0 => return Err(io::Error::from_raw_os_error(libc::EPERM)),
            WRITER if !self.is_mine() => return Err(io::Error::from_raw_os_error(libc::EPERM)),
            WRITER => {
                self.owner.store(0, Ordering::Relaxed);
                self.readers.store(0, Ordering::Release);
                true
            }
            _ => self.readers.fetch_sub(1, Ordering::Release) == 1,
        };
        fence(Ordering::SeqCst);
        if is_free && self.waiting.load(Ordering::Relaxed) > 0 {
            self.unlocks.fetch_add(1, Ordering::Relaxed);
            futex::wake(&self.unlocks, usize::MAX);
        }
        Ok(())
    }
}

/// Takes a lock by `take`, until a time of this clock.
///
/// # Safety
///
/// `lock` points to a lock, and `time` to the time.
#[allow(unsafe_code, reason = "objects of the program")]
unsafe fn lock_until(
    lock: *const uthread_rwlock_t,
    take: fn(&RwLock) -> io::Result<bool>,
    clock: libc::clockid_t,
    time: *const libc::timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    let (lock, time) = (unsafe { RwLock::at(lock) }, unsafe { &*time });
    let deadline = deadline::of(clock, time);
    code(deadline.and_then(|deadline| lock.lock(take, deadline)))
}

/// Initializes a lock. `attr` is not used.
///
/// # Safety
///
/// `lock` points to where it is stored.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_rwlock_init(
    lock: *mut uthread_rwlock_t,
    _attr: *const std::ffi::c_void,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { lock.write(uthread_rwlock_t { words: [0; 7] }) };
    0
}

/// Returns 0, or `EBUSY` if the lock is taken.
///
/// # Safety
///
/// `lock` points to a lock.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_rwlock_destroy(lock: *mut uthread_rwlock_t) -> c_int {
    // SAFETY: the caller's contract.
    match unsafe { RwLock::at(lock) }.readers.load(Ordering::Relaxed) {
        0 => 0,
        _ => libc::EBUSY,
    }
}

/// Locks for reading. Not a cancellation point. Returns 0; `EDEADLK` if the caller is the writer;
/// `EAGAIN` if there are too many readers.
///
/// # Safety
///
/// `lock` points to a lock.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_rwlock_rdlock(lock: *mut uthread_rwlock_t) -> c_int {
    // SAFETY: the caller's contract.
    let lock = unsafe { RwLock::at(lock) };
    code(lock.lock(RwLock::try_read, None))
}

/// Locks for reading if no writer has the lock. Returns 0, `EBUSY` or `EAGAIN`.
///
/// # Safety
///
/// `lock` points to a lock.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_rwlock_tryrdlock(lock: *mut uthread_rwlock_t) -> c_int {
    // SAFETY: the caller's contract.
    let lock = unsafe { RwLock::at(lock) };
    code(lock.try_lock(RwLock::try_read))
}

/// Locks for reading until a time of `CLOCK_REALTIME`; then returns `ETIMEDOUT`.
///
/// # Safety
///
/// `lock` points to a lock, and `time` to the time.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_rwlock_timedrdlock(
    lock: *mut uthread_rwlock_t,
    time: *const libc::timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { uthread_rwlock_clockrdlock(lock, libc::CLOCK_REALTIME, time) }
}

/// Locks for writing. Not a cancellation point. Returns 0, or `EDEADLK` if the caller is the writer.
///
/// # Safety
///
/// `lock` points to a lock.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_rwlock_wrlock(lock: *mut uthread_rwlock_t) -> c_int {
    // SAFETY: the caller's contract.
    let lock = unsafe { RwLock::at(lock) };
    code(lock.lock(RwLock::try_write, None))
}

/// Locks for writing if the lock is free. Returns 0 or `EBUSY`.
///
/// # Safety
///
/// `lock` points to a lock.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_rwlock_trywrlock(lock: *mut uthread_rwlock_t) -> c_int {
    // SAFETY: the caller's contract.
    let lock = unsafe { RwLock::at(lock) };
    code(lock.try_lock(RwLock::try_write))
}

/// Locks for writing until a time of `CLOCK_REALTIME`; then returns `ETIMEDOUT`.
///
/// # Safety
///
/// `lock` points to a lock, and `time` to the time.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_rwlock_timedwrlock(
    lock: *mut uthread_rwlock_t,
    time: *const libc::timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { uthread_rwlock_clockwrlock(lock, libc::CLOCK_REALTIME, time) }
}

/// Unlocks. Returns 0, or `EPERM` if the lock is free or another thread is the writer.
///
/// # Safety
///
/// `lock` points to a lock.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_rwlock_unlock(lock: *mut uthread_rwlock_t) -> c_int {
    // SAFETY: the caller's contract.
    let lock = unsafe { RwLock::at(lock) };
    code(lock.unlock())
}

/// Locks for reading until a time of this clock, `CLOCK_REALTIME` or `CLOCK_MONOTONIC`; then returns
/// `ETIMEDOUT`.
///
/// # Safety
///
/// `lock` points to a lock, and `time` to the time.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_rwlock_clockrdlock(
    lock: *mut uthread_rwlock_t,
    clock: libc::clockid_t,
    time: *const libc::timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { lock_until(lock, RwLock::try_read, clock, time) }
}

/// Locks for writing until a time of this clock, `CLOCK_REALTIME` or `CLOCK_MONOTONIC`; then returns
/// `ETIMEDOUT`.
///
/// # Safety
///
/// `lock` points to a lock, and `time` to the time.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_rwlock_clockwrlock(
    lock: *mut uthread_rwlock_t,
    clock: libc::clockid_t,
    time: *const libc::timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { lock_until(lock, RwLock::try_write, clock, time) }
}

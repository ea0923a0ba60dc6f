//! Semaphores of one process, as `semaphore.h` has them.

use std::ffi::{c_int, c_uint};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Instant;

use uthread::sync::futex;

use crate::deadline;
use crate::errno::returned;
use crate::record;
use crate::signals::{self, Wait};

/// A semaphore.
#[repr(C)]
#[derive(Debug)]
pub struct uthread_sem_t {
    words: [u64; 4],
}

/// The largest value of a semaphore.
const VALUE_MAX: u32 = i32::MAX as u32;

#[repr(C)]
struct Semaphore {
    value: AtomicU32,
    waiting: AtomicU32,
}

const _: () = assert!(size_of::<Semaphore>() <= size_of::<uthread_sem_t>());

impl Semaphore {
    /// Returns the semaphore at this address.
    ///
    /// # Safety
    ///
    /// A semaphore of the program, which outlives the reference.
    #[allow(unsafe_code, reason = "an object of the program")]
    unsafe fn at<'a>(semaphore: *const uthread_sem_t) -> &'a Semaphore {
        // SAFETY: the caller's contract; all of its words are atomics.
        unsafe { &*semaphore.cast() }
    }

    fn try_take(&self) -> bool {
        let less = |value: u32| value.checked_sub(1);
        let taken = (self.value).fetch_update(Ordering::Acquire, Ordering::Relaxed, less);
        taken.is_ok()
    }

    fn wait(&self, deadline: Option<Instant>) -> io::Result<()> {
        if self.try_take() {
            return Ok(());
        }
        record::point(|| {
            let wait = Wait::begin(&self.value, !record::is_fiber());
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let taken = self.await_value(&wait, deadline);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            taken
        })
    }

    fn await_value(&self, wait: &Wait, deadline: Option<Instant>) -> io::Result<()> {
        // Ordered after the count of waiters, as a post reads that after it has raised the value: one
        // of them sees the other.
        fence(Ordering::SeqCst);
        while !self.try_take() {
            if wait.has_ended() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            match futex::wait(&self.value, 0, deadline) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                ended => ended?,
            }
        }
        Ok(())
    }

    fn try_wait(&self) -> io::Result<()> {
        if self.try_take() {
            return Ok(());
        }
        // Lets others post: the caller may try in a loop.
        uthread::yield_now();
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn post(&self) -> io::Result<()> {
        let more = |value: u32| (value < VALUE_MAX).then(|| value + 1);
        (self.value)
            .fetch_update(Ordering::Release, Ordering::Relaxed, more)
            .map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            if signals::is_handler() {
                signals::wake_later(&raw const self.value);
            } else {
                futex::wake(&self.value, 1);
            }
        }
        Ok(())
    }
}

/// Initializes a semaphore. Returns 0, or -1 with `EINVAL` for a value of more than `INT_MAX`, or
/// `ENOSYS` if it is to be shared with other processes.
///
/// # Safety
///
/// `semaphore` points to where it is stored.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_sem_init(
    semaphore: *mut uthread_sem_t,
    shared: c_int,
    value: c_uint,
) -> c_int {
    if value > VALUE_MAX {
        return returned(Err(io::ErrorKind::InvalidInput.into()));
    }
    if shared != 0 {
        return returned(Err(io::Error::from_raw_os_error(libc::ENOSYS)));
    }
    // SAFETY: the caller's contract.
    unsafe { semaphore.write(uthread_sem_t { words: [0; 4] }) };
    // SAFETY: initialized now.
    let semaphore = unsafe { Semaphore::at(semaphore) };
    semaphore.value.store(value, Ordering::Relaxed);
    0
}

/// Does nothing: a semaphore owns no memory.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub extern "C" fn uthread_sem_destroy(_semaphore: *mut uthread_sem_t) -> c_int {
    0
}

/// Waits until the value is greater than zero, and lowers it. A cancellation point. Returns 0, or -1 with
/// `EINTR` if a signal handler without `SA_RESTART` has interrupted a thread of the system.
///
/// # Safety
///
/// `semaphore` points to a semaphore.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_sem_wait(semaphore: *mut uthread_sem_t) -> c_int {
    // SAFETY: the caller's contract.
    returned(unsafe { Semaphore::at(semaphore) }.wait(None).map(|()| 0))
}

/// Waits until a time of `CLOCK_REALTIME`; then returns -1 with `ETIMEDOUT`.
///
/// # Safety
///
/// `semaphore` points to a semaphore, and `time` to the time.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_sem_timedwait(
    semaphore: *mut uthread_sem_t,
    time: *const libc::timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { uthread_sem_clockwait(semaphore, libc::CLOCK_REALTIME, time) }
}

/// Lowers the value if it is greater than zero. Returns 0, or -1 with `EAGAIN`.
///
/// # Safety
///
/// `semaphore` points to a semaphore.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_sem_trywait(semaphore: *mut uthread_sem_t) -> c_int {
    // SAFETY: the caller's contract.
    returned(unsafe { Semaphore::at(semaphore) }.try_wait().map(|()| 0))
}

/// Raises the value, and wakes the thread that has waited longest. Returns 0, or -1 with `EOVERFLOW`. A
/// handler that `uthread_sigaction` or `uthread_signal` has installed may call it.
///
/// # Safety
///
/// `semaphore` points to a semaphore.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_sem_post(semaphore: *mut uthread_sem_t) -> c_int {
    // SAFETY: the caller's contract.
    returned(unsafe { Semaphore::at(semaphore) }.post().map(|()| 0))
}

/// Stores the value.
///
/// # Safety
///
/// `semaphore` points to a semaphore, and `value` to where the value is stored.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_sem_getvalue(
    semaphore: *mut uthread_sem_t,
    value: *mut c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    let semaphore = unsafe { Semaphore::at(semaphore) };
    let now = semaphore.value.load(Ordering::Relaxed);
    // SAFETY: the caller's contract.
    unsafe { value.write(now as c_int) };
    0
}

/// Waits until a time of this clock, `CLOCK_REALTIME` or `CLOCK_MONOTONIC`; then returns -1 with
/// `ETIMEDOUT`.
///
/// # Safety
///
/// `semaphore` points to a semaphore, and `time` to the time.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_sem_clockwait(
    semaphore: *mut uthread_sem_t,
    clock: libc::clockid_t,
    time: *const libc::timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    let (semaphore, time) = (unsafe { Semaphore::at(semaphore) }, unsafe { &*time });
    let waited = deadline::of(clock, time).and_then(|deadline| semaphore.wait(deadline));
    returned(waited.map(|()| 0))
}

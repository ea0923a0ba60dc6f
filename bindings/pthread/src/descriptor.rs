//! Waits for a descriptor.

use std::cell::Cell;
use std::ffi::c_int;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, RawFd};
use std::time::Instant;

use uthread::fs::File;
use uthread::ring::{self, Events};

use crate::errno::outcome;
use crate::{record, signals};

/// Number of calls that complete at once after which a thread lets others run.
const CALLS_AT_ONCE: u32 = 32;

thread_local! {
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

/// Counts a call that has completed at once. Not inlined: the address of a thread-local value must
/// not be kept across a wait.
#[inline(never)]
fn count_call() -> bool {
    let calls = (CALLS.get() + 1) % CALLS_AT_ONCE;
    CALLS.set(calls);
    calls == 0
}

/// Repeats a call that does not wait whenever the descriptor is ready. A cancellation point.
///
/// # Errors
///
/// The errors of the call: `WouldBlock` if the descriptor is non-blocking, or after `timeout`, which
/// says how long the call may wait.
pub(crate) fn retry<T>(
    fd: RawFd,
    events: Events,
    timeout: impl Fn() -> Option<Instant>,
    mut call: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    record::point(|| {
        let mut deadline = None;
        loop {
            match call() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if is_nonblocking(fd) {
                        return Err(error);
                    }
                    let deadline = *deadline.get_or_insert_with(&timeout);
                    if !wait(fd, events, deadline)? {
                        return Err(error);
                    }
                }
                result => {
                    if count_call() {
                        record::let_others_run();
                    }
                    return result;
                }
            }
        }
    })
}

/// No limit of time.
pub(crate) fn for_ever() -> Option<Instant> {
    None
}

/// Waits until a descriptor is ready; returns `false` if it is not at the deadline.
///
/// # Errors
///
/// `ECANCELED` or `ETIMEDOUT` if the caller may not wait.
#[allow(unsafe_code, reason = "a descriptor of the program")]
pub(crate) fn wait(fd: RawFd, events: Events, deadline: Option<Instant>) -> io::Result<bool> {
    if signals::is_handler() {
        return wait_in_kernel(fd, events, deadline);
    }
    // SAFETY: the program keeps the descriptor open during the call.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let ready = || ring::poll_once(&fd, events).map(|_| true);
    let Some(deadline) = deadline else {
        return ready();
    };
    let left = deadline.saturating_duration_since(Instant::now());
    match uthread::timeout(left, ready) {
        // The caller's own deadline may have been the earlier one.
        Ok(Err(error)) if is_over(&error) && deadline <= Instant::now() => Ok(false),
        Ok(ready) => ready,
        Err(_elapsed) => Ok(false),
    }
}

/// Returns `true` if the descriptor is ready.
pub(crate) fn is_ready(fd: RawFd, events: Events) -> io::Result<bool> {
    wait_in_kernel(fd, events, Some(Instant::now()))
}

/// Blocks the thread, as a handler of a signal may.
#[allow(unsafe_code, reason = "a system call")]
fn wait_in_kernel(fd: RawFd, events: Events, deadline: Option<Instant>) -> io::Result<bool> {
    let mut wanted = libc::pollfd {
        fd,
        events: events.bits().cast_signed(),
        revents: 0,
    };
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let left = left.map_or(-1, |left| left.as_millis().try_into().unwrap_or(c_int::MAX));
    // SAFETY: there is one descriptor.
    outcome(unsafe { libc::poll(&raw mut wanted, 1, left) }).map(|count| count > 0)
}

fn is_over(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
}

/// Returns `true` if the program has made the descriptor non-blocking.
#[allow(unsafe_code, reason = "a system call")]
pub(crate) fn is_nonblocking(fd: RawFd) -> bool {
    // SAFETY: the call takes no memory.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_NONBLOCK != 0
}

/// A file of the program as one of the library, which does not close it.
pub(crate) struct Lent(ManuallyDrop<File>);

impl Lent {
    #[allow(unsafe_code, reason = "a descriptor of the program")]
    pub(crate) fn new(fd: RawFd) -> Lent {
        // SAFETY: the program keeps the descriptor open during the call; nothing closes it here.
        Lent(ManuallyDrop::new(unsafe { File::from_raw_fd(fd) }))
    }
}

impl Deref for Lent {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

/// Frees what the library keeps about the file.
impl Drop for Lent {
    #[allow(unsafe_code, reason = "a descriptor of the program")]
    fn drop(&mut self) {
        // SAFETY: nothing uses it afterwards.
        let file = unsafe { ManuallyDrop::take(&mut self.0) };
        let _ = file.into_raw_fd();
    }
}

/// Makes a socket non-blocking, or blocking.
#[allow(unsafe_code, reason = "a system call")]
pub(crate) fn set_nonblocking(fd: RawFd, nonblocking: bool) -> io::Result<()> {
    let flag = i32::from(nonblocking);
    // SAFETY: the flag lives until the call has returned.
    outcome(unsafe { libc::ioctl(fd, libc::FIONBIO, &raw const flag) }).map(drop)
}

//! Waiting for events of an epoll instance.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::driver::native;

/// Maximum number of events taken at once: as many as fibers run in a scheduler round. Further
/// events stay in the kernel until the next call.
pub(super) const EVENTS_MAX: usize = 64;

/// Cleared if the kernel does not support `epoll_pwait2` (before 5.11), or a filter forbids it.
/// Relaxed: a late reader only tries once more.
static PRECISE: AtomicBool = AtomicBool::new(true);

/// Returns `true` if waits have a finer resolution than milliseconds.
pub(super) fn has_precise_waits() -> bool {
    let buffer = &mut Events::new().0;
    // Not an open descriptor: only whether the call exists is of interest.
    #[allow(unsafe_code, reason = "a number that is no descriptor's")]
    // SAFETY: the descriptor is used only for a call that fails.
    let nobody = unsafe { BorrowedFd::borrow_raw(i32::MAX) };
    PRECISE.load(Ordering::Relaxed) && fill(buffer, nobody, Duration::ZERO) == Err(Errno::BADF)
}

/// Reports an event with `data` each time that `fd` becomes readable.
pub(super) fn listen(
    epoll: BorrowedFd<'_>,
    fd: BorrowedFd<'_>,
    data: u64,
) -> rustix::io::Result<()> {
    let flags = EventFlags::IN | EventFlags::ET;
    epoll::add(epoll, fd, EventData::new_u64(data), flags)
}

/// A buffer for events.
pub(super) struct Events([MaybeUninit<Event>; EVENTS_MAX]);

impl Events {
    pub(super) fn new() -> Events {
        Events([const { MaybeUninit::uninit() }; EVENTS_MAX])
    }

    /// Waits for events, at most for `timeout`, and takes at most `max` of them, but no more than
    /// [`EVENTS_MAX`]. Returns none after the timeout, or after a signal.
    pub(super) fn wait(
        &mut self,
        epoll: BorrowedFd<'_>,
        timeout: Option<Duration>,
        max: usize,
    ) -> &mut [Event] {
        let buffer = &mut self.0[..max.min(EVENTS_MAX)];
        let is_precise = PRECISE.load(Ordering::Relaxed);
        let count = match timeout {
            Some(timeout) if !timeout.is_zero() && is_precise => {
                match fill(buffer, epoll, timeout) {
                    Err(Errno::NOSYS | Errno::PERM) => {
                        PRECISE.store(false, Ordering::Relaxed);
                        fill_coarsely(buffer, epoll, Some(timeout))
                    }
                    result => result,
                }
            }
            timeout => fill_coarsely(buffer, epoll, timeout),
        };
        let count = match count {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(errno) => panic!("epoll_wait: {errno}: no cause known, please report"),
        };
        let written = ptr::from_mut(&mut buffer[..count]) as *mut [Event];
        #[allow(unsafe_code, reason = "events that the kernel has written")]
        // SAFETY: the kernel has initialized the first `count` events.
        unsafe {
            &mut *written
        }
    }
}

/// Waits for events that fit into `buffer`, with a timeout in nanoseconds.
#[allow(unsafe_code, reason = "a system call that no crate offers by itself")]
fn fill(
    buffer: &mut [MaybeUninit<Event>],
    epoll: BorrowedFd<'_>,
    timeout: Duration,
) -> rustix::io::Result<usize> {
    let timeout = native::timespec(timeout);
    // SAFETY: `Event` is the kernel's `struct epoll_event`, and the buffer has so many; the timeout
    // is the kernel's `struct timespec`; there is no signal mask.
    let result = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            buffer.as_mut_ptr(),
            buffer.len(),
            &raw const timeout,
            ptr::null::<libc::sigset_t>(),
            0_usize,
        )
    };
    count_or_errno(result)
}

/// Waits like [`fill`] in whole milliseconds, rounded up. Does not use `rustix`: a feature that
/// another crate enables changes its function to the newer call. Nor the function of `libc`, which
/// makes the thread cancellable meanwhile, at the cost of two atomic operations.
#[allow(
    unsafe_code,
    reason = "a system call whose safe form may be another one"
)]
fn fill_coarsely(
    buffer: &mut [MaybeUninit<Event>],
    epoll: BorrowedFd<'_>,
    timeout: Option<Duration>,
) -> rustix::io::Result<usize> {
    // A caller with a timeout beyond the maximum polls in between.
    let timeout_ms = timeout.map_or(-1, |timeout| {
        i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
    });
    // SAFETY: `Event` is the kernel's `struct epoll_event`, and the buffer has so many; there is no
    // signal mask.
    let result = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait,
            epoll.as_raw_fd(),
            buffer.as_mut_ptr(),
            buffer.len(),
            timeout_ms,
            ptr::null::<libc::sigset_t>(),
            0_usize,
        )
    };
    count_or_errno(result)
}

/// Converts the result of a call that returns a count, or -1 and sets errno.
fn count_or_errno(result: libc::c_long) -> rustix::io::Result<usize> {
    usize::try_from(result)
        .map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::NOSYS))
}

//! Times of C as moments.

use std::io;
use std::time::{Duration, Instant};

/// Returns the moment of an absolute time of this clock, or `None` for one that no clock reaches.
///
/// # Errors
///
/// `InvalidInput` for a clock other than `CLOCK_REALTIME` and `CLOCK_MONOTONIC`, or if the nanoseconds
/// are not those of a second.
pub(crate) fn of(clock: libc::clockid_t, time: &libc::timespec) -> io::Result<Option<Instant>> {
    check(clock)?;
    let since_beginning = duration(time)?;
    Ok(after(since_beginning.saturating_sub(now(clock))))
}

/// Checks that deadlines may be times of this clock.
///
/// # Errors
///
/// `InvalidInput` if not.
pub(crate) fn check(clock: libc::clockid_t) -> io::Result<()> {
    match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC => Ok(()),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Returns the moment after this time, or `None` if no clock reaches it.
pub(crate) fn after(time: Duration) -> Option<Instant> {
    Instant::now().checked_add(time)
}

/// Returns a time of C; one before its clock's beginning is over.
///
/// # Errors
///
/// `InvalidInput` if the nanoseconds are not those of a second.
pub(crate) fn duration(time: &libc::timespec) -> io::Result<Duration> {
    let nanoseconds = u32::try_from(time.tv_nsec).ok();
    let nanoseconds = nanoseconds
        .filter(|nanoseconds| *nanoseconds < 1_000_000_000)
        .ok_or(io::ErrorKind::InvalidInput)?;
    let seconds = u64::try_from(time.tv_sec);
    Ok(seconds.map_or(Duration::ZERO, |seconds| {
        Duration::new(seconds, nanoseconds)
    }))
}

#[allow(unsafe_code, reason = "a system call that std has no function for")]
fn now(clock: libc::clockid_t) -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure lives until the call has returned. Both clocks exist on each Linux.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    duration(&now).unwrap_or_default()
}

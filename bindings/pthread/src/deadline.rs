//! Times of C as moments.

use std::io;
use std::time::{Duration, Instant, SystemTime};

/// The clock of a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    Realtime,
    Monotonic,
}

impl Clock {
    /// Returns the clock of this number.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for another clock.
    pub(crate) fn of(number: libc::clockid_t) -> io::Result<Clock> {
        match number {
            libc::CLOCK_REALTIME => Ok(Clock::Realtime),
            libc::CLOCK_MONOTONIC => Ok(Clock::Monotonic),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Returns the moment of an absolute time of this clock, or `None` for one that no clock
    /// reaches.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the nanoseconds are not those of a second.
    pub(crate) fn moment(self, time: &libc::timespec) -> io::Result<Option<Instant>> {
        let since_epoch = duration(time)?;
        let now = match self {
            Clock::Realtime => SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default(),
            Clock::Monotonic => monotonic(),
        };
        Ok(after(since_epoch.saturating_sub(now)))
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
fn monotonic() -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure lives until the call has returned. The clock exists on each Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    duration(&now).unwrap_or_default()
}

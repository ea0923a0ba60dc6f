//! The settings of a socket that its clones share: timeouts, and whether to wait at all.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// No timeout: wait for ever.
const FOREVER: u64 = 0;

/// A timeout in nanoseconds. Relaxed throughout: a setting, which guards no other memory.
#[derive(Debug, Default)]
pub(super) struct Timeout(AtomicU64);

impl Timeout {
    pub(super) fn get(&self) -> Option<Duration> {
        match self.0.load(Ordering::Relaxed) {
            FOREVER => None,
            nanoseconds => Some(Duration::from_nanos(nanoseconds)),
        }
    }

    /// Sets the timeout; longer than 584 years is for ever.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for zero, as in `std`.
    pub(super) fn set(&self, timeout: Option<Duration>) -> io::Result<()> {
        let nanoseconds = match timeout {
            None => FOREVER,
            Some(Duration::ZERO) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "a timeout of zero: use None to wait for ever",
                ));
            }
            Some(timeout) => u64::try_from(timeout.as_nanos()).unwrap_or(FOREVER),
        };
        self.0.store(nanoseconds, Ordering::Relaxed);
        Ok(())
    }
}

/// What all clones of one socket share.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) read_timeout: Timeout,
    pub(super) write_timeout: Timeout,
    /// Whether the user asked for calls that never wait.
    nonblocking: AtomicBool,
    /// Whether we made the descriptor non-blocking for a system call that has no flag for it.
    pub(super) raised_nonblock: AtomicBool,
}

impl Settings {
    pub(super) fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    pub(super) fn set_nonblocking(&self, nonblocking: bool) {
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
        self.raised_nonblock.store(false, Ordering::Relaxed);
    }
}

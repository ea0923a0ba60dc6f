//! Settings that all clones of a socket share: timeouts and the blocking mode.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The value for no timeout: the call waits without limit.
const FOREVER: u64 = 0;

/// A timeout in nanoseconds. All accesses are relaxed: the value guards no other memory.
#[derive(Debug, Default)]
struct Timeout(AtomicU64);

impl Timeout {
    fn get(&self) -> Option<Duration> {
        match self.0.load(Ordering::Relaxed) {
            FOREVER => None,
            nanoseconds => Some(Duration::from_nanos(nanoseconds)),
        }
    }

    /// Sets the timeout. A timeout of more than 584 years counts as none.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `timeout` is zero, as in `std`.
    fn set(&self, timeout: Option<Duration>) -> io::Result<()> {
        let nanoseconds = match timeout {
            None => FOREVER,
            Some(Duration::ZERO) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "cannot set a 0 duration timeout",
                ));
            }
            Some(timeout) => u64::try_from(timeout.as_nanos()).unwrap_or(FOREVER),
        };
        self.0.store(nanoseconds, Ordering::Relaxed);
        Ok(())
    }
}

/// The settings shared by all clones of a socket. Nothing is allocated until a setting is changed
/// or the socket is cloned, so that calls on other sockets need not fetch the memory.
#[derive(Debug, Default)]
pub(super) struct Settings(OnceLock<Arc<Shared>>);

#[derive(Debug, Default)]
struct Shared {
    read_timeout: Timeout,
    write_timeout: Timeout,
    /// `true` if the user has made the socket non-blocking.
    nonblocking: AtomicBool,
    /// `true` if the crate has made the descriptor non-blocking for a system call without a flag
    /// for that.
    raised_nonblock: AtomicBool,
}

impl Settings {
    /// Returns the settings for another handle to the socket.
    pub(super) fn share(&self) -> Settings {
        Settings(OnceLock::from(Arc::clone(self.shared())))
    }

    pub(super) fn read_timeout(&self) -> Option<Duration> {
        self.0.get()?.read_timeout.get()
    }

    pub(super) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.shared().read_timeout.set(timeout)
    }

    pub(super) fn write_timeout(&self) -> Option<Duration> {
        self.0.get()?.write_timeout.get()
    }

    pub(super) fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.shared().write_timeout.set(timeout)
    }

    pub(super) fn is_nonblocking(&self) -> bool {
        let shared = self.0.get();
        shared.is_some_and(|shared| shared.nonblocking.load(Ordering::Relaxed))
    }

    pub(super) fn set_nonblocking(&self, nonblocking: bool) {
        let shared = self.shared();
        shared.nonblocking.store(nonblocking, Ordering::Relaxed);
        shared.raised_nonblock.store(false, Ordering::Relaxed);
    }

    pub(super) fn raised_nonblock(&self) -> &AtomicBool {
        &self.shared().raised_nonblock
    }

    fn shared(&self) -> &Arc<Shared> {
        self.0.get_or_init(Arc::default)
    }
}

//! A lock without a value: of the position of a file, and of the standard streams.

use super::lock::Lock;
use crate::atomic::AtomicU32;

/// A lock for one fiber or thread at a time.
pub(crate) struct Exclusive(Lock);

/// Holds the lock until it is dropped.
pub(crate) struct Held<'a>(&'a Lock);

impl Exclusive {
    pub(crate) const fn new() -> Exclusive {
        Exclusive(Lock::new(AtomicU32::new(0)))
    }

    /// Waits for the lock: a fiber suspended, a thread blocked.
    pub(crate) fn lock(&self) -> Held<'_> {
        self.0.write();
        Held(&self.0)
    }
}

impl Default for Exclusive {
    fn default() -> Exclusive {
        Exclusive::new()
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.unlock_write();
    }
}

//! Locks on whole files.
//!
//! Whoever waits for such a lock sleeps in the kernel, which tells no driver when the lock is free. A thread of the pool
//! could sleep for a fiber; but as many fibers as the pool has threads would then keep it from the very call after which
//! the lock is released. So a fiber asks again and again, at growing intervals.

use std::fs::TryLockError;
use std::io;
use std::time::Duration;

use super::File;
use crate::sched::{offload, wait};

/// The first pause of a fiber that waits: some times what a turn of the pool takes.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// The longest: a fiber that waits long asks 20 times a second.
const PAUSE_MAX: Duration = Duration::from_millis(50);

impl File {
    /// Waits until no other handle has a lock on this file, and takes the only one. The lock is advisory: it keeps away
    /// who asks for a lock too, and is released by [`unlock`](File::unlock) or when the last clone of this file
    /// is closed.
    ///
    /// A fiber that waits asks again every 1 to 50 ms, because the kernel does not tell when the lock is free: a thread
    /// that asks for the lock meanwhile may come first.
    ///
    /// # Errors
    ///
    /// The kernel's; `ECANCELED` where the fiber is cancelled while it waits.
    ///
    /// ```
    /// use uthread::fs::File;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let f = File::create(directory.path().join("foo.txt"))?;
    /// f.lock()?;
    /// assert!(File::open(directory.path().join("foo.txt"))?.try_lock().is_err());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn lock(&self) -> io::Result<()> {
        self.wait_for(std::fs::File::lock, std::fs::File::try_lock)
    }

    /// Waits until no other handle has an exclusive lock on this file, and takes a lock that others may share.
    ///
    /// # Errors
    ///
    /// As [`lock`](File::lock).
    ///
    /// ```
    /// use uthread::fs::File;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let f = File::create(directory.path().join("foo.txt"))?;
    /// f.lock_shared()?;
    /// File::open(directory.path().join("foo.txt"))?.lock_shared()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn lock_shared(&self) -> io::Result<()> {
        self.wait_for(std::fs::File::lock_shared, std::fs::File::try_lock_shared)
    }

    /// As [`lock`](File::lock), but does not wait.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] where another handle has a lock; the kernel's.
    ///
    /// ```
    /// use uthread::fs::{File, TryLockError};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let f = File::create(directory.path().join("foo.txt"))?;
    /// // Explicit handling of the WouldBlock error
    /// match f.try_lock() {
    ///     Ok(_) => (),
    ///     Err(TryLockError::WouldBlock) => (), // Lock not acquired
    ///     Err(TryLockError::Error(err)) => return Err(err),
    /// }
    /// // Alternately, propagate the error as an io::Error
    /// f.try_lock()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn try_lock(&self) -> Result<(), TryLockError> {
        self.ask_for(std::fs::File::try_lock)
    }

    /// As [`lock_shared`](File::lock_shared), but does not wait.
    ///
    /// # Errors
    ///
    /// As [`try_lock`](File::try_lock).
    ///
    /// ```
    /// use uthread::fs::{File, TryLockError};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let f = File::create(directory.path().join("foo.txt"))?;
    /// f.lock()?;
    /// let other = File::open(directory.path().join("foo.txt"))?;
    /// assert!(matches!(other.try_lock_shared(), Err(TryLockError::WouldBlock)));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn try_lock_shared(&self) -> Result<(), TryLockError> {
        self.ask_for(std::fs::File::try_lock_shared)
    }

    /// Releases the lock of this handle and its clones, if there is one. A cancelled fiber still can.
    ///
    /// # Errors
    ///
    /// The kernel's.
    ///
    /// ```
    /// use uthread::fs::File;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let f = File::open(directory.path())?;
    /// f.lock()?;
    /// f.unlock()?;
    /// File::open(directory.path())?.try_lock()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn unlock(&self) -> io::Result<()> {
        offload::run(|| self.inner.unlock())
    }

    fn wait_for(
        &self,
        block: fn(&std::fs::File) -> io::Result<()>,
        ask: fn(&std::fs::File) -> Result<(), TryLockError>,
    ) -> io::Result<()> {
        if !wait::in_fiber() {
            return block(&self.inner);
        }
        if !wait::is_on_worker() {
            return loop {
                match offload::perform(|| block(&self.inner)) {
                    // It refuses if the signal was a cancellation's that is not held off.
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    result => break result,
                }
            };
        }
        let mut pause = PAUSE_MIN;
        loop {
            match self.ask_for(ask) {
                Err(TryLockError::WouldBlock) => {}
                result => return Ok(result?),
            }
            wait::park_deadline(wait::after(wait::now(), pause));
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn ask_for(
        &self,
        ask: fn(&std::fs::File) -> Result<(), TryLockError>,
    ) -> Result<(), TryLockError> {
        // On a network file system even this takes a while.
        offload::perform(|| Ok(ask(&self.inner)))
            .unwrap_or_else(|error| Err(TryLockError::Error(error)))
    }
}

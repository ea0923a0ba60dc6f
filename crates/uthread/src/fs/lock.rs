//! Locks on whole files (`flock`).
//!
//! A waiter for such a lock sleeps in the kernel, and no driver is notified when the lock is
//! released. Pool threads must not wait for it: as many waiting fibers as the pool has threads
//! would block the very call after which the holder releases the lock. A fiber therefore polls, at
//! growing intervals.

use std::fs::TryLockError;
use std::io;
use std::time::Duration;

use super::File;
use crate::sched::caller::{self, wait};
use crate::sched::features::offload;

/// First pause of a waiting fiber: several times the duration of a call on the pool.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// Longest pause of a waiting fiber, which then polls 20 times a second.
const PAUSE_MAX: Duration = Duration::from_millis(50);

impl File {
    /// Acquires an exclusive lock on this file, waiting until no other handle holds a lock.
    ///
    /// The lock is advisory: it affects only handles that acquire locks too. It is released by
    /// [`unlock`](File::unlock), or when the last clone of this file is closed. With io_uring the
    /// kernel may keep a file that was just written open for a moment longer than its last clone,
    /// at most until the worker next waits; `unlock` releases the lock at once.
    ///
    /// The kernel does not report when a lock is released, so a fiber polls for it every 1 to 50
    /// ms. A thread that waits for the same lock may acquire it first.
    ///
    /// # Errors
    ///
    /// `ECANCELED` if the fiber is cancelled while it waits; any error that `flock(2)` reports.
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

    /// Acquires a shared lock on this file, waiting until no other handle holds an exclusive lock.
    ///
    /// # Errors
    ///
    /// The errors of [`lock`](File::lock).
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

    /// Tries to acquire an exclusive lock on this file without waiting.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] if another handle holds a lock; [`TryLockError::Error`] with
    /// any other error that `flock(2)` reports.
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

    /// Tries to acquire a shared lock on this file without waiting.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] if another handle holds an exclusive lock;
    /// [`TryLockError::Error`] with any other error that `flock(2)` reports.
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

    /// Releases the lock held by this handle and its clones, if any. Works in a cancelled fiber
    /// too.
    ///
    /// # Errors
    ///
    /// Any error that `flock(2)` reports.
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
        if !caller::in_fiber() {
            return block(&self.inner);
        }
        if !caller::is_on_worker() {
            return loop {
                match offload::perform_wait(|| block(&self.inner)) {
                    // Retried, unless the signal was that of a cancellation and no shield holds it
                    // off.
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
            wait::park_deadline(caller::after(caller::now(), pause));
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn ask_for(
        &self,
        ask: fn(&std::fs::File) -> Result<(), TryLockError>,
    ) -> Result<(), TryLockError> {
        // On a network file system even this call takes time.
        offload::perform(|| Ok(ask(&self.inner)))
            .unwrap_or_else(|error| Err(TryLockError::Error(error)))
    }
}

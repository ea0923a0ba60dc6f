//! A counting semaphore.

mod permits;

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::parking_lot::WaitEnd;
use crate::atomic::{AtomicU64, AtomicUsize};
use crate::sched::caller::{self, cancellation, turn};
use permits::{Acquired, PERMITS_MAX, Permits};

/// A counting semaphore, which limits how many fibers and threads do something at the same time. It
/// has no counterpart in `std`; the names are those of Tokio's.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use uthread::sync::Semaphore;
///
/// let (semaphore, inside) = (Semaphore::new(2), AtomicUsize::new(0));
/// uthread::scope(|scope| {
///     for _ in 0..10 {
///         scope.spawn(|| {
///             let _permit = semaphore.acquire().unwrap();
///             assert!(inside.fetch_add(1, Ordering::Relaxed) < 2);
///             uthread::yield_now();
///             inside.fetch_sub(1, Ordering::Relaxed);
///         });
///     }
/// });
/// assert_eq!(semaphore.available_permits(), 2);
/// ```
///
/// # Fairness
///
/// Permits are granted to waiters in the order in which they arrived, whatever number each of them
/// wants. No waiter is overtaken.
///
/// # Cancellation
///
/// Waiting for permits is a cancellation point: a [cancelled](crate::thread::Cancelled) fiber
/// leaves the queue and is unwound. Permits granted just before are not lost: in that case the call
/// returns them. In a destructor, where the fiber cannot be unwound, a wait without a timeout
/// continues, as for a lock.
pub struct Semaphore {
    permits: Permits,
}

impl Semaphore {
    /// Maximum number of permits.
    pub const MAX_PERMITS: usize = PERMITS_MAX;

    /// Creates a semaphore with `permits` free permits. See the example of [`Semaphore`].
    ///
    /// # Panics
    ///
    /// Panics if there are more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
    #[must_use]
    pub const fn new(permits: usize) -> Semaphore {
        Semaphore {
            permits: Permits::new(
                AtomicUsize::new(Permits::word(permits)),
                AtomicU64::new(u64::MAX),
            ),
        }
    }

    /// Returns the number of free permits, which may have changed when the caller inspects it.
    ///
    /// ```
    /// let semaphore = uthread::sync::Semaphore::new(3);
    /// let _permits = semaphore.acquire_many(2).unwrap();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// ```
    pub fn available_permits(&self) -> usize {
        let available = self.permits.available();
        if available == 0 {
            turn::spend_try();
        }
        available
    }

    /// Adds `count` permits, and grants them to waiters.
    ///
    /// # Panics
    ///
    /// Panics if there would be more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
    ///
    /// ```
    /// let semaphore = uthread::sync::Semaphore::new(0);
    /// semaphore.add_permits(1);
    /// assert!(semaphore.try_acquire().is_ok());
    /// ```
    pub fn add_permits(&self, count: usize) {
        self.permits.release(count);
        turn::spend_try();
    }

    /// Acquires a permit, waiting for it if necessary. See the [example](Semaphore) above.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] if the semaphore is closed, also while the caller waits.
    pub fn acquire(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.acquire_many(1)
    }

    /// Acquires `count` permits at once, waiting for them if necessary.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] if the semaphore is closed, also while the caller waits.
    ///
    /// ```
    /// let semaphore = uthread::sync::Semaphore::new(3);
    /// let permits = semaphore.acquire_many(2)?;
    /// assert_eq!(permits.count(), 2);
    /// # Ok::<(), uthread::sync::AcquireError>(())
    /// ```
    pub fn acquire_many(&self, count: usize) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.wait_for(count)?;
        Ok(self.permit(count))
    }

    /// Acquires a permit without waiting.
    ///
    /// # Errors
    ///
    /// `NoPermits` if no permit is free or others wait; `Closed` if the semaphore is closed.
    ///
    /// ```
    /// use uthread::sync::{Semaphore, TryAcquireError};
    ///
    /// let semaphore = Semaphore::new(1);
    /// let _permit = semaphore.try_acquire()?;
    /// assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::NoPermits);
    /// # Ok::<(), TryAcquireError>(())
    /// ```
    pub fn try_acquire(&self) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.try_acquire_many(1)
    }

    /// Acquires `count` permits without waiting.
    ///
    /// # Errors
    ///
    /// `NoPermits` if fewer are free or others wait; `Closed` if the semaphore is closed.
    ///
    /// ```
    /// let semaphore = uthread::sync::Semaphore::new(2);
    /// assert!(semaphore.try_acquire_many(3).is_err());
    /// ```
    pub fn try_acquire_many(&self, count: usize) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.try_take(count)?;
        Ok(self.permit(count))
    }

    /// Acquires a permit, waiting at most for `timeout`.
    ///
    /// # Errors
    ///
    /// `NoPermits` if the time elapses, or if the caller is cancelled; `Closed` if the semaphore is
    /// closed, also while the caller waits.
    ///
    /// ```
    /// use std::time::Duration;
    /// let semaphore = uthread::sync::Semaphore::new(0);
    /// assert!(semaphore.acquire_timeout(Duration::from_millis(1)).is_err());
    /// ```
    pub fn acquire_timeout(
        &self,
        timeout: Duration,
    ) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.acquire_many_timeout(1, timeout)
    }

    /// Acquires `count` permits at once, waiting at most for `timeout`.
    ///
    /// # Errors
    ///
    /// Those of [`acquire_timeout`](Semaphore::acquire_timeout).
    ///
    /// ```
    /// use std::time::Duration;
    /// let semaphore = uthread::sync::Semaphore::new(1);
    /// assert!(semaphore.acquire_many_timeout(2, Duration::from_millis(1)).is_err());
    /// assert_eq!(semaphore.available_permits(), 1);
    /// ```
    pub fn acquire_many_timeout(
        &self,
        count: usize,
        timeout: Duration,
    ) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.wait_at_most(count, timeout)?;
        Ok(self.permit(count))
    }

    /// Acquires a permit that owns a reference to the semaphore, so that it has no lifetime. Waits
    /// if necessary.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] if the semaphore is closed, also while the caller waits.
    ///
    /// ```
    /// use uthread::sync::{Arc, Semaphore};
    ///
    /// let semaphore = Arc::new(Semaphore::new(2));
    /// let fibers: Vec<_> = (0..10)
    ///     .map(|_| {
    ///         // Waits here, so that there are never more than two fibers.
    ///         let permit = Arc::clone(&semaphore).acquire_owned().unwrap();
    ///         uthread::spawn(move || drop(permit))
    ///     })
    ///     .collect();
    /// # fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    /// ```
    pub fn acquire_owned(self: Arc<Semaphore>) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.acquire_many_owned(1)
    }

    /// Acquires `count` permits that own a reference to the semaphore. Waits if necessary.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] if the semaphore is closed, also while the caller waits.
    ///
    /// ```
    /// use uthread::sync::{Arc, Semaphore};
    /// let permits = Arc::new(Semaphore::new(2)).acquire_many_owned(2).unwrap();
    /// assert_eq!(permits.count(), 2);
    /// ```
    pub fn acquire_many_owned(
        self: Arc<Semaphore>,
        count: usize,
    ) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.wait_for(count)?;
        Ok(OwnedSemaphorePermit {
            semaphore: self,
            count,
        })
    }

    /// Acquires a permit that owns a reference to the semaphore, without waiting.
    ///
    /// # Errors
    ///
    /// Those of [`try_acquire`](Semaphore::try_acquire).
    ///
    /// ```
    /// use uthread::sync::{Arc, Semaphore};
    /// assert!(Arc::new(Semaphore::new(0)).try_acquire_owned().is_err());
    /// ```
    pub fn try_acquire_owned(
        self: Arc<Semaphore>,
    ) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.try_acquire_many_owned(1)
    }

    /// Acquires `count` permits that own a reference to the semaphore, without waiting.
    ///
    /// # Errors
    ///
    /// Those of [`try_acquire_many`](Semaphore::try_acquire_many).
    ///
    /// ```
    /// use uthread::sync::{Arc, Semaphore};
    /// assert!(Arc::new(Semaphore::new(2)).try_acquire_many_owned(2).is_ok());
    /// ```
    pub fn try_acquire_many_owned(
        self: Arc<Semaphore>,
        count: usize,
    ) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.try_take(count)?;
        Ok(OwnedSemaphorePermit {
            semaphore: self,
            count,
        })
    }

    /// Closes the semaphore: callers that wait, and those that come later, get an error. Permits
    /// that were acquired before stay valid, and are counted when they are returned.
    ///
    /// ```
    /// use uthread::sync::{AcquireError, Arc, Semaphore, TryAcquireError};
    ///
    /// let semaphore = Arc::new(Semaphore::new(1));
    /// let permit = semaphore.acquire()?;
    /// let theirs = Arc::clone(&semaphore);
    /// let waiting = uthread::spawn(move || theirs.acquire().is_err());
    /// semaphore.close();
    /// assert!(waiting.join().unwrap());
    /// assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::Closed);
    /// drop(permit);
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # Ok::<(), AcquireError>(())
    /// ```
    pub fn close(&self) {
        self.permits.close();
    }

    /// Returns `true` if the semaphore is closed.
    ///
    /// ```
    /// let semaphore = uthread::sync::Semaphore::new(1);
    /// assert!(!semaphore.is_closed());
    /// semaphore.close();
    /// assert!(semaphore.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        turn::spend_try();
        self.permits.is_closed()
    }

    fn try_take(&self, count: usize) -> Result<(), TryAcquireError> {
        turn::spend_try();
        if self.permits.try_acquire(count) {
            Ok(())
        } else if self.permits.is_closed() {
            Err(TryAcquireError::Closed)
        } else {
            Err(TryAcquireError::NoPermits)
        }
    }

    fn wait_for(&self, count: usize) -> Result<(), AcquireError> {
        turn::spend_try();
        let acquired = match self.permits.acquire(count, None) {
            Acquired::Permits => true,
            Acquired::Closed => false,
            Acquired::Not(_) => {
                cancellation::unwind_if_cancelled();
                // The wait continues, as the caller relies on the limit.
                self.permits.acquire_cancelled_or_not(count)
            }
        };
        acquired.then_some(()).ok_or(AcquireError(()))
    }

    fn wait_at_most(&self, count: usize, timeout: Duration) -> Result<(), TryAcquireError> {
        let deadline = caller::after(caller::now(), timeout);
        turn::spend_try();
        match self.permits.acquire(count, Some(deadline)) {
            Acquired::Permits => Ok(()),
            Acquired::Closed => Err(TryAcquireError::Closed),
            Acquired::Not(ended) => {
                if ended == WaitEnd::Cancelled {
                    cancellation::count_early_end();
                }
                Err(TryAcquireError::NoPermits)
            }
        }
    }

    /// Creates the permits that the caller has acquired.
    fn permit(&self, count: usize) -> SemaphorePermit<'_> {
        SemaphorePermit {
            semaphore: self,
            count,
        }
    }
}

/// The error that a [`Semaphore`] is closed. See the example of [`Semaphore::close`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcquireError(());

impl fmt::Display for AcquireError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the semaphore is closed")
    }
}

impl Error for AcquireError {}

/// The reason why a [`Semaphore`] has no permits at once, or in time. See the example of
/// [`Semaphore::try_acquire`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "programs match or construct it")]
pub enum TryAcquireError {
    /// The semaphore is closed.
    Closed,
    /// Too few permits are free, or others wait for them.
    NoPermits,
}

impl fmt::Display for TryAcquireError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            TryAcquireError::Closed => "the semaphore is closed",
            TryAcquireError::NoPermits => "too few permits are free",
        })
    }
}

impl Error for TryAcquireError {}

impl fmt::Debug for Semaphore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Semaphore")
            .field("available_permits", &self.permits.available())
            .field("is_closed", &self.permits.is_closed())
            .finish()
    }
}

/// Permits of a [`Semaphore`], returned on drop. See the example of [`Semaphore::acquire_many`].
///
/// They borrow the semaphore:
///
/// ```compile_fail,E0597
/// let permit;
/// {
///     let semaphore = uthread::sync::Semaphore::new(1);
///     permit = semaphore.acquire().unwrap();
/// }
/// drop(permit);
/// ```
#[must_use = "if unused the permits are returned at once"]
#[clippy::has_significant_drop]
#[derive(Debug)]
pub struct SemaphorePermit<'a> {
    semaphore: &'a Semaphore,
    count: usize,
}

/// Permits of a [`Semaphore`] that own a reference to it, returned on drop. See the example of
/// [`Semaphore::acquire_owned`].
#[must_use = "if unused the permits are returned at once"]
#[clippy::has_significant_drop]
#[derive(Debug)]
pub struct OwnedSemaphorePermit {
    semaphore: Arc<Semaphore>,
    count: usize,
}

impl SemaphorePermit<'_> {
    /// Returns the number of permits.
    ///
    /// ```
    /// assert_eq!(uthread::sync::Semaphore::new(1).acquire().unwrap().count(), 1);
    /// ```
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Removes the permits from the semaphore for good.
    ///
    /// ```
    /// let semaphore = uthread::sync::Semaphore::new(2);
    /// semaphore.acquire().unwrap().forget();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// ```
    pub fn forget(mut self) {
        self.count = 0;
    }
}

impl OwnedSemaphorePermit {
    /// Returns the number of permits. See the example of
    /// [`acquire_many_owned`](Semaphore::acquire_many_owned).
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Removes the permits from the semaphore for good.
    ///
    /// ```
    /// use uthread::sync::{Arc, Semaphore};
    ///
    /// let semaphore = Arc::new(Semaphore::new(2));
    /// Arc::clone(&semaphore).acquire_owned().unwrap().forget();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// ```
    pub fn forget(mut self) {
        self.count = 0;
    }
}

impl Drop for SemaphorePermit<'_> {
    fn drop(&mut self) {
        self.semaphore.permits.release(self.count);
    }
}

impl Drop for OwnedSemaphorePermit {
    fn drop(&mut self) {
        self.semaphore.permits.release(self.count);
    }
}

//! A counting semaphore.

mod permits;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::parking_lot::WaitEnd;
use crate::atomic::AtomicUsize;
use crate::sched::caller::{self, cancellation, turn};
use permits::{PERMITS_MAX, Permits};

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
///             let _permit = semaphore.acquire();
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
            permits: Permits::new(AtomicUsize::new(Permits::word(permits))),
        }
    }

    /// Returns the number of free permits, which may have changed when the caller inspects it.
    ///
    /// ```
    /// let semaphore = uthread::sync::Semaphore::new(3);
    /// let _permits = semaphore.acquire_many(2);
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
    /// assert!(semaphore.try_acquire().is_some());
    /// ```
    pub fn add_permits(&self, count: usize) {
        self.permits.release(count);
        turn::spend_try();
    }

    /// Acquires a permit, waiting for it if necessary. See the [example](Semaphore) above.
    pub fn acquire(&self) -> SemaphorePermit<'_> {
        self.acquire_many(1)
    }

    /// Acquires `count` permits at once, waiting for them if necessary.
    ///
    /// ```
    /// let semaphore = uthread::sync::Semaphore::new(3);
    /// let permits = semaphore.acquire_many(2);
    /// assert_eq!(permits.count(), 2);
    /// ```
    pub fn acquire_many(&self, count: usize) -> SemaphorePermit<'_> {
        self.wait_for(count);
        self.permit(count)
    }

    /// Acquires a permit without waiting. Returns `None` if no permit is free or others wait.
    ///
    /// ```
    /// let semaphore = uthread::sync::Semaphore::new(1);
    /// let permit = semaphore.try_acquire();
    /// assert!(permit.is_some());
    /// assert!(semaphore.try_acquire().is_none());
    /// ```
    pub fn try_acquire(&self) -> Option<SemaphorePermit<'_>> {
        self.try_acquire_many(1)
    }

    /// Acquires `count` permits without waiting. Returns `None` if fewer are free or others wait.
    ///
    /// ```
    /// let semaphore = uthread::sync::Semaphore::new(2);
    /// assert!(semaphore.try_acquire_many(3).is_none());
    /// ```
    pub fn try_acquire_many(&self, count: usize) -> Option<SemaphorePermit<'_>> {
        let taken = self.try_take(count);
        taken.then(|| self.permit(count))
    }

    /// Acquires a permit, waiting at most for `timeout`. Returns `None` if the time elapses.
    ///
    /// ```
    /// use std::time::Duration;
    /// let semaphore = uthread::sync::Semaphore::new(0);
    /// assert!(semaphore.acquire_timeout(Duration::from_millis(1)).is_none());
    /// ```
    pub fn acquire_timeout(&self, timeout: Duration) -> Option<SemaphorePermit<'_>> {
        self.acquire_many_timeout(1, timeout)
    }

    /// Acquires `count` permits at once, waiting at most for `timeout`. Returns `None` if the time
    /// elapses.
    ///
    /// ```
    /// use std::time::Duration;
    /// let semaphore = uthread::sync::Semaphore::new(1);
    /// assert!(semaphore.acquire_many_timeout(2, Duration::from_millis(1)).is_none());
    /// assert_eq!(semaphore.available_permits(), 1);
    /// ```
    pub fn acquire_many_timeout(
        &self,
        count: usize,
        timeout: Duration,
    ) -> Option<SemaphorePermit<'_>> {
        let taken = self.wait_at_most(count, timeout);
        taken.then(|| self.permit(count))
    }

    /// Acquires a permit that owns a reference to the semaphore, so that it has no lifetime. Waits
    /// if necessary.
    ///
    /// ```
    /// use uthread::sync::{Arc, Semaphore};
    ///
    /// let semaphore = Arc::new(Semaphore::new(2));
    /// let fibers: Vec<_> = (0..10)
    ///     .map(|_| {
    ///         // Waits here, so that there are never more than two fibers.
    ///         let permit = Arc::clone(&semaphore).acquire_owned();
    ///         uthread::spawn(move || drop(permit))
    ///     })
    ///     .collect();
    /// # fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    /// ```
    pub fn acquire_owned(self: Arc<Semaphore>) -> OwnedSemaphorePermit {
        self.acquire_many_owned(1)
    }

    /// Acquires `count` permits that own a reference to the semaphore. Waits if necessary.
    ///
    /// ```
    /// use uthread::sync::{Arc, Semaphore};
    /// let permits = Arc::new(Semaphore::new(2)).acquire_many_owned(2);
    /// assert_eq!(permits.count(), 2);
    /// ```
    pub fn acquire_many_owned(self: Arc<Semaphore>, count: usize) -> OwnedSemaphorePermit {
        self.wait_for(count);
        OwnedSemaphorePermit {
            semaphore: self,
            count,
        }
    }

    /// Acquires a permit that owns a reference to the semaphore, without waiting. Returns `None` if
    /// no permit is free or others wait.
    ///
    /// ```
    /// use uthread::sync::{Arc, Semaphore};
    /// assert!(Arc::new(Semaphore::new(0)).try_acquire_owned().is_none());
    /// ```
    pub fn try_acquire_owned(self: Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        self.try_acquire_many_owned(1)
    }

    /// Acquires `count` permits that own a reference to the semaphore, without waiting. Returns
    /// `None` if fewer are free or others wait.
    ///
    /// ```
    /// use uthread::sync::{Arc, Semaphore};
    /// assert!(Arc::new(Semaphore::new(2)).try_acquire_many_owned(2).is_some());
    /// ```
    pub fn try_acquire_many_owned(
        self: Arc<Semaphore>,
        count: usize,
    ) -> Option<OwnedSemaphorePermit> {
        let taken = self.try_take(count);
        taken.then(|| OwnedSemaphorePermit {
            semaphore: self,
            count,
        })
    }

    fn try_take(&self, count: usize) -> bool {
        turn::spend_try();
        self.permits.try_acquire(count)
    }

    fn wait_for(&self, count: usize) {
        turn::spend_try();
        if self.permits.acquire(count, None) == WaitEnd::Cancelled {
            cancellation::unwind_if_cancelled();
            // The wait continues, as the caller relies on the limit.
            self.permits.acquire_cancelled_or_not(count);
        }
    }

    /// Returns `true` if the permits were acquired in time.
    fn wait_at_most(&self, count: usize, timeout: Duration) -> bool {
        let deadline = caller::after(caller::now(), timeout);
        turn::spend_try();
        let ended = self.permits.acquire(count, Some(deadline));
        if ended == WaitEnd::Cancelled {
            cancellation::count_early_end();
        }
        ended == WaitEnd::Dequeued
    }

    /// Creates the permits that the caller has acquired.
    fn permit(&self, count: usize) -> SemaphorePermit<'_> {
        SemaphorePermit {
            semaphore: self,
            count,
        }
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Semaphore")
            .field("available_permits", &self.permits.available())
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
///     permit = semaphore.acquire();
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
    /// assert_eq!(uthread::sync::Semaphore::new(1).acquire().count(), 1);
    /// ```
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Removes the permits from the semaphore for good.
    ///
    /// ```
    /// let semaphore = uthread::sync::Semaphore::new(2);
    /// semaphore.acquire().forget();
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
    /// Arc::clone(&semaphore).acquire_owned().forget();
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

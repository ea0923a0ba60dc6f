//! A counting semaphore.

mod permits;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::parking_lot::WaitEnd;
use crate::atomic::AtomicUsize;
use crate::sched::wait;
use permits::{PERMITS_MAX, Permits};

/// A number of permits, for which fibers and threads wait in any mix: a bound on how many do something at a time.
/// `std` has none; the names are those in use elsewhere.
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
/// Permits go to those who wait in the order in which they came, how many each may want, and nobody overtakes them.
///
/// # Cancellation
///
/// Waiting for permits is a point of cancellation: a fiber that is [cancelled](crate::thread::Cancelled) leaves the
/// queue and is unwound. Permits that came just before are not lost: then the call returns with them. In a
/// destructor, where unwinding is no way out, the fiber waits on, as for a lock, if there is no timeout.
pub struct Semaphore {
    permits: Permits,
}

impl Semaphore {
    /// The most permits there may be.
    pub const MAX_PERMITS: usize = PERMITS_MAX;

    /// A semaphore with so many free permits; see the example of [`Semaphore`].
    ///
    /// # Panics
    ///
    /// With more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
    #[must_use]
    pub const fn new(permits: usize) -> Semaphore {
        Semaphore {
            permits: Permits::new(AtomicUsize::new(Permits::word(permits))),
        }
    }

    /// How many permits are free. It may be another number by the time the caller looks at it.
    ///
    /// ```
    /// let semaphore = uthread::sync::Semaphore::new(3);
    /// let _permits = semaphore.acquire_many(2);
    /// assert_eq!(semaphore.available_permits(), 1);
    /// ```
    pub fn available_permits(&self) -> usize {
        let available = self.permits.available();
        if available == 0 {
            wait::spend_try();
        }
        available
    }

    /// Adds so many permits, for whoever waits.
    ///
    /// # Panics
    ///
    /// When there would be more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
    ///
    /// ```
    /// let semaphore = uthread::sync::Semaphore::new(0);
    /// semaphore.add_permits(1);
    /// assert!(semaphore.try_acquire().is_some());
    /// ```
    pub fn add_permits(&self, count: usize) {
        self.permits.release(count);
    }

    /// Waits for a permit. There is an [example](Semaphore) above.
    pub fn acquire(&self) -> SemaphorePermit<'_> {
        self.acquire_many(1)
    }

    /// Waits for so many permits, all at once.
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

    /// Takes a permit if there is one at once and nobody waits.
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

    /// Takes so many permits if there are as many at once and nobody waits.
    ///
    /// ```
    /// let semaphore = uthread::sync::Semaphore::new(2);
    /// assert!(semaphore.try_acquire_many(3).is_none());
    /// ```
    pub fn try_acquire_many(&self, count: usize) -> Option<SemaphorePermit<'_>> {
        let taken = self.try_take(count);
        taken.then(|| self.permit(count))
    }

    /// Waits for a permit, for at most so long; none if it did not come.
    ///
    /// ```
    /// use std::time::Duration;
    /// let semaphore = uthread::sync::Semaphore::new(0);
    /// assert!(semaphore.acquire_timeout(Duration::from_millis(1)).is_none());
    /// ```
    pub fn acquire_timeout(&self, timeout: Duration) -> Option<SemaphorePermit<'_>> {
        self.acquire_many_timeout(1, timeout)
    }

    /// Waits for so many permits, all at once, for at most so long; none if they did not come.
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

    /// As [`acquire`](Semaphore::acquire), with a permit that keeps the semaphore: it may go anywhere.
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

    /// As [`acquire_many`](Semaphore::acquire_many), with permits that keep the semaphore.
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

    /// As [`try_acquire`](Semaphore::try_acquire), with a permit that keeps the semaphore.
    ///
    /// ```
    /// use uthread::sync::{Arc, Semaphore};
    /// assert!(Arc::new(Semaphore::new(0)).try_acquire_owned().is_none());
    /// ```
    pub fn try_acquire_owned(self: Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        self.try_acquire_many_owned(1)
    }

    /// As [`try_acquire_many`](Semaphore::try_acquire_many), with permits that keep the semaphore.
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
        let taken = self.permits.try_acquire(count);
        if !taken {
            wait::spend_try();
        }
        taken
    }

    fn wait_for(&self, count: usize) {
        if self.permits.acquire(count, None) == WaitEnd::Cancelled {
            wait::unwind_if_cancelled();
            // Others rely on the bound.
            self.permits.acquire_cancelled_or_not(count);
        }
    }

    /// Whether the caller has so many now.
    fn wait_at_most(&self, count: usize, timeout: Duration) -> bool {
        let deadline = wait::after(wait::now(), timeout);
        let ended = self.permits.acquire(count, Some(deadline));
        if ended == WaitEnd::Cancelled {
            wait::count_early_end();
        }
        ended == WaitEnd::Dequeued
    }

    /// So many permits, which the caller has taken.
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

/// Permits of a [`Semaphore`], which are given back when this is dropped, wherever that is; see the
/// example of [`Semaphore::acquire_many`].
///
/// They do not outlive the semaphore:
///
/// ```compile_fail,E0597
/// let permit;
/// {
///     let semaphore = uthread::sync::Semaphore::new(1);
///     permit = semaphore.acquire();
/// }
/// drop(permit);
/// ```
#[must_use = "if unused the permits are given back at once"]
#[clippy::has_significant_drop]
#[derive(Debug)]
pub struct SemaphorePermit<'a> {
    semaphore: &'a Semaphore,
    count: usize,
}

/// Permits of a [`Semaphore`] that keep it, and are given back when this is dropped, wherever that is; see the
/// example of [`Semaphore::acquire_owned`].
#[must_use = "if unused the permits are given back at once"]
#[clippy::has_significant_drop]
#[derive(Debug)]
pub struct OwnedSemaphorePermit {
    semaphore: Arc<Semaphore>,
    count: usize,
}

impl SemaphorePermit<'_> {
    /// How many they are.
    ///
    /// ```
    /// assert_eq!(uthread::sync::Semaphore::new(1).acquire().count(), 1);
    /// ```
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Takes the permits away for good.
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
    /// How many they are; see the example of [`acquire_many_owned`](Semaphore::acquire_many_owned).
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Takes the permits away for good.
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

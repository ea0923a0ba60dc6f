//! A bound for the calls in progress, and for those that wait for a turn.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use uthread::sync::Semaphore;

use crate::Refused;

/// Bounds the calls of a dependency that are in progress, so that a slow one does not take all that the
/// program has. Others wait for a turn, first come, first served; beyond a number of them, they are refused.
///
/// ```
/// use std::io;
/// use std::time::Duration;
/// use uthread_resilience::Bulkhead;
///
/// let bulkhead = Bulkhead::new(1);
/// uthread::scope(|scope| {
///     let slow = scope.spawn(|| bulkhead.call(|| io::Result::Ok(uthread::sleep(Duration::from_millis(50)))));
///     while bulkhead.in_progress() == 0 {
///         uthread::yield_now();
///     }
///     let refused = bulkhead.call(|| io::Result::Ok(())).unwrap_err();
///     assert_eq!(refused.to_string(), "too many calls wait for a turn");
///     slow.join().unwrap().unwrap();
///     bulkhead.call(|| io::Result::Ok(())).unwrap();
/// });
/// ```
#[derive(Debug)]
pub struct Bulkhead {
    concurrent: usize,
    waiting_max: usize,
    wait: Option<Duration>,
    turns: Semaphore,
    /// Number of callers that wait for a turn, or have one.
    callers: AtomicUsize,
}

/// A caller that is counted.
struct Caller<'a>(&'a AtomicUsize);

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Bulkhead {
    /// Creates a bound of so many calls in progress, without any that wait. See the example of [`Bulkhead`].
    ///
    /// # Panics
    ///
    /// Panics if `concurrent` is zero.
    #[must_use]
    pub fn new(concurrent: usize) -> Bulkhead {
        assert!(concurrent > 0, "no call would ever be made");
        Bulkhead {
            concurrent,
            waiting_max: 0,
            wait: None,
            turns: Semaphore::new(concurrent),
            callers: AtomicUsize::new(0),
        }
    }

    /// Lets so many callers wait for a turn.
    ///
    /// ```
    /// use std::io;
    /// use uthread_resilience::Bulkhead;
    ///
    /// let bulkhead = Bulkhead::new(2).waiting(98);
    /// uthread::scope(|scope| {
    ///     for _ in 0..100 {
    ///         scope.spawn(|| bulkhead.call(|| io::Result::Ok(uthread::yield_now())).unwrap());
    ///     }
    /// });
    /// ```
    #[must_use]
    pub fn waiting(mut self, max: usize) -> Bulkhead {
        self.waiting_max = max;
        self
    }

    /// Refuses callers that have waited for so long.
    ///
    /// ```
    /// use std::time::Duration;
    /// use uthread_resilience::Bulkhead;
    ///
    /// let bulkhead = Bulkhead::new(10).waiting(1000).timeout(Duration::from_millis(100));
    /// # drop(bulkhead);
    /// ```
    #[must_use]
    pub fn timeout(mut self, wait: Duration) -> Bulkhead {
        self.wait = Some(wait);
        self
    }

    /// Returns the number of calls in progress. See the example of [`Bulkhead`].
    #[must_use]
    pub fn in_progress(&self) -> usize {
        self.concurrent - self.turns.available_permits()
    }

    /// Makes a call once it is its turn. See the example of [`Bulkhead`].
    ///
    /// # Errors
    ///
    /// [`Refused::Full`], or the error of the call.
    pub fn call<T, E: From<Refused>>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let before = self.callers.fetch_add(1, Ordering::Relaxed);
        let _caller = Caller(&self.callers);
        if before >= self.concurrent.saturating_add(self.waiting_max) {
            return Err(Refused::Full.into());
        }
        let turn = match self.wait {
            Some(wait) => self.turns.acquire_timeout(wait).ok(),
            None => self.turns.acquire().ok(),
        };
        let _turn = turn.ok_or(Refused::Full)?;
        call()
    }
}

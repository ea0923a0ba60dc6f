//! Repeated calls.

use std::time::Duration;

use crate::Budget;

/// The pause before the first retry, unless a policy has another one.
const BACKOFF: Duration = Duration::from_millis(100);

/// Number of times that a pause is doubled at most.
const DOUBLED_MAX: u32 = 20;

/// Repeats a call that has failed, after pauses that grow. For calls that may be made twice: idempotent ones.
///
/// No retry begins whose pause would last beyond the caller's deadline ([`uthread::timeout`]): the caller gets
/// the error of the last call while it can still use it. A cancelled caller does not retry.
///
/// ```
/// use std::io;
/// use std::time::Duration;
/// use uthread_resilience::Retry;
///
/// let mut calls = 0;
/// let retry = Retry::new(3).backoff(Duration::from_millis(1));
/// let result = retry.call(|| {
///     calls += 1;
///     if calls < 3 { Err(io::Error::from(io::ErrorKind::ConnectionReset)) } else { Ok(calls) }
/// });
/// assert_eq!(result?, 3);
/// # io::Result::Ok(())
/// ```
#[derive(Debug, Clone)]
pub struct Retry {
    retries: u64,
    backoff: Duration,
    budget: Option<Budget>,
}

impl Retry {
    /// Creates a policy with at most `retries` after the first call, the first one after 0.1 s. See the
    /// example of [`Retry`].
    #[must_use]
    pub fn new(retries: u64) -> Retry {
        Retry {
            retries,
            backoff: BACKOFF,
            budget: None,
        }
    }

    /// Sets the pause before the first retry, which is doubled for each further one. Half of each pause is
    /// random, so that callers that have failed together do not come back together. See the example of
    /// [`Retry`].
    #[must_use]
    pub fn backoff(mut self, backoff: Duration) -> Retry {
        self.backoff = backoff;
        self
    }

    /// Bounds the retries of all callers that share the budget.
    ///
    /// ```
    /// use std::io::{Error, ErrorKind};
    /// use std::time::Duration;
    /// use uthread_resilience::{Budget, Retry};
    ///
    /// let retry = Retry::new(5).backoff(Duration::ZERO).budget(&Budget::new(0.1));
    /// let mut calls = 0;
    /// for _ in 0..100 {
    ///     let failed = retry.call(|| -> Result<(), Error> {
    ///         calls += 1;
    ///         Err(ErrorKind::ConnectionRefused.into())
    ///     });
    ///     assert!(failed.is_err());
    /// }
    /// assert!((109..=110).contains(&calls), "{calls}");
    /// ```
    #[must_use]
    pub fn budget(mut self, budget: &Budget) -> Retry {
        self.budget = Some(budget.clone());
        self
    }

    /// Makes a call until it succeeds, or may not be repeated. See the example of [`Retry`].
    ///
    /// # Errors
    ///
    /// The error of the last call.
    pub fn call<T, E>(&self, call: impl FnMut() -> Result<T, E>) -> Result<T, E> {
        self.call_if(|_| true, call)
    }

    /// Makes a call until it succeeds, or fails with an error after which it is not worth repeating.
    ///
    /// ```
    /// use std::io::{Error, ErrorKind};
    /// use uthread_resilience::Retry;
    ///
    /// let is_temporary = |error: &Error| error.kind() != ErrorKind::NotFound;
    /// let missing = Retry::new(3).call_if(is_temporary, || uthread::fs::read("/missing"));
    /// assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    /// ```
    ///
    /// # Errors
    ///
    /// The error of the last call.
    pub fn call_if<T, E>(
        &self,
        is_worth_it: impl Fn(&E) -> bool,
        mut call: impl FnMut() -> Result<T, E>,
    ) -> Result<T, E> {
        if let Some(budget) = &self.budget {
            budget.add();
        }
        let mut retries = 0;
        loop {
            let error = match call() {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            if retries == self.retries || uthread::thread::is_cancelled() || !is_worth_it(&error) {
                return Err(error);
            }
            let pause = self.pause(retries, fastrand::f64());
            let is_late = uthread::time::remaining().is_some_and(|remaining| remaining <= pause);
            if is_late || self.budget.as_ref().is_some_and(|budget| !budget.take()) {
                return Err(error);
            }
            retries += 1;
            uthread::sleep(pause);
        }
    }

    /// Returns the pause after so many retries, for a random number in `[0, 1)`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use uthread_resilience::Retry;
    ///
    /// let retry = Retry::new(9).backoff(Duration::from_secs(1));
    /// assert_eq!(retry.pause(0, 0.0), Duration::from_millis(500));
    /// assert_eq!(retry.pause(2, 0.5), Duration::from_secs(3));
    /// ```
    #[must_use]
    pub fn pause(&self, retries: u64, random: f64) -> Duration {
        let doubled =
            u32::try_from(retries).map_or(DOUBLED_MAX, |retries| retries.min(DOUBLED_MAX));
        let longest = self.backoff.saturating_mul(1 << doubled);
        longest
            .div_f64(2.0)
            .saturating_add(longest.div_f64(2.0).mul_f64(random))
    }
}

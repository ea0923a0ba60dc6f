//! Circuit breakers.
//!
//! ```text
//!   Closed --failures in a row--> Open --after a while, a call--> Trial
//!     ^                             ^--------- it fails ------------|
//!     +------------------------------------ it succeeds ------------+
//! ```

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::{Refused, lock};

/// Refuses calls for a while after a number of failures in a row, which spares a dependency that is down, and
/// its callers the wait. After that, one call is a trial: it decides whether the breaker closes.
///
/// One belongs to one dependency, and is shared by its callers.
///
/// ```
/// use std::io;
/// use std::time::Duration;
/// use uthread_resilience::{Breaker, Refused};
///
/// let breaker = Breaker::new(2, Duration::from_secs(3600));
/// let fails = || breaker.call(|| Err::<(), _>(io::Error::from(io::ErrorKind::TimedOut)));
/// assert_eq!(fails().unwrap_err().kind(), io::ErrorKind::TimedOut);
/// assert_eq!(fails().unwrap_err().kind(), io::ErrorKind::TimedOut);
/// let refused = breaker.call(|| io::Result::Ok(())).unwrap_err();
/// assert!(refused.get_ref().is_some_and(|error| error.is::<Refused>()));
/// ```
#[derive(Debug)]
pub struct Breaker {
    failures_max: u64,
    open: Duration,
    state: Mutex<State>,
    /// The number of the next call that [`call`](Breaker::call) makes.
    next: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Closed {
        /// Number of failures in a row.
        failures: u64,
    },
    /// Calls fail. From `until` on, one may pass.
    Open { until: Instant },
    /// The call with this number decides whether it closes.
    Trial { number: u64 },
}

/// A call in progress, which ends even if it is unwound.
struct Call<'a> {
    breaker: &'a Breaker,
    number: u64,
    /// `None` while it is not known.
    has_failed: Option<bool>,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if uthread::thread::is_cancelled() {
            self.breaker.abandon(self.number, Instant::now());
        } else {
            let has_failed = self.has_failed.unwrap_or(true);
            self.breaker.record(self.number, Instant::now(), has_failed);
        }
    }
}

impl Breaker {
    /// Creates a closed breaker, which opens for some time after so many failures in a row. See the example of
    /// [`Breaker`].
    #[must_use]
    pub fn new(failures: u64, open: Duration) -> Breaker {
        Breaker {
            failures_max: failures,
            open,
            state: Mutex::new(State::Closed { failures: 0 }),
            next: AtomicU64::new(0),
        }
    }

    /// Makes a call, unless the breaker is open. Each error and each panic is a failure, but not the end of a
    /// cancelled caller. See the example of [`Breaker`].
    ///
    /// # Errors
    ///
    /// [`Refused::Open`], or the error of the call.
    pub fn call<T, E: From<Refused>>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.admit(number, Instant::now())?;
        let mut entry = Call {
            breaker: self,
            number,
            has_failed: None,
        };
        let result = call();
        entry.has_failed = Some(result.is_err());
        result
    }

    /// Returns `true` if calls are refused at this time.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use uthread_resilience::Breaker;
    ///
    /// assert!(!Breaker::new(1, Duration::from_secs(1)).is_open(Instant::now()));
    /// ```
    #[must_use]
    pub fn is_open(&self, now: Instant) -> bool {
        match *lock(&self.state) {
            State::Closed { .. } => false,
            State::Open { until } => now < until,
            State::Trial { .. } => true,
        }
    }

    /// Begins a call, for callers whose call is no function: its end is [recorded](Breaker::record). The number
    /// is that of no other call in progress.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use uthread_resilience::{Breaker, Refused};
    ///
    /// let breaker = Breaker::new(1, Duration::from_secs(1));
    /// let start = Instant::now();
    /// breaker.admit(1, start)?;
    /// breaker.record(1, start, true);
    /// assert_eq!(breaker.admit(2, start), Err(Refused::Open));
    /// let later = start + Duration::from_secs(1);
    /// breaker.admit(3, later)?;
    /// assert_eq!(breaker.admit(4, later), Err(Refused::Open), "one call is the trial");
    /// breaker.record(3, later, false);
    /// breaker.admit(5, later)?;
    /// # Ok::<(), Refused>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused::Open`].
    pub fn admit(&self, number: u64, now: Instant) -> Result<(), Refused> {
        let mut state = lock(&self.state);
        match *state {
            State::Closed { .. } => {}
            State::Open { until } if now >= until => *state = State::Trial { number },
            State::Open { .. } | State::Trial { .. } => return Err(Refused::Open),
        }
        Ok(())
    }

    /// Records the end of a call that was admitted. See the example of [`admit`](Breaker::admit).
    pub fn record(&self, number: u64, now: Instant, has_failed: bool) {
        let mut state = lock(&self.state);
        let failures = match *state {
            State::Closed { failures } => failures + 1,
            State::Trial { number: trial } if trial == number => self.failures_max,
            // The call began before the breaker opened.
            State::Open { .. } | State::Trial { .. } => return,
        };
        *state = if !has_failed {
            State::Closed { failures: 0 }
        } else if failures < self.failures_max {
            State::Closed { failures }
        } else {
            State::Open {
                until: now + self.open,
            }
        };
    }

    /// Ends a call that was admitted and whose result nobody knows: the next one is the trial in its place.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use uthread_resilience::{Breaker, Refused};
    ///
    /// let breaker = Breaker::new(1, Duration::ZERO);
    /// let now = Instant::now();
    /// breaker.record(1, now, true);
    /// breaker.admit(2, now)?;
    /// breaker.abandon(2, now);
    /// breaker.admit(3, now)?;
    /// # Ok::<(), Refused>(())
    /// ```
    pub fn abandon(&self, number: u64, now: Instant) {
        let mut state = lock(&self.state);
        if let State::Trial { number: trial } = *state
            && trial == number
        {
            *state = State::Open { until: now };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::panic::{self, AssertUnwindSafe};

    use super::*;

    #[test]
    fn a_breaker_opens_tries_and_closes() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let breaker = Breaker::new(2, Duration::from_secs(10));
        breaker.record(1, at(0), true);
        breaker.record(2, at(0), false);
        breaker.record(3, at(0), true);
        assert!(!breaker.is_open(at(0)), "there were not two in a row");
        breaker.record(4, at(5), true);
        assert!(breaker.is_open(at(14)) && !breaker.is_open(at(15)));
        // A call that began earlier decides nothing.
        breaker.record(5, at(14), false);
        assert_eq!(breaker.admit(6, at(14)), Err(Refused::Open));
        assert_eq!(breaker.admit(6, at(15)), Ok(()));
        breaker.record(5, at(16), false);
        assert!(breaker.is_open(at(16)), "one call at a time");
        breaker.record(6, at(17), true);
        assert!(breaker.is_open(at(26)) && !breaker.is_open(at(27)));
        assert_eq!(breaker.admit(7, at(27)), Ok(()));
        breaker.record(7, at(30), false);
        assert!(!breaker.is_open(at(30)));
    }

    #[test]
    fn a_trial_that_panics_has_failed() {
        let breaker = Breaker::new(1, Duration::from_secs(3600));
        let call = || breaker.call(|| -> io::Result<()> { panic!("as planned") });
        assert!(panic::catch_unwind(AssertUnwindSafe(call)).is_err());
        assert!(breaker.is_open(Instant::now()));
    }

    /// Otherwise all calls would be refused for ever.
    #[test]
    fn a_trial_that_is_cancelled_leaves_the_trial_to_the_next_call() {
        uthread::run(|| {
            let breaker = Breaker::new(1, Duration::ZERO);
            let fails = || breaker.call(|| Err::<(), _>(io::Error::from(io::ErrorKind::TimedOut)));
            fails().unwrap_err();
            uthread::scope(|scope| {
                let trial = scope.spawn(|| {
                    breaker.call(|| {
                        uthread::sleep(Duration::from_secs(3600));
                        io::Result::Ok(())
                    })
                });
                while !breaker.is_open(Instant::now()) {
                    uthread::yield_now();
                }
                trial.cancel();
                assert!(trial.join().is_err());
            });
            assert!(breaker.call(|| io::Result::Ok(())).is_ok());
        });
    }
}

//! Policies for targets that do not accept: another attempt while there is time and budget, and a
//! breaker for each target, which spares clients the wait for one that is down.

use std::cell::Cell;
use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use uthread_resilience::{Breaker, Budget, Refused, Retry};

use super::failure::{Failure, is_shortage};
use crate::targets::Target;

/// Breakers to keep, of less than a KiB each. With as many that are open, further targets have
/// none.
const BREAKERS_MAX: usize = 1024;
/// Attempts of all clients beyond the first ones: a tenth, so that targets that are down get little
/// more load than others.
const RETRIES_SHARE: f64 = 0.1;

#[derive(Debug)]
pub(super) struct Policies {
    retry: Retry,
    breakers: Option<Breakers>,
}

#[derive(Debug)]
struct Breakers {
    failures: NonZeroU64,
    time: Duration,
    of_targets: Mutex<HashMap<Target, Arc<Breaker>>>,
}

impl Policies {
    /// Makes policies with so many retries of a connection. Breakers open after so many failures in
    /// a row, for this time.
    pub(super) fn new(retries: u64, failures: Option<NonZeroU64>, time: Duration) -> Policies {
        Policies {
            retry: Retry::new(retries).budget(&Budget::new(RETRIES_SHARE)),
            breakers: failures.map(|failures| Breakers {
                failures,
                time,
                of_targets: Mutex::default(),
            }),
        }
    }

    /// Connects to a target by `connect`, again after failures that may pass before the deadline.
    pub(super) fn connect<T>(
        &self,
        target: &Target,
        deadline: Instant,
        mut connect: impl FnMut() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let breaker = self.breakers.as_ref().and_then(|all| all.of(target));
        let mut attempt = || match &breaker {
            None => connect(),
            // The breaker is for failures of the target.
            Some(breaker) => breaker.call(|| match connect() {
                Err(failure) if !is_of_target(&failure) => Ok(Err(failure)),
                connected => connected.map(Ok),
            })?,
        };
        let retries = Cell::new(0);
        let is_worth_it = |failure: &Failure| {
            let pause = self.retry.pause(retries.replace(retries.get() + 1), 1.0);
            matches!(failure, Failure::Refused(..))
                && is_of_target(failure)
                && Instant::now() + pause < deadline
        };
        self.retry.call_if(is_worth_it, &mut attempt)
    }
}

impl Breakers {
    fn of(&self, target: &Target) -> Option<Arc<Breaker>> {
        let lock = self.of_targets.lock();
        let mut of_targets = lock.unwrap_or_else(PoisonError::into_inner);
        if let Some(breaker) = of_targets.get(target) {
            return Some(Arc::clone(breaker));
        }
        if of_targets.len() >= BREAKERS_MAX {
            let now = Instant::now();
            of_targets.retain(|_, breaker| breaker.is_open(now));
        }
        if of_targets.len() >= BREAKERS_MAX {
            return None;
        }
        let breaker = Arc::new(Breaker::new(self.failures.get(), self.time));
        of_targets.insert(target.clone(), Arc::clone(&breaker));
        Some(breaker)
    }
}

/// Returns `true` for a failure that says something about the target.
fn is_of_target(failure: &Failure) -> bool {
    match failure {
        Failure::Refused(_, error) => !is_shortage(error),
        Failure::NoAddress(_) | Failure::LookupTimedOut | Failure::TimedOut(_) => true,
        _ => false,
    }
}

impl From<Refused> for Failure {
    fn from(_: Refused) -> Failure {
        Failure::Open
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    const LONG: Duration = Duration::from_secs(3600);

    fn target(port: u16) -> Target {
        format!("a:{port}").parse().unwrap()
    }

    fn refused(kind: io::ErrorKind) -> Failure {
        Failure::Refused(([127, 0, 0, 1], 1).into(), kind.into())
    }

    /// Returns the number of attempts to connect, which all fail.
    fn attempts(policies: &Policies, time: Duration, failure: fn() -> Failure) -> u32 {
        let mut attempts = 0;
        let failed = policies.connect(&target(1), Instant::now() + time, || {
            attempts += 1;
            Err::<(), _>(failure())
        });
        assert_eq!(failed.unwrap_err().to_string(), failure().to_string());
        attempts
    }

    #[test]
    fn retries_have_a_budget_and_a_deadline() {
        let refuses = || refused(io::ErrorKind::ConnectionRefused);
        let policies = Policies::new(1, None, LONG);
        assert_eq!(attempts(&policies, LONG, refuses), 1);
        for _ in 0..20 {
            policies
                .connect(&target(1), Instant::now(), || Ok(()))
                .unwrap();
        }
        // The pause would last beyond the deadline.
        assert_eq!(attempts(&policies, Duration::from_millis(99), refuses), 1);
        for failure in [
            || Failure::NotAllowed,
            || Failure::LookupTimedOut,
            || Failure::Refused(([127, 0, 0, 1], 1).into(), rustix::io::Errno::MFILE.into()),
        ] {
            assert_eq!(attempts(&policies, LONG, failure), 1);
        }
        assert_eq!(attempts(&policies, LONG, refuses), 2);
        assert_eq!(attempts(&Policies::new(0, None, LONG), LONG, refuses), 1);
    }

    #[test]
    fn a_breaker_is_for_failures_of_its_target() {
        let policies = Policies::new(0, NonZeroU64::new(2), LONG);
        let check = |port, failure: fn() -> Failure, expected: &str| {
            let connect = || Err::<(), _>(failure());
            let found = policies.connect(&target(port), Instant::now() + LONG, connect);
            assert_eq!(found.unwrap_err().to_string(), expected);
        };
        let late = "resolving the name timed out";
        for _ in 0..3 {
            check(1, || Failure::NotAllowed, "the target is not allowed");
        }
        check(1, || Failure::LookupTimedOut, late);
        check(1, || Failure::LookupTimedOut, late);
        check(1, || panic!("made a call"), &Failure::Open.to_string());
        check(2, || Failure::LookupTimedOut, late);
    }

    #[test]
    fn the_number_of_breakers_is_bounded() {
        let policies = Policies::new(0, NonZeroU64::new(1), LONG);
        let connect = |port, result: fn() -> Result<(), Failure>| {
            policies
                .connect(&target(port), Instant::now() + LONG, result)
                .is_ok()
        };
        let count = || {
            policies
                .breakers
                .as_ref()
                .unwrap()
                .of_targets
                .lock()
                .unwrap()
                .len()
        };
        // Those that are closed make room for others, and those that are open do not.
        assert!(!connect(1, || Err(Failure::LookupTimedOut)));
        for port in 2..=BREAKERS_MAX as u16 {
            assert!(connect(port, || Ok(())));
        }
        assert_eq!(count(), BREAKERS_MAX);
        assert!(connect(5000, || Ok(())));
        assert_eq!(count(), 2);
        assert!(!connect(1, || Ok(())));
        for port in 2..=BREAKERS_MAX as u16 + 9 {
            assert!(!connect(port, || Err(Failure::LookupTimedOut)));
        }
        assert_eq!(count(), BREAKERS_MAX);
        assert!(connect(6000, || Ok(())));
    }
}

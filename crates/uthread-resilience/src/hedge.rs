//! The same call twice.

use std::panic;
use std::time::Duration;

use uthread::thread::JoinSet;

use crate::Budget;

/// Makes a call once more if it takes longer than most, and takes the result that comes first: the slowest
/// calls become as fast as two at once. For calls that may be made twice: idempotent ones.
///
/// The other call is cancelled, and has ended when this returns: what it waits for by `uthread` ends at once.
/// Each call is a fiber of its own.
///
/// ```
/// use std::io;
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use std::time::{Duration, Instant};
/// use uthread_resilience::Hedge;
///
/// let is_first = AtomicBool::new(true);
/// let start = Instant::now();
/// let hedge = Hedge::new(Duration::from_millis(10));
/// let result = hedge.call(|| {
///     if is_first.swap(false, Ordering::Relaxed) {
///         uthread::sleep(Duration::from_secs(3600));
///     }
///     io::Result::Ok("answer")
/// });
/// assert_eq!(result?, "answer");
/// assert!(start.elapsed() < Duration::from_secs(3600));
/// # io::Result::Ok(())
/// ```
#[derive(Debug, Clone)]
pub struct Hedge {
    after: Duration,
    budget: Option<Budget>,
}

impl Hedge {
    /// Creates a policy that makes the second call after this time: one that few calls take, such as p95. See
    /// the example of [`Hedge`].
    #[must_use]
    pub fn new(after: Duration) -> Hedge {
        Hedge {
            after,
            budget: None,
        }
    }

    /// Bounds the second calls of all callers that share the budget: where all calls take long, they would
    /// double the load.
    ///
    /// ```
    /// use std::time::Duration;
    /// use uthread_resilience::{Budget, Hedge};
    ///
    /// let hedge = Hedge::new(Duration::from_millis(10)).budget(&Budget::new(0.05));
    /// # drop(hedge);
    /// ```
    #[must_use]
    pub fn budget(mut self, budget: &Budget) -> Hedge {
        self.budget = Some(budget.clone());
        self
    }

    /// Makes a call, and a second one if that takes long. A call that fails before that is not made again. See
    /// the example of [`Hedge`].
    ///
    /// # Errors
    ///
    /// The error of the call that has failed last, if both have.
    ///
    /// # Panics
    ///
    /// Panics if a call does.
    pub fn call<T: Send, E: Send>(&self, call: impl Fn() -> Result<T, E> + Sync) -> Result<T, E> {
        if let Some(budget) = &self.budget {
            budget.add();
        }
        let call = &call;
        uthread::scope(|scope| {
            let mut calls = JoinSet::new();
            calls.spawn_scoped(scope, call);
            let first = calls.join_next_timeout(self.after);
            let mut result =
                first.map(|joined| joined.unwrap_or_else(|payload| panic::resume_unwind(payload)));
            let is_slow = result.is_none() && self.budget.as_ref().is_none_or(Budget::take);
            if is_slow {
                calls.spawn_scoped(scope, call);
            }
            while !matches!(result, Some(Ok(_)))
                && let Some(joined) = calls.join_next()
            {
                result = Some(joined.unwrap_or_else(|payload| panic::resume_unwind(payload)));
            }
            calls.cancel_all();
            result.expect("there is a call")
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const SOON: Duration = Duration::from_millis(5);
    const NEVER: Duration = Duration::from_secs(3600);

    /// Makes a hedged call whose attempts take so long and return this; returns the result and the number of
    /// attempts.
    fn hedged(attempts: [(Duration, Result<u8, u8>); 2], hedge: &Hedge) -> (Result<u8, u8>, usize) {
        let next = AtomicUsize::new(0);
        let call = || {
            let (takes, result) = attempts[next.fetch_add(1, Ordering::Relaxed)];
            uthread::sleep(takes);
            result
        };
        let result = uthread::run(|| hedge.call(call));
        (result, next.into_inner())
    }

    #[test]
    fn the_first_result_counts() {
        let hedge = Hedge::new(SOON);
        let cases = [
            ([(Duration::ZERO, Ok(1)), (NEVER, Ok(2))], (Ok(1), 1)),
            ([(Duration::ZERO, Err(1)), (NEVER, Ok(2))], (Err(1), 1)),
            ([(NEVER, Ok(1)), (Duration::ZERO, Ok(2))], (Ok(2), 2)),
            ([(10 * SOON, Ok(1)), (NEVER, Ok(2))], (Ok(1), 2)),
            ([(10 * SOON, Err(1)), (20 * SOON, Ok(2))], (Ok(2), 2)),
            ([(20 * SOON, Ok(1)), (Duration::ZERO, Err(2))], (Ok(1), 2)),
            ([(10 * SOON, Err(1)), (Duration::ZERO, Err(2))], (Err(1), 2)),
        ];
        for (attempts, expected) in cases {
            assert_eq!(hedged(attempts, &hedge), expected, "{attempts:?}");
        }
    }

    #[test]
    fn a_budget_bounds_the_second_calls() {
        let hedge = Hedge::new(SOON).budget(&Budget::new(0.5));
        let slow = [(10 * SOON, Ok(1)), (NEVER, Ok(2))];
        let attempts: Vec<_> = (0..4).map(|_| hedged(slow, &hedge).1).collect();
        assert_eq!(attempts, [1, 2, 1, 2]);
    }

    #[test]
    fn a_deadline_ends_both_calls() {
        uthread::run(|| {
            let call = || {
                uthread::sleep(NEVER);
                io::Result::Ok(())
            };
            let ended = uthread::timeout(10 * SOON, || Hedge::new(SOON).call(call));
            assert!(ended.is_err());
        });
    }
}

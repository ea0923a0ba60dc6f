//! A limit of calls in progress that follows their latency.
//!
//! It grows while calls take as long as with few of them in progress, and shrinks once they take longer, which
//! means that they wait for each other: the gradient of latency, as in Netflix's
//! [concurrency-limits](https://github.com/Netflix/concurrency-limits). Only with few calls in progress is it
//! learned how long one takes by itself: otherwise the wait would become the usual.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::{Refused, lock};

/// Share of a mean that a new latency counts for.
const LATENCY_GAIN: f64 = 0.05;
/// Share of the limit that a new one counts for.
const LIMIT_GAIN: f64 = 0.1;
/// Factor by which calls may take longer than by themselves before the limit shrinks.
const TOLERANCE: f64 = 1.5;
/// Least factor by which one call shrinks the limit, before `LIMIT_GAIN`.
const SHRINK_MIN: f64 = 0.5;

/// Bounds the calls in progress, by what their latency allows, and refuses the others at once: a server that
/// has more work than it can do answers some requests in time, in place of all of them late.
///
/// Calls that fail shrink the limit, too: those that are refused or not answered.
///
/// ```
/// use std::io;
/// use uthread_resilience::Limit;
///
/// let limit = Limit::new(1, 1000);
/// limit.call(|| io::Result::Ok(()))?;
/// assert_eq!(limit.in_progress(), 0);
/// # io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Limit {
    min: f64,
    max: f64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limit: f64,
    in_progress: usize,
    /// Mean of recent latencies, in seconds; `None` before the first call has ended.
    recent: Option<f64>,
    /// The same of calls with few others in progress.
    alone: Option<f64>,
}

/// A call in progress, which ends even if it is unwound.
struct Call<'a> {
    limit: &'a Limit,
    start: Instant,
    has_failed: bool,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let took = self.start.elapsed();
        let mut state = lock(&self.limit.state);
        if !uthread::thread::is_cancelled() {
            self.limit.learn(&mut state, took, self.has_failed);
        }
        state.in_progress -= 1;
    }
}

impl Limit {
    /// Creates a limit between `min`, at which it begins, and `max`. See the example of [`Limit`].
    ///
    /// # Panics
    ///
    /// Panics if `min` is zero or greater than `max`.
    #[must_use]
    pub fn new(min: usize, max: usize) -> Limit {
        assert!(0 < min && min <= max, "no limit from {min} to {max}");
        Limit {
            min: min as f64,
            max: max as f64,
            state: Mutex::new(State {
                limit: min as f64,
                in_progress: 0,
                recent: None,
                alone: None,
            }),
        }
    }

    /// Returns the number of calls that may be in progress now.
    ///
    /// ```
    /// assert_eq!(uthread_resilience::Limit::new(10, 1000).current(), 10);
    /// ```
    #[must_use]
    pub fn current(&self) -> usize {
        lock(&self.state).limit as usize
    }

    /// Returns the number of calls in progress. See the example of [`Limit`].
    #[must_use]
    pub fn in_progress(&self) -> usize {
        lock(&self.state).in_progress
    }

    /// Makes a call, unless there are too many. See the example of [`Limit`].
    ///
    /// # Errors
    ///
    /// [`Refused::Overloaded`], or the error of the call.
    pub fn call<T, E: From<Refused>>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        {
            let mut state = lock(&self.state);
            if state.in_progress as f64 >= state.limit.floor() {
                return Err(Refused::Overloaded.into());
            }
            state.in_progress += 1;
        }
        let mut entry = Call {
            limit: self,
            start: Instant::now(),
            has_failed: true,
        };
        let result = call();
        entry.has_failed = result.is_err();
        result
    }

    /// Learns from a call that has ended, and is still counted.
    fn learn(&self, state: &mut State, took: Duration, has_failed: bool) {
        let in_progress = state.in_progress as f64;
        let are_few = in_progress <= (state.limit / 2.0).max(self.min);
        let wanted = if has_failed {
            state.limit * SHRINK_MIN
        } else {
            let recent = mean(&mut state.recent, took);
            let alone = match state.alone {
                Some(alone) if !are_few => alone,
                _ => mean(&mut state.alone, took),
            };
            let gradient = (TOLERANCE * alone / recent).clamp(SHRINK_MIN, 1.0);
            // Fewer say nothing of what a greater limit would do.
            if gradient >= 1.0 && in_progress < state.limit.floor() / 2.0 {
                return;
            }
            state.limit * gradient + state.limit.sqrt()
        };
        let limit = state.limit + (wanted - state.limit) * LIMIT_GAIN;
        state.limit = limit.clamp(self.min, self.max);
    }
}

/// Adds a latency to a mean of recent ones, which is not zero.
fn mean(mean: &mut Option<f64>, took: Duration) -> f64 {
    let took = took.as_secs_f64().max(1e-9);
    let before = mean.unwrap_or(took);
    *mean.insert(before + (took - before) * LATENCY_GAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server with `servers` places, each call of which takes `work` and waits for a place: the limit that
    /// results from calls at that limit.
    fn settled(servers: f64, rounds: usize) -> f64 {
        let limit = Limit::new(1, 10_000);
        let work = 0.01;
        for _ in 0..rounds {
            let mut state = lock(&limit.state);
            let concurrent = state.limit.floor();
            state.in_progress = concurrent as usize;
            let took = work * (concurrent / servers).max(1.0);
            limit.learn(&mut state, Duration::from_secs_f64(took), false);
        }
        let state = lock(&limit.state);
        state.limit
    }

    #[test]
    fn the_limit_settles_near_what_the_server_can_do() {
        for servers in [8.0, 64.0, 512.0] {
            let limit = settled(servers, 20_000);
            let factor = limit / servers;
            assert!((1.0..4.0).contains(&factor), "{limit} for {servers}");
        }
    }

    #[test]
    fn failures_shrink_the_limit_and_an_idle_server_leaves_it() {
        let limit = Limit::new(2, 100);
        let end = |in_progress, has_failed| {
            let mut state = lock(&limit.state);
            state.in_progress = in_progress;
            limit.learn(&mut state, Duration::from_millis(10), has_failed);
            state.limit
        };
        for _ in 0..200 {
            end(100, false);
        }
        let grown = end(100, false);
        assert!(grown > 50.0, "{grown}");
        assert_eq!(end(1, false), grown, "one call at a time");
        for _ in 0..100 {
            end(10, true);
        }
        assert_eq!(end(10, true), 2.0);
    }

    #[test]
    fn calls_beyond_the_limit_are_refused_and_all_are_counted() {
        uthread::run(|| {
            let limit = Limit::new(2, 2);
            let wait = || {
                limit.call(|| {
                    uthread::sleep(Duration::from_secs(3600));
                    Ok::<_, Refused>(())
                })
            };
            uthread::scope(|scope| {
                let calls = [scope.spawn(wait), scope.spawn(wait)];
                while limit.in_progress() < 2 {
                    uthread::yield_now();
                }
                assert_eq!(limit.call(|| Ok(())), Err(Refused::Overloaded));
                for call in calls {
                    call.cancel();
                    assert!(call.join().is_err());
                }
            });
            assert_eq!(limit.in_progress(), 0);
            assert_eq!(limit.call(|| Ok::<_, Refused>(7)), Ok(7));
        });
    }
}

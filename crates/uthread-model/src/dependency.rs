//! A dependency of the service: how long its calls take, which of them fail, and its circuit
//! breaker.

use std::collections::VecDeque;

use std::time::{Duration, Instant};

use fastrand::Rng;
use uthread_resilience::Breaker;

use crate::latency::{Draws, Latency};
use crate::scenario;
use crate::values::nanos;

/// The state of a dependency.
pub(crate) struct Dependency {
    draws: Draws,
    timeout: u64,
    failures: f64,
    /// Maximum number of calls in progress.
    concurrent: u64,
    in_progress: u64,
    /// Jobs that wait for a call of another one to end; the service bounds their number, or nothing
    /// does.
    waiting: VecDeque<usize>,
    spikes: Vec<Spike>,
    breaker: Option<Timed>,
}

struct Spike {
    from: u64,
    to: u64,
    share: f64,
    /// `None` if it is down.
    draws: Option<Draws>,
}

/// A breaker, in simulated time.
struct Timed {
    breaker: Breaker,
    start: Instant,
}

/// The result of beginning a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// It ends at this time.
    Ends { at: u64, fails: bool },
    /// The breaker is open.
    Refused,
    /// The dependency is down.
    Fails,
    /// There are too many calls.
    Waits,
}

impl Dependency {
    /// Prepares the first call.
    ///
    /// # Errors
    ///
    /// The errors of reading a file of latencies.
    pub(crate) fn new(given: &scenario::Dependency) -> anyhow::Result<Dependency> {
        let spike = |spike: &scenario::Spike| {
            let from = nanos(spike.from);
            let lasts = spike.lasts.map_or(u64::MAX, nanos);
            anyhow::Ok(Spike {
                from,
                to: from.saturating_add(lasts),
                share: spike.share,
                draws: spike.latency.as_ref().map(Latency::draws).transpose()?,
            })
        };
        let spikes = given.spikes.iter().map(spike);
        Ok(Dependency {
            draws: given.latency.draws()?,
            timeout: nanos(given.timeout),
            failures: given.failures,
            concurrent: given.concurrent.unwrap_or(u64::MAX),
            in_progress: 0,
            waiting: VecDeque::new(),
            spikes: spikes.collect::<anyhow::Result<_>>()?,
            breaker: given.breaker.as_ref().map(Timed::new),
        })
    }

    /// Returns the mean time that a call takes outside of spikes, in seconds.
    pub(crate) fn mean_seconds(&self) -> f64 {
        self.draws.mean_up_to(self.timeout) / 1e9
    }

    /// Begins a call of a job.
    pub(crate) fn call(&mut self, job: usize, now: u64, rng: &mut Rng) -> Call {
        if self
            .breaker
            .as_ref()
            .is_some_and(|timed| timed.breaker.is_open(timed.at(now)))
        {
            return Call::Refused;
        }
        if self.in_progress >= self.concurrent {
            self.waiting.push_back(job);
            return Call::Waits;
        }
        if let Some(timed) = &self.breaker {
            let admitted = timed.breaker.admit(job as u64, timed.at(now));
            admitted.expect("the breaker is not open");
        }
        let spike = self.spikes.iter_mut().find(|spike| {
            let is_now = (spike.from..spike.to).contains(&now);
            is_now && (spike.share >= 1.0 || rng.f64() < spike.share)
        });
        let draws = match spike {
            None => Some(&mut self.draws),
            Some(spike) => spike.draws.as_mut(),
        };
        let Some(latency) = draws.map(|draws| draws.next(rng)) else {
            self.record(job, now, true);
            return Call::Fails;
        };
        self.in_progress += 1;
        let fails = latency >= self.timeout || self.failures > 0.0 && rng.f64() < self.failures;
        Call::Ends {
            at: now + latency.min(self.timeout),
            fails,
        }
    }

    /// Ends the call of a job.
    pub(crate) fn end(&mut self, job: usize, now: u64, failed: bool) {
        self.in_progress -= 1;
        self.record(job, now, failed);
    }

    /// Returns a job that has waited and may call now.
    pub(crate) fn take_waiting(&mut self) -> Option<usize> {
        if self.in_progress < self.concurrent {
            self.waiting.pop_front()
        } else {
            None
        }
    }

    fn record(&self, job: usize, now: u64, failed: bool) {
        if let Some(timed) = &self.breaker {
            timed.breaker.record(job as u64, timed.at(now), failed);
        }
    }
}

impl Timed {
    fn new(given: &scenario::Breaker) -> Timed {
        Timed {
            breaker: Breaker::new(given.failures, given.open),
            start: Instant::now(),
        }
    }

    fn at(&self, now: u64) -> Instant {
        self.start + Duration::from_nanos(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn dependency(text: &str) -> Dependency {
        Dependency::new(&toml::from_str(text).unwrap()).unwrap()
    }

    #[test]
    fn calls_wait_fail_and_take_longer() {
        let mut rng = Rng::with_seed(1);
        let mut limited = dependency("latency = \"1s\"\ntimeout = \"2s\"\nconcurrent = 1");
        let ends = |at, fails| Call::Ends { at, fails };
        assert_eq!(limited.call(1, 0, &mut rng), ends(SECOND, false));
        assert_eq!(limited.call(2, 0, &mut rng), Call::Waits);
        assert_eq!(limited.take_waiting(), None);
        limited.end(1, SECOND, false);
        assert_eq!(limited.take_waiting(), Some(2));
        let mut spiky = dependency(
            "latency = \"1s\"\ntimeout = \"2s\"\n\
             spikes = [{ from = \"1s\", lasts = \"1s\" }, { from = \"3s\", latency = \"5s\" }]",
        );
        assert_eq!(spiky.call(1, 0, &mut rng), ends(SECOND, false));
        assert_eq!(spiky.call(1, SECOND, &mut rng), Call::Fails);
        assert_eq!(spiky.call(1, 2 * SECOND, &mut rng), ends(3 * SECOND, false));
        assert_eq!(spiky.call(1, 3 * SECOND, &mut rng), ends(5 * SECOND, true));
    }
}

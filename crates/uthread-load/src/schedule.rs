//! The times at which the messages of an open loop are due: random, like those of many independent
//! clients, and as many as the rate asks for.

use std::time::{Duration, Instant};

use crate::clock::Clock;
use fastrand::Rng;

/// Every run sends at the same times. Each worker derives its own seeds.
const SEED: u64 = 0x5eed;

/// Returns the due times of one of `workers` workers, in order: those of the warm-up, and those of
/// the measured time.
pub(crate) fn schedule(
    clock: &Clock,
    per_second: u64,
    worker: usize,
    workers: usize,
) -> impl Iterator<Item = Instant> {
    let window = |from: Instant, until: Instant, seed| {
        let length = until.saturating_duration_since(from);
        let count = share(count(per_second, length), worker as u64, workers as u64);
        Window {
            start: from,
            length_ns: length.as_nanos() as f64,
            elapsed_ns: 0.0,
            left: count,
            random: Rng::with_seed(seed),
        }
    };
    let seed = SEED + 2 * worker as u64;
    let warm_up = window(clock.start, clock.begin, seed);
    warm_up.chain(window(clock.begin, clock.end.time(), seed + 1))
}

/// Returns the number of messages that are due in this time, at least one in any.
fn count(per_second: u64, length: Duration) -> u64 {
    let count = (per_second as f64 * length.as_secs_f64()).round() as u64;
    count.max(u64::from(!length.is_zero()))
}

/// Returns the share of a worker: together they are due as often as the rate asks for.
fn share(count: u64, worker: u64, workers: u64) -> u64 {
    let until = |worker: u64| (u128::from(count) * u128::from(worker) / u128::from(workers)) as u64;
    until(worker + 1) - until(worker)
}

/// A fixed number of independent random times within a window, in order. This is a Poisson process
/// of which the number of events is known, so that a short run has its rate, too.
struct Window {
    start: Instant,
    length_ns: f64,
    elapsed_ns: f64,
    left: u64,
    random: Rng,
}

impl Iterator for Window {
    type Item = Instant;

    fn next(&mut self) -> Option<Instant> {
        if self.left == 0 {
            return None;
        }
        // The least of `left` uniform times in the rest of the window.
        let logarithm = (1.0 - self.random.f64()).ln();
        let step = -(logarithm / self.left as f64).exp_m1();
        self.elapsed_ns += (self.length_ns - self.elapsed_ns) * step;
        self.left -= 1;
        // The end itself is not a part of the window.
        let elapsed = (self.elapsed_ns as u64).min((self.length_ns as u64).saturating_sub(1));
        Some(self.start + Duration::from_nanos(elapsed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::End;

    fn clock(warm_up: Duration, duration: Duration) -> Clock {
        let start = Instant::now();
        let clock = Clock {
            start,
            begin: start + warm_up,
            end: End::new(),
        };
        clock.end.set(clock.begin + duration);
        clock
    }

    #[test]
    fn as_many_are_due_as_the_rate_asks_for() {
        for (per_second, warm_up_ms, duration_ms, expected) in [
            (1, 1000, 5000, (1, 5)),
            (1, 0, 5000, (0, 5)),
            (50, 0, 200, (0, 10)),
            (3, 500, 500, (2, 2)),
            (1, 100, 100, (1, 1)),
            (1000, 1000, 10_000, (1000, 10_000)),
        ] {
            let [warm_up, duration] = [warm_up_ms, duration_ms].map(Duration::from_millis);
            let clock = clock(warm_up, duration);
            for workers in [1, 2, 3, 7] {
                let dues: Vec<Instant> = (0..workers)
                    .flat_map(|worker| schedule(&clock, per_second, worker, workers))
                    .collect();
                let early = dues.iter().filter(|due| **due < clock.begin).count();
                assert_eq!(
                    (early, dues.len() - early),
                    expected,
                    "{per_second}, {workers}"
                );
                assert!(
                    dues.iter()
                        .all(|due| *due >= clock.start && !clock.is_over(*due))
                );
            }
        }
    }

    #[test]
    fn the_pauses_are_random() {
        for per_second in [1, 1_000, 100_000] {
            let count = 20_000;
            let mean = Duration::from_secs(1) / per_second;
            let clock = clock(Duration::ZERO, mean * count);
            let dues: Vec<Instant> = schedule(&clock, per_second.into(), 0, 1).collect();
            assert!(dues.is_sorted(), "{per_second}");
            // One in e exponential pauses is longer than the mean.
            let longer = dues.windows(2).filter(|pair| pair[1] - pair[0] > mean);
            let share = longer.count() as f64 / f64::from(count);
            assert!((share - 0.368).abs() < 0.02, "{share} at {per_second}");
            // Half of them are due in the first half.
            let half = clock.start + mean * count / 2;
            let early = dues.iter().filter(|due| **due < half).count();
            let share = early as f64 / f64::from(count);
            assert!((share - 0.5).abs() < 0.02, "{share} at {per_second}");
        }
    }

    #[test]
    fn every_run_has_the_same_schedule_and_each_worker_its_own() {
        let clock = clock(Duration::from_secs(1), Duration::from_secs(1));
        let dues = |worker| schedule(&clock, 1_000, worker, 2);
        assert!(dues(0).eq(dues(0)));
        assert!(!dues(0).eq(dues(1)));
    }
}

//! The times at which the messages of an open loop are due: random, like those of many independent
//! clients, with a fixed mean rate.

use std::time::{Duration, Instant};

use crate::random::SplitMix;

/// Every run sends at the same times. Each worker derives its own seed; together their streams are
/// again a Poisson process, at the sum of their rates.
const SEED: u64 = 0x5eed;

/// The due times in order, without end.
pub(crate) struct Schedule {
    start: Instant,
    elapsed_ns: f64,
    mean_pause_ns: f64,
    random: SplitMix,
}

impl Schedule {
    pub(crate) fn new(start: Instant, per_second: f64, worker: usize) -> Schedule {
        Schedule {
            start,
            elapsed_ns: 0.0,
            mean_pause_ns: 1e9 / per_second,
            random: SplitMix::new(SEED + worker as u64),
        }
    }
}

impl Iterator for Schedule {
    type Item = Instant;

    fn next(&mut self) -> Option<Instant> {
        // Pauses of exponential length make a Poisson process.
        self.elapsed_ns -= self.mean_pause_ns * (1.0 - self.random.fraction()).ln();
        Some(self.start + Duration::from_nanos(self.elapsed_ns as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_and_the_pauses_are_random() {
        let start = Instant::now();
        for per_second in [1, 1_000, 100_000] {
            let count = 20_000;
            let dues: Vec<Instant> = Schedule::new(start, per_second as f64, 0)
                .take(count)
                .collect();
            assert!(dues.is_sorted(), "{per_second}");
            let expected = count as f64 / per_second as f64;
            let took = (dues[count - 1] - start).as_secs_f64();
            assert!(
                (took / expected - 1.0).abs() < 0.03,
                "{took} s at {per_second}"
            );
            // One in e exponential pauses is longer than the mean.
            let mean = Duration::from_secs(1) / per_second as u32;
            let longer = dues
                .windows(2)
                .filter(|pair| pair[1] - pair[0] > mean)
                .count();
            let share = longer as f64 / count as f64;
            assert!((share - 0.368).abs() < 0.02, "{share} at {per_second}");
        }
    }

    #[test]
    fn every_run_has_the_same_schedule_and_each_worker_its_own() {
        let start = Instant::now();
        let dues = |worker| Schedule::new(start, 1_000.0, worker).take(100);
        assert!(dues(0).eq(dues(0)));
        assert!(!dues(0).eq(dues(1)));
    }
}

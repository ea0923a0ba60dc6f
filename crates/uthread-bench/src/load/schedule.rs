//! When the messages of an open loop are due: at random, as those of many independent clients are, at a fixed mean rate.

use std::time::{Duration, Instant};

use crate::random::SplitMix;

/// All subjects are sent the same messages at the same times.
const SEED: u64 = 0x5eed;

/// The due times in order, without end.
pub(super) struct Schedule {
    start: Instant,
    elapsed_ns: f64,
    mean_pause_ns: f64,
    random: SplitMix,
}

impl Schedule {
    pub(super) fn new(start: Instant, per_second: u64) -> Schedule {
        Schedule {
            start,
            elapsed_ns: 0.0,
            mean_pause_ns: 1e9 / per_second as f64,
            random: SplitMix::new(SEED),
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
            let dues: Vec<Instant> = Schedule::new(start, per_second).take(count).collect();
            assert!(dues.is_sorted(), "{per_second}");
            let expected = count as f64 / per_second as f64;
            let took = (dues[count - 1] - start).as_secs_f64();
            assert!(
                (took / expected - 1.0).abs() < 0.03,
                "{took} s at {per_second}"
            );
            // Of exponential pauses, one in e is longer than the mean.
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
    fn every_run_has_the_same_schedule() {
        let start = Instant::now();
        let dues = || Schedule::new(start, 1_000).take(100);
        assert!(dues().eq(dues()));
    }
}

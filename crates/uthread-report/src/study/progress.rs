//! The progress of a run, and an estimate of the time left.

use std::time::Duration;

/// Durations are in seconds.
#[derive(Default)]
pub(super) struct Progress {
    done: usize,
    left: usize,
    /// The estimate of the studies.
    expected_left: f64,
    /// The estimate for what has been measured, and how long that took.
    expected: f64,
    took: f64,
}

impl Progress {
    /// Adds this many measurements.
    pub(super) fn expect(&mut self, count: usize, seconds_each: f64) {
        self.left += count;
        self.expected_left += count as f64 * seconds_each;
    }

    /// Counts a measurement; `took` is `None` if it was in the journal.
    pub(super) fn add(&mut self, seconds_each: f64, took: Option<Duration>) {
        self.left -= 1;
        self.done += 1;
        self.expected_left -= seconds_each;
        if let Some(took) = took {
            self.expected += seconds_each;
            self.took += took.as_secs_f64();
        }
    }

    /// Formats the number of the next measurement and the time left.
    pub(super) fn show(&self) -> String {
        let factor = if self.expected > 0.0 {
            self.took / self.expected
        } else {
            1.0
        };
        let left =
            humantime::format_duration(Duration::from_secs((self.expected_left * factor) as u64));
        format!("[{}/{}, {left} left]", self.done + 1, self.done + self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_corrected_by_what_was_measured() {
        let mut progress = Progress::default();
        progress.expect(10, 3.0);
        progress.expect(100, 6.0);
        assert_eq!(progress.show(), "[1/110, 10m 30s left]");
        progress.add(3.0, None);
        progress.add(3.0, Some(Duration::from_secs(6)));
        assert_eq!(progress.show(), "[3/110, 20m 48s left]");
    }
}

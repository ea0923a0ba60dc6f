//! The progress of a run, and an estimate of the time left.

use std::time::Duration;

pub(super) struct Progress {
    studies: Vec<Share>,
}

/// The part of the run that belongs to one study.
struct Share {
    left: usize,
    done: usize,
    measured: u32,
    took: Duration,
    /// The estimate until something has been measured.
    seconds_each: f64,
}

impl Progress {
    pub(super) fn new() -> Progress {
        Progress {
            studies: Vec::new(),
        }
    }

    /// Adds a study with this many measurements.
    pub(super) fn expect(&mut self, count: usize, seconds_each: f64) {
        self.studies.push(Share {
            left: count,
            done: 0,
            measured: 0,
            took: Duration::ZERO,
            seconds_each,
        });
    }

    /// Counts a measurement of that study which is in the journal already.
    pub(super) fn skip(&mut self, study: usize) {
        let share = &mut self.studies[study];
        share.left -= 1;
        share.done += 1;
    }

    pub(super) fn add(&mut self, study: usize, took: Duration) {
        self.skip(study);
        let share = &mut self.studies[study];
        share.measured += 1;
        share.took += took;
    }

    /// Formats the number of the next measurement and the time left.
    pub(super) fn show(&self) -> String {
        let sum = |of: fn(&Share) -> usize| self.studies.iter().map(of).sum::<usize>();
        let (done, left) = (sum(|share| share.done), sum(|share| share.left));
        let seconds: f64 = self.studies.iter().map(Share::seconds_left).sum();
        format!("[{}/{}, {} left]", done + 1, done + left, time(seconds))
    }
}

impl Share {
    fn seconds_left(&self) -> f64 {
        let each = match self.measured {
            0 => self.seconds_each,
            measured => self.took.as_secs_f64() / f64::from(measured),
        };
        each * self.left as f64
    }
}

fn time(seconds: f64) -> String {
    match seconds {
        short if short < 90.0 => format!("{short:.0} s"),
        middle if middle < 5_400.0 => format!("{:.0} min", middle / 60.0),
        long => format!("{:.1} h", long / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_estimated_from_the_measurements() {
        let mut progress = Progress::new();
        progress.expect(10, 3.0);
        progress.expect(100, 6.0);
        assert_eq!(progress.show(), "[1/110, 10 min left]");
        progress.skip(0);
        assert_eq!(progress.show(), "[2/110, 10 min left]");
        progress.add(0, Duration::from_secs(30));
        assert_eq!(progress.show(), "[3/110, 14 min left]");
        progress.add(0, Duration::from_secs(10));
        assert_eq!(progress.show(), "[4/110, 12 min left]");
    }

    #[test]
    fn times_have_a_fitting_unit() {
        let check = |seconds, expected: &str| assert_eq!(time(seconds), expected);
        check(0.4, "0 s");
        check(89.0, "89 s");
        check(600.0, "10 min");
        check(7200.0, "2.0 h");
    }
}

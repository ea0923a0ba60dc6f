//! The rate of successes without start and end: mean and deviation over whole seconds, except for
//! the first two and the last two with a success.
//!
//! Published figures of the modeled services have this definition.

use crate::outcome::Spread;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;
/// Number of seconds that are left out at each end.
const LEFT_OUT: u64 = 2;

/// Counts successes in the order of their times.
pub(crate) struct Steady {
    /// The first counted second, if there was a success.
    from: Option<u64>,
    /// The last second with a success.
    last: u64,
    /// Number of successes from `from` up to two seconds before the last one.
    count: u64,
    /// Sum of the squares of the numbers of successes in each of these seconds.
    squares: u128,
    /// Number of successes in the last two seconds.
    recent: [u64; LEFT_OUT as usize],
}

impl Steady {
    pub(crate) fn new() -> Steady {
        Steady {
            from: None,
            last: 0,
            count: 0,
            squares: 0,
            recent: [0; LEFT_OUT as usize],
        }
    }

    pub(crate) fn add(&mut self, now: u64) {
        let second = now / SECOND;
        let from = *self.from.get_or_insert(second + LEFT_OUT);
        for _ in 0..(second - self.last).min(LEFT_OUT) {
            self.count += self.recent[0];
            self.squares += u128::from(self.recent[0]).pow(2);
            self.recent = [self.recent[1], 0];
        }
        self.last = second;
        if second >= from {
            self.recent[1] += 1;
        }
    }

    /// Returns mean and standard deviation of the successes per second, or `None` if no second is
    /// left.
    pub(crate) fn rate(&self) -> Option<Spread> {
        let to = (self.last + 1).checked_sub(LEFT_OUT)?;
        let seconds = to.checked_sub(self.from?)?;
        let mean_of = |sum: f64| sum / seconds as f64;
        let mean = mean_of(self.count as f64);
        // Rounding may leave a difference just below zero.
        let variance = (mean_of(self.squares as f64) - mean * mean).max(0.0);
        let deviation = variance.sqrt();
        (seconds > 0).then_some(Spread { mean, deviation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks mean and deviation of the rate of successes at these seconds.
    #[track_caller]
    fn check(times: &[f64], expected: Option<(f64, f64)>) {
        let mut steady = Steady::new();
        for time in times {
            steady.add((time * SECOND as f64) as u64);
        }
        let rate = steady.rate().map(|rate| (rate.mean, rate.deviation));
        assert_eq!(rate, expected, "{times:?}");
    }

    #[test]
    fn the_first_and_the_last_two_seconds_are_left_out() {
        check(&[], None);
        check(&[5.0, 6.0, 7.0, 8.0], None);
        check(
            &[5.0, 5.5, 6.0, 7.0, 7.5, 7.9, 8.0, 8.1, 9.9],
            Some((3.0, 0.0)),
        );
        check(
            &[5.0, 8.0, 11.2, 12.0, 12.9],
            Some((0.25, 0.1875_f64.sqrt())),
        );
        check(&[0.0, 30.0], Some((0.0, 0.0)));
        // Seconds without a success count, too: two of 57 have two successes each.
        let mean: f64 = 4.0 / 57.0;
        let deviation = (8.0 / 57.0 - mean * mean).sqrt();
        check(&[0.0, 2.1, 2.2, 30.0, 30.5, 60.0], Some((mean, deviation)));
    }
}

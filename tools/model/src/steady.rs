//! The rate of successes without start and end: the mean over whole seconds, except for the first
//! two and the last two with a success.
//!
//! Published figures of the modeled services have this definition.

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
    /// Number of successes in the last two seconds.
    recent: [u64; LEFT_OUT as usize],
}

impl Steady {
    pub(crate) fn new() -> Steady {
        Steady {
            from: None,
            last: 0,
            count: 0,
            recent: [0; LEFT_OUT as usize],
        }
    }

    pub(crate) fn add(&mut self, now: u64) {
        let second = now / SECOND;
        let from = *self.from.get_or_insert(second + LEFT_OUT);
        for _ in 0..(second - self.last).min(LEFT_OUT) {
            self.count += self.recent[0];
            self.recent = [self.recent[1], 0];
        }
        self.last = second;
        if second >= from {
            self.recent[1] += 1;
        }
    }

    /// Returns the successes per second, or `None` if no second is left.
    pub(crate) fn rate(&self) -> Option<f64> {
        let to = (self.last + 1).checked_sub(LEFT_OUT)?;
        let seconds = to.checked_sub(self.from?)?;
        (seconds > 0).then(|| self.count as f64 / seconds as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the rate of successes at these seconds.
    #[track_caller]
    fn check(times: &[f64], expected: Option<f64>) {
        let mut steady = Steady::new();
        for time in times {
            steady.add((time * SECOND as f64) as u64);
        }
        assert_eq!(steady.rate(), expected, "{times:?}");
    }

    #[test]
    fn the_first_and_the_last_two_seconds_are_left_out() {
        check(&[], None);
        check(&[5.0, 6.0, 7.0, 8.0], None);
        check(&[5.0, 5.5, 6.0, 7.0, 7.5, 7.9, 8.0, 8.1, 9.9], Some(3.0));
        check(&[5.0, 8.0, 11.2, 12.0, 12.9], Some(0.25));
        check(&[0.0, 30.0], Some(0.0));
        check(&[0.0, 2.1, 2.2, 30.0, 30.5, 60.0], Some(4.0 / 57.0));
    }
}

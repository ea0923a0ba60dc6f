//! Time by the names of `std::time`, and what happens again and again; single waits are in
//! [`thread`](crate::thread).

pub use std::time::{Duration, Instant, SystemTime, SystemTimeError, UNIX_EPOCH};

use crate::sched::wait;

/// An event every `period`, the first one a period from now.
///
/// # Panics
///
/// When the period is zero.
///
/// ```
/// use uthread::time::{Duration, Instant, interval};
///
/// let start = Instant::now();
/// let period = Duration::from_millis(2);
/// for (tick, due) in interval(period).take(3).enumerate() {
///     assert!(due >= start + period * (tick as u32 + 1));
/// }
/// assert!(start.elapsed() >= 3 * period);
/// ```
#[must_use]
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "an interval of no length never waits");
    Interval {
        last: wait::now(),
        period,
    }
}

/// An endless iterator that waits; see [`interval`].
///
/// Each item is the time for which the event was due. They are multiples of the period apart, however late
/// each was noticed; those that have passed meanwhile are left out.
#[derive(Debug, Clone)]
pub struct Interval {
    last: Instant,
    period: Duration,
}

impl Iterator for Interval {
    type Item = Instant;

    /// Waits for the next event. As any call without an error, it unwinds a fiber whose runtime is dropped.
    fn next(&mut self) -> Option<Instant> {
        let late = wait::now().saturating_duration_since(self.last);
        let since_missed = Duration::from_nanos_u128(late.as_nanos() % self.period.as_nanos());
        let missed = self.last + (late - since_missed);
        let next = wait::after(missed, self.period);
        wait::sleep_until(next);
        self.last = next;
        Some(next)
    }
}

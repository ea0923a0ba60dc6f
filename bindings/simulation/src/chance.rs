//! What a seed decides; without one, chance.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::time::Duration;

use uthread::interposition;

fn random() -> u64 {
    interposition::random().unwrap_or_else(|| RandomState::new().hash_one(()))
}

/// Chooses a number from zero to one.
fn part() -> f64 {
    random() as f64 / u64::MAX as f64
}

/// Chooses a time of these, or the start of an empty range.
pub(crate) fn time(range: &Range<Duration>) -> Duration {
    let length = range.end.saturating_sub(range.start);
    if length.is_zero() {
        return range.start;
    }
    range.start + length.mul_f64(part())
}

/// Returns `true` with this probability.
pub(crate) fn happens(probability: f64) -> bool {
    probability > 0.0 && part() < probability
}

/// Chooses a number up to this one.
pub(crate) fn up_to(largest: usize) -> usize {
    let number = u128::from(random()) * (largest as u128 + 1);
    (number >> u64::BITS) as usize
}

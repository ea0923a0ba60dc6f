//! Times, and how exactly something takes one.

use std::time::Duration;

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Checks that something has taken this time, or less than a millisecond longer.
#[track_caller]
pub(crate) fn assert_takes(expected: Duration, taken: Duration) {
    assert_takes_within(MS, expected, taken);
}

/// Checks that something has taken this time, or less than `late` longer.
#[track_caller]
pub(crate) fn assert_takes_within(late: Duration, expected: Duration, taken: Duration) {
    assert!(
        (expected..expected + late).contains(&taken),
        "{taken:?} instead of {expected:?}"
    );
}

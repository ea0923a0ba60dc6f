//! Random numbers, which the seed of a test decides, as it decides the keys of a hash map.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::time::Duration;

pub(crate) fn random(range: Range<u64>) -> u64 {
    range.start + RandomState::new().hash_one(()) % (range.end - range.start)
}

pub(crate) fn random_ms(range: Range<u64>) -> Duration {
    Duration::from_millis(random(range))
}

//! Random choices that repeat with their seed.

use std::time::Duration;

/// The generator of one fiber.
pub(crate) type Random = fastrand::Rng;

pub(crate) trait Choices {
    /// Returns true with a probability of `chance` percent.
    fn percent(&mut self, chance: u64) -> bool;

    /// Returns a pause of at least a microsecond and less than `limit_us`; short ones are the most
    /// likely.
    fn pause(&mut self, limit_us: u64) -> Duration;
}

impl Choices for Random {
    fn percent(&mut self, chance: u64) -> bool {
        self.u64(..100) < chance
    }

    fn pause(&mut self, limit_us: u64) -> Duration {
        let limit_us = self.u64(1..=limit_us);
        Duration::from_micros(self.u64(1..=limit_us))
    }
}

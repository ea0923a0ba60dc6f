//! Numbers that look random and repeat with their seed.

use std::time::Duration;

/// A small generator (xorshift), which each fiber has to itself.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Seeds that differ little give rows that differ much; zero is a seed like any other.
    pub(crate) fn new(seed: u64) -> Random {
        let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Random((mixed ^ (mixed >> 31)) | 1)
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Below `limit`, which is not zero.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        // The lowest bits of a xorshift are its weakest.
        (self.number() >> 11) % limit
    }

    pub(crate) fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// True so many times in a hundred.
    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// From a microsecond up to below `limit_us`, mostly short.
    pub(crate) fn pause(&mut self, limit_us: u64) -> Duration {
        let limit_us = 1 + self.below(limit_us);
        Duration::from_micros(1 + self.below(limit_us))
    }

    /// A generator for another fiber.
    pub(crate) fn fork(&mut self) -> Random {
        Random::new(self.number())
    }
}

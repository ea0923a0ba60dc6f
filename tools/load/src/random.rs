//! Random numbers that repeat with the same seed.

/// A small generator of random numbers, good enough for pauses and rounds.
///
/// ```
/// use uthread_load::SplitMix;
///
/// let mut random = SplitMix::new(1);
/// assert!(random.below(7) < 7);
/// assert!((0.0..1.0).contains(&random.fraction()));
/// ```
#[derive(Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// Creates a generator; the same seed gives the same numbers. See the example of [`SplitMix`].
    pub fn new(seed: u64) -> SplitMix {
        SplitMix(seed)
    }

    /// Returns a number from 0 up to, not including, `bound`. See the example of [`SplitMix`].
    ///
    /// # Panics
    ///
    /// If the bound is zero.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Returns a number from 0 up to, not including, 1: a multiple of 2^-53. See the example of
    /// [`SplitMix`].
    pub fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns any number. See the example of [`SplitMix`].
    #[expect(
        clippy::should_implement_trait,
        reason = "it has no end, and nobody iterates"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_fill_their_range_and_stay_in_it() {
        let mut random = SplitMix::new(1);
        let fractions: Vec<f64> = (0..10_000).map(|_| random.fraction()).collect();
        assert!(
            fractions
                .iter()
                .all(|fraction| (0.0..1.0).contains(fraction))
        );
        let mean = fractions.iter().sum::<f64>() / fractions.len() as f64;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        let mut seen = [false; 7];
        (0..1000).for_each(|_| seen[random.below(7)] = true);
        assert_eq!(seen, [true; 7]);
    }
}

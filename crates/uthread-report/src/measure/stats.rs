//! Medians, quantiles, and the confidence of a ratio.
//!
//! The interval of a ratio comes from a bootstrap over the rounds' pairs: rounds are few and not
//! normally distributed, and a pair shares its round's state of the machine.

use fastrand::Rng;

/// Number of resamples, enough that the interval's third digit does not depend on the seed.
const RESAMPLES: usize = 10_000;
/// Minimum number of pairs for a verdict: with fewer, even a sign test cannot reach 95 %, as five
/// coins show the same side once in sixteen throws.
pub const PAIRS_FOR_A_VERDICT: usize = 6;
/// Fixed, so that the same samples give the same interval each time a report is drawn.
const BOOTSTRAP_SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The middle and both ends of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

/// A ratio of two subjects over several rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Median of the ratios within the rounds.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// The conclusion from the interval.
    pub verdict: Verdict,
}

/// The conclusion from the interval of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// The interval excludes 1.
    Difference,
    /// The interval includes 1.
    NoDifference,
    /// No interval of so few pairs means much.
    TooFewRounds,
}

impl Verdict {
    fn of(pairs: usize, low: f64, high: f64) -> Verdict {
        match (pairs, low, high) {
            (..PAIRS_FOR_A_VERDICT, ..) => Verdict::TooFewRounds,
            (_, low, high) if low > 1.0 || high < 1.0 => Verdict::Difference,
            _ => Verdict::NoDifference,
        }
    }

    /// Returns it in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Difference => "difference",
            Verdict::NoDifference => "no difference",
            Verdict::TooFewRounds => "too few rounds to tell",
        }
    }
}

/// Returns the median and both ends, or `None` without samples.
#[must_use]
pub fn summarise(samples: &[f64]) -> Option<Summary> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(Summary {
        median: median_of_sorted(&sorted)?,
        min: *sorted.first()?,
        max: *sorted.last()?,
    })
}

/// Returns the median of the ratios of pairs with its 95 % confidence interval, or `None` without
/// pairs or if a figure is not above zero.
#[must_use]
pub fn paired_ratio(pairs: &[(f64, f64)]) -> Option<Ratio> {
    if pairs
        .iter()
        .any(|&(above, below)| !(above > 0.0 && below > 0.0))
    {
        return None;
    }
    let ratios: Vec<f64> = pairs.iter().map(|&(above, below)| above / below).collect();
    let median = summarise(&ratios)?.median;
    let mut random = Rng::with_seed(BOOTSTRAP_SEED);
    let mut resample = vec![0.0; ratios.len()];
    // All samples of a single pair are the same.
    let resamples = if ratios.len() == 1 { 1 } else { RESAMPLES };
    let mut medians: Vec<f64> = Vec::with_capacity(resamples);
    for _ in 0..resamples {
        resample.fill_with(|| ratios[random.usize(..ratios.len())]);
        resample.sort_by(f64::total_cmp);
        medians.extend(median_of_sorted(&resample));
    }
    medians.sort_by(f64::total_cmp);
    let (low, high) = (quantile(&medians, 0.025)?, quantile(&medians, 0.975)?);
    Some(Ratio {
        median,
        low,
        high,
        verdict: Verdict::of(pairs.len(), low, high),
    })
}

/// Returns the smallest sample that at least the share `q` of all samples do not exceed. `sorted`
/// ascends.
fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let rank = (q * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).checked_sub(1)?).copied()
}

fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 {
        upper
    } else {
        (sorted[middle - 1] + upper) / 2.0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_the_middle_and_both_ends() {
        let check = |samples: &[f64], expected: Option<(f64, f64, f64)>| {
            let expected = expected.map(|(median, min, max)| Summary { median, min, max });
            assert_eq!(summarise(samples), expected, "{samples:?}");
        };
        check(&[], None);
        check(&[7.0], Some((7.0, 7.0, 7.0)));
        check(&[9.0, 1.0], Some((5.0, 1.0, 9.0)));
        check(&[3.0, 1.0, 2.0], Some((2.0, 1.0, 3.0)));
        check(&[4.0, 1.0, 3.0, 100.0], Some((3.5, 1.0, 100.0)));
    }

    #[test]
    fn a_quantile_is_a_sample() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        let found = [0.0, 0.50, 0.99, 0.999, 1.0].map(|q| quantile(&hundred, q));
        assert_eq!(found, [1.0, 50.0, 99.0, 100.0, 100.0].map(Some));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn a_ratio_says_whether_it_shows_a_difference() {
        let check = |ratios: &[f64], verdict: Verdict| {
            let pairs: Vec<(f64, f64)> = ratios.iter().map(|ratio| (ratio * 10.0, 10.0)).collect();
            let ratio = paired_ratio(&pairs).unwrap();
            assert!(
                ratio.low <= ratio.median && ratio.median <= ratio.high,
                "{ratio:?}"
            );
            assert_eq!(ratio.verdict, verdict, "{ratio:?}");
        };
        use Verdict::{Difference, NoDifference, TooFewRounds};
        check(&[0.80, 0.81, 0.79, 0.82, 0.80, 0.78], Difference);
        check(&[1.30, 1.20, 1.25, 1.22, 1.40, 1.30, 1.31], Difference);
        check(&[0.90, 1.10, 1.00, 0.95, 1.05, 0.99], NoDifference);
        check(&[1.00; 6], NoDifference);
        check(&[2.00; 5], TooFewRounds);
    }

    #[test]
    fn a_ratio_of_nothing_is_none() {
        assert_eq!(paired_ratio(&[]), None);
        assert_eq!(paired_ratio(&[(1.0, 0.0)]), None);
        assert_eq!(paired_ratio(&[(1.0, 1.0), (f64::NAN, 1.0)]), None);
        assert_eq!(paired_ratio(&[(1.0, 1.0), (-4.0, 1.0)]), None);
    }

    #[test]
    fn the_interval_is_reproducible() {
        let pairs = [(1.0, 2.0), (3.0, 2.0), (2.0, 2.5), (2.0, 1.9)];
        assert_eq!(paired_ratio(&pairs), paired_ratio(&pairs));
    }
}

//! Latencies of many requests: percentiles from a histogram of bounded size; least, most, mean and
//! deviation exactly.

use hdrhistogram::Histogram;

use crate::outcome::Spread;

/// A percentile that is no extreme differs from the true one by less than a thousandth of it.
const DIGITS: u8 = 3;
/// Number of steps of a curve from the least to the most.
const STEPS: u32 = 400;

/// Times in nanoseconds.
pub(crate) struct Latencies {
    histogram: Histogram<u64>,
    /// Mean, and sum of the squared deviations from it (Welford).
    mean: f64,
    squares: f64,
    least: u64,
    most: u64,
}

impl Latencies {
    pub(crate) fn new() -> Latencies {
        Latencies {
            histogram: Histogram::new(DIGITS).expect("three digits are possible"),
            mean: 0.0,
            squares: 0.0,
            least: u64::MAX,
            most: 0,
        }
    }

    pub(crate) fn add(&mut self, time: u64) {
        self.histogram.record(time).expect("the histogram grows");
        let deviation = time as f64 - self.mean;
        self.mean += deviation / self.histogram.len() as f64;
        self.squares += deviation * (time as f64 - self.mean);
        self.least = self.least.min(time);
        self.most = self.most.max(time);
    }

    /// Returns a percentile in seconds. A bucket of the histogram never reaches beyond the
    /// extremes.
    pub(crate) fn at(&self, percent: f64) -> f64 {
        let time = match percent {
            0.0 => self.least,
            100.0 => self.most,
            _ => self.histogram.value_at_quantile(percent / 100.0),
        };
        time.clamp(self.least.min(self.most), self.most) as f64 / 1e9
    }

    /// Returns mean and standard deviation in seconds, or `None` without a latency.
    pub(crate) fn spread(&self) -> Option<Spread> {
        let count = self.histogram.len();
        (count > 0).then(|| Spread {
            mean: self.mean / 1e9,
            deviation: (self.squares / count as f64).sqrt() / 1e9,
        })
    }

    /// Returns percent and latency in seconds, in steps that a curve needs; none without a latency.
    pub(crate) fn distribution(&self) -> Vec<(f64, f64)> {
        let steps = if self.histogram.is_empty() {
            0
        } else {
            STEPS + 1
        };
        let percents = (0..steps).map(|step| f64::from(step) * 100.0 / f64::from(STEPS));
        percents
            .map(|percent| (percent, self.at(percent)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_mean_and_deviation_are_exact() {
        let mut latencies = Latencies::new();
        assert_eq!(
            (latencies.spread(), latencies.distribution().len()),
            (None, 0)
        );
        latencies.add(20_000_000);
        assert_eq!(
            [0.0, 50.0, 99.9, 100.0].map(|percent| latencies.at(percent)),
            [0.02; 4]
        );
        latencies.add(40_000_000);
        let Spread { mean, deviation } = latencies.spread().unwrap();
        assert!(
            (mean - 0.03).abs() < 1e-12 && (deviation - 0.01).abs() < 1e-12,
            "{mean} {deviation}"
        );
        assert_eq!((latencies.at(0.0), latencies.at(100.0)), (0.02, 0.04));
        let curve = latencies.distribution();
        assert!(curve.len() > 100 && curve.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
    }
}

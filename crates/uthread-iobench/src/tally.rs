//! Latencies and counters of a measurement, and the report that a measuring process prints.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::usage::Meter;
use crate::walk::Request;

/// The percentiles that `fio` reports by default.
pub const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

/// Number of requests that must exceed a percentile. With fewer, one slow request more or less
/// moves it to another height.
pub(crate) const ABOVE_MIN: u64 = 10;

/// A request that takes a minute has failed in all but name.
const LATENCY_NS_MAX: u64 = 60_000_000_000;
/// A hundredth, as in `fio`: memory is measured too.
const SIGNIFICANT_DIGITS: u8 = 2;

/// The requests that a technique has performed.
pub(crate) struct Tally {
    reads: Histogram<u64>,
    writes: Histogram<u64>,
    syncs: Histogram<u64>,
    /// System calls that request or await I/O; `None` if the technique makes them out of sight.
    pub(crate) calls: Option<u64>,
    /// The measured part, if that is not all.
    pub(crate) span: Option<(Meter, Meter)>,
    /// Blocks that a store has written for each put.
    pub(crate) written_per_put: Option<f64>,
}

impl Tally {
    pub(crate) fn new() -> Tally {
        let empty =
            || Histogram::new_with_max(LATENCY_NS_MAX, SIGNIFICANT_DIGITS).expect("valid bounds");
        Tally {
            reads: empty(),
            writes: empty(),
            syncs: empty(),
            calls: Some(0),
            span: None,
            written_per_put: None,
        }
    }

    pub(crate) fn record(&mut self, request: Request, latency: Duration) {
        let histogram = match request {
            Request::Read(_) => &mut self.reads,
            Request::Write(_) => &mut self.writes,
            Request::Sync => &mut self.syncs,
        };
        histogram.saturating_record(latency.as_nanos() as u64);
    }

    /// Adds what another thread has done.
    pub(crate) fn add(&mut self, other: &Tally) {
        let pairs = [
            (&mut self.reads, &other.reads),
            (&mut self.writes, &other.writes),
            (&mut self.syncs, &other.syncs),
        ];
        for (sum, part) in pairs {
            sum.add(part).expect("all have the same bounds");
        }
        self.calls = self.calls.zip(other.calls).map(|(a, b)| a + b);
    }

    pub(crate) fn requests(&self) -> u64 {
        self.reads.len() + self.writes.len() + self.syncs.len()
    }

    pub(crate) fn latencies(&self) -> [Option<Latencies>; 3] {
        [&self.reads, &self.writes, &self.syncs].map(Latencies::of)
    }
}

/// The result of a measurement. What is "per request" is divided by the number of requests of all
/// kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Duration.
    pub seconds: f64,
    /// Latencies of reads, or of gets from a store.
    pub reads: Option<Latencies>,
    /// Latencies of writes, or of puts to a store.
    pub writes: Option<Latencies>,
    /// Latencies of `fsync`.
    pub syncs: Option<Latencies>,
    /// System calls per request, where the program makes them itself.
    pub calls: Option<f64>,
    /// CPU time in user space per request.
    pub usr_us: Option<f64>,
    /// CPU time in the kernel per request.
    pub sys_us: Option<f64>,
    /// Context switches per request.
    pub context_switches: Option<f64>,
    /// Involuntary context switches per request: the kernel took the CPU away.
    #[serde(default)]
    pub involuntary_switches: Option<f64>,
    /// Peak of resident memory.
    pub max_rss_mib: Option<f64>,
    /// Blocks that a store has written for each put.
    pub written_per_put: Option<f64>,
}

/// Latencies of one kind of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Number of requests.
    pub count: u64,
    /// Mean.
    pub mean_us: f64,
    /// Standard deviation.
    pub deviation_us: f64,
    /// In the order of [`PERCENTILES`].
    pub percentiles_us: Vec<f64>,
}

impl Report {
    /// Returns the number of reads in a second.
    #[must_use]
    pub fn read_rate(&self) -> f64 {
        let reads = self.reads.as_ref();
        reads.map_or(f64::NAN, |reads| reads.count as f64 / self.seconds)
    }

    /// Returns the CPU time per request.
    #[must_use]
    pub fn cpu_us(&self) -> f64 {
        let both = self.usr_us.zip(self.sys_us);
        both.map_or(f64::NAN, |(usr, sys)| usr + sys)
    }
}

impl Latencies {
    fn of(histogram: &Histogram<u64>) -> Option<Latencies> {
        let at_us = |percent| histogram.value_at_percentile(percent) as f64 / 1e3;
        (!histogram.is_empty()).then(|| Latencies {
            count: histogram.len(),
            mean_us: histogram.mean() / 1e3,
            deviation_us: histogram.stdev() / 1e3,
            percentiles_us: PERCENTILES.map(at_us).to_vec(),
        })
    }

    /// Returns one of [`PERCENTILES`]; `NAN` if fewer than 10 requests exceed it.
    #[must_use]
    pub fn at(&self, percent: f64) -> f64 {
        let mut known = self.known();
        let found = known.find(|(known, _)| *known == percent);
        found.map_or(f64::NAN, |(_, latency)| latency)
    }

    /// Returns the percentiles that enough requests exceed, in percent, with their latencies.
    pub(crate) fn known(&self) -> impl Iterator<Item = (f64, f64)> {
        let all = PERCENTILES
            .into_iter()
            .zip(self.percentiles_us.iter().copied());
        // Ten of 10,000 exceed 99.9 %, although the product is slightly less than that.
        let above = |percent: f64| self.count as f64 * (1.0 - percent / 100.0) + 1e-6;
        all.filter(move |(percent, _)| above(*percent) >= ABOVE_MIN as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_that_few_requests_exceed_is_left_out() {
        let known = |count| {
            let latencies = Latencies {
                count,
                mean_us: 1.0,
                deviation_us: 1.0,
                percentiles_us: PERCENTILES.to_vec(),
            };
            let last = latencies.known().last().map(|(percent, _)| percent);
            assert_eq!(latencies.at(99.9).is_nan(), last < Some(99.9), "{count}");
            last
        };
        assert_eq!(
            [5, 11, 19, 20, 50].map(known),
            [None, Some(5.0), Some(40.0), Some(50.0), Some(80.0)]
        );
        assert_eq!([999, 1000].map(known), [Some(95.0), Some(99.0)]);
        assert_eq!([9_999, 10_000].map(known), [Some(99.5), Some(99.9)]);
        assert_eq!([20_000, 100_000].map(known), [Some(99.95), Some(99.99)]);
    }

    #[test]
    fn kinds_are_counted_apart_and_sums_add_up() {
        let mut tally = Tally::new();
        let mut other = Tally::new();
        for us in 1..=1000 {
            tally.record(Request::Read(0), Duration::from_micros(us));
            other.record(Request::Write(0), Duration::from_micros(2 * us));
        }
        (tally.calls, other.calls) = (Some(3), Some(4));
        tally.add(&other);
        assert_eq!((tally.requests(), tally.calls), (2000, Some(7)));
        let [reads, writes, syncs] = tally.latencies();
        let (reads, writes) = (reads.unwrap(), writes.unwrap());
        assert_eq!((reads.count, syncs), (1000, None));
        assert!((reads.at(50.0) / 500.0 - 1.0).abs() < 0.01, "{reads:?}");
        assert!((writes.at(99.0) / 1980.0 - 1.0).abs() < 0.01, "{writes:?}");
        assert!((reads.mean_us / 500.5 - 1.0).abs() < 0.01, "{reads:?}");
        assert!((reads.deviation_us / 288.7 - 1.0).abs() < 0.01, "{reads:?}");
        other.calls = None;
        tally.add(&other);
        assert_eq!(tally.calls, None);
    }
}

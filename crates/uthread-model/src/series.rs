//! Counts and levels over time, in a bounded number of intervals: their length doubles when the
//! time exceeds them.

use serde::Serialize;

/// Maximum number of intervals: as many as a plot has room for.
const INTERVALS_MAX: usize = 512;
/// The first length of an interval in nanoseconds: a tick of the leaky bucket, so that each has as
/// many requests.
const LENGTH_MIN: u64 = 10_000_000;

/// Counts and levels of a simulation over time.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// Length of an interval in nanoseconds.
    pub interval_ns: u64,
    /// The intervals from the beginning on, one after the other.
    pub intervals: Vec<Interval>,
    #[serde(skip)]
    meters: [Meter; 2],
}

/// Counts and mean levels of an interval.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Interval {
    /// Number of first attempts.
    pub arrived: u64,
    /// Number of requests with a response.
    pub succeeded: u64,
    /// Number of requests that have failed, retries included.
    pub failed: u64,
    /// Mean number of requests in progress, and so of threads or fibers in use.
    pub in_progress: f64,
    /// Mean number of requests that wait to be accepted.
    pub waiting: f64,
}

/// A level over time: its value, its maximum and its integral.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    value: u64,
    since: u64,
    max: u64,
    /// The integral of the value over time, in nanoseconds.
    area: f64,
}

/// A level, by its index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gauge {
    InProgress,
    Waiting,
}

impl Series {
    pub(crate) fn new() -> Series {
        Series {
            interval_ns: LENGTH_MIN,
            intervals: Vec::new(),
            meters: [Meter::default(); 2],
        }
    }

    /// Returns the interval of a time.
    pub(crate) fn at(&mut self, now: u64) -> &mut Interval {
        while now / self.interval_ns >= INTERVALS_MAX as u64 {
            self.double();
        }
        let index = (now / self.interval_ns) as usize;
        if self.intervals.len() <= index {
            self.intervals.resize(index + 1, Interval::default());
        }
        &mut self.intervals[index]
    }

    fn double(&mut self) {
        let pairs = self.intervals.chunks(2);
        let merged = pairs.map(|pair| {
            let second = pair.get(1).copied().unwrap_or_default();
            Interval {
                arrived: pair[0].arrived + second.arrived,
                succeeded: pair[0].succeeded + second.succeeded,
                failed: pair[0].failed + second.failed,
                in_progress: (pair[0].in_progress + second.in_progress) / 2.0,
                waiting: (pair[0].waiting + second.waiting) / 2.0,
            }
        });
        self.intervals = merged.collect();
        self.interval_ns *= 2;
    }

    /// Sets a level from now on.
    pub(crate) fn set(&mut self, gauge: Gauge, now: u64, value: u64) {
        self.fill(gauge, now);
        let meter = &mut self.meters[gauge as usize];
        meter.value = value;
        meter.max = meter.max.max(value);
    }

    /// Adds a level to the intervals up to now.
    fn fill(&mut self, gauge: Gauge, now: u64) {
        let meter = self.meters[gauge as usize];
        let mut from = meter.since;
        while from < now && meter.value > 0 {
            self.at(now);
            let end = (from / self.interval_ns + 1) * self.interval_ns;
            let part = end.min(now) - from;
            let share = meter.value as f64 * part as f64 / self.interval_ns as f64;
            let interval = self.at(from);
            match gauge {
                Gauge::InProgress => interval.in_progress += share,
                Gauge::Waiting => interval.waiting += share,
            }
            from = end;
        }
        let meter = &mut self.meters[gauge as usize];
        meter.area += meter.value as f64 * (now - meter.since) as f64;
        meter.since = now;
    }

    /// Ends all levels.
    pub(crate) fn end(&mut self, now: u64) {
        self.fill(Gauge::InProgress, now);
        self.fill(Gauge::Waiting, now);
    }

    /// Returns the time of the last change of a level.
    pub(crate) fn changed(&self) -> u64 {
        let times = self.meters.iter().map(|meter| meter.since);
        times.max().unwrap_or(0)
    }

    pub(crate) fn max(&self, gauge: Gauge) -> u64 {
        self.meters[gauge as usize].max
    }

    /// Returns the mean of a level from the beginning to `now`, at which it has ended.
    pub(crate) fn mean(&self, gauge: Gauge, now: u64) -> f64 {
        self.meters[gauge as usize].area / now.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_their_means_however_long_it_takes() {
        let mut series = Series::new();
        let minute = 60_000_000_000;
        series.set(Gauge::InProgress, 0, 10);
        series.set(Gauge::InProgress, minute, 30);
        series.set(Gauge::Waiting, minute, 7);
        series.set(Gauge::Waiting, minute + 1_000_000, 0);
        series.at(minute).arrived += 1;
        series.end(2 * minute);
        assert!(series.intervals.len() <= INTERVALS_MAX);
        let length = series.interval_ns as f64;
        let mean: f64 = series
            .intervals
            .iter()
            .map(|interval| interval.in_progress)
            .sum();
        let mean = mean * length / (2 * minute) as f64;
        assert!((mean - 20.0).abs() < 1e-6, "{mean}");
        assert_eq!(series.mean(Gauge::InProgress, 2 * minute), 20.0);
        assert_eq!(
            (series.max(Gauge::InProgress), series.max(Gauge::Waiting)),
            (30, 7)
        );
        let arrived: u64 = series
            .intervals
            .iter()
            .map(|interval| interval.arrived)
            .sum();
        assert_eq!(arrived, 1);
        let waited: f64 = series
            .intervals
            .iter()
            .map(|interval| interval.waiting)
            .sum();
        assert!((waited * length - 7e6).abs() < 1.0, "{waited}");
    }
}

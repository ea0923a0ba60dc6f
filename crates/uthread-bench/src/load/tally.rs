//! Counts the answers of the measured time: how late each was, and how many each connection got.

use std::ops::Range;
use std::time::Instant;

use anyhow::Result;
use hdrhistogram::Histogram;

use super::Report;

/// An hour: no measurement is as long.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// A thousandth is finer than any two rounds agree.
const SIGNIFICANT_DIGITS: u8 = 3;

pub(super) struct Tally {
    measured: Range<Instant>,
    answered: u64,
    /// Of all answers but those before the measured time: what was kept waiting through its begin or end is the tail.
    latencies_ns: Histogram<u64>,
    /// Answers to each connection in the measured time.
    served: Vec<u64>,
}

impl Tally {
    pub(super) fn new(measured: Range<Instant>, connections: usize) -> Result<Tally> {
        Ok(Tally {
            measured,
            answered: 0,
            latencies_ns: Histogram::new_with_max(LATENCY_NS_MAX, SIGNIFICANT_DIGITS)?,
            served: vec![0; connections],
        })
    }

    pub(super) fn count(&mut self, connection: usize, due: Instant, answered: Instant) {
        self.answered += 1;
        if answered >= self.measured.start {
            let latency = answered.saturating_duration_since(due);
            self.latencies_ns
                .saturating_record(latency.as_nanos() as u64);
        }
        if self.measured.contains(&answered) {
            self.served[connection] += 1;
        }
    }

    pub(super) fn report(&self) -> Report {
        let at_us = |q| self.latencies_ns.value_at_quantile(q) as f64 / 1e3;
        let measured = self.measured.end - self.measured.start;
        Report {
            answered: self.answered,
            per_second: self.served.iter().sum::<u64>() as f64 / measured.as_secs_f64(),
            p50_us: at_us(0.50),
            p99_us: at_us(0.99),
            p999_us: at_us(0.999),
            max_us: self.latencies_ns.max() as f64 / 1e3,
            most_served: self.served.iter().copied().max().unwrap_or(0),
            least_served: self.served.iter().copied().min().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn each_connection_is_served_in_the_measured_time_alone() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut tally = Tally::new(at(1000)..at(3000), 2).unwrap();
        let answers = [(0, 999), (0, 1000), (1, 1001), (1, 2999), (1, 3000)];
        for (connection, ms) in answers {
            tally.count(connection, at(900), at(ms));
        }
        let report = tally.report();
        assert_eq!((report.answered, report.per_second), (5, 1.5));
        assert_eq!((report.most_served, report.least_served), (2, 1));
    }

    #[test]
    fn a_latency_counts_unless_it_ended_too_early() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut tally = Tally::new(at(2000)..at(3000), 1).unwrap();
        tally.count(0, at(0), at(1999));
        // From 1 to 1,000 ms; the first few are due before the measured time, most answered after it.
        (1..=1000).for_each(|ms| tally.count(0, at(1990 + ms), at(1990 + 2 * ms).max(at(2000))));
        let report = tally.report();
        let check = |found_us: f64, expected_us: f64| {
            let share = found_us / expected_us;
            assert!(
                (share - 1.0).abs() < 0.001,
                "{found_us} is not {expected_us}"
            );
        };
        check(report.p50_us, 500e3);
        check(report.p99_us, 990e3);
        check(report.p999_us, 999e3);
        check(report.max_us, 1000e3);
    }

    #[test]
    fn a_connection_without_an_answer_is_the_least_served() {
        let start = Instant::now();
        let mut tally = Tally::new(start..start + Duration::from_secs(1), 2).unwrap();
        tally.count(0, start, start);
        let report = tally.report();
        assert_eq!((report.most_served, report.least_served), (1, 0));
    }
}

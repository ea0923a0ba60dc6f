//! Counters of a worker: latencies, failures, and the lateness of the worker itself.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::clock::Clock;
use crate::failure::{Failure, Kind};

/// Maximum latency: one hour, longer than any measurement.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Finer than any two runs agree.
const SIGNIFICANT_DIGITS: u8 = 3;

#[derive(Debug)]
pub(crate) struct Tally {
    /// All responses, including those of the warm-up.
    pub(crate) answered: u64,
    /// Responses to requests that were sent in the measured time.
    pub(crate) measured: u64,
    /// Latencies of all responses except those before the measured time. Responses delayed across
    /// its start or end belong to the tail.
    pub(crate) latencies_ns: Histogram<u64>,
    /// Open loop: time from when a message was due to when it was sent.
    pub(crate) lateness_ns: Histogram<u64>,
    /// Number of failures by kind, and the first of each.
    pub(crate) failures: BTreeMap<Kind, (u64, String)>,
    /// Messages sent and never answered.
    pub(crate) unanswered: u64,
    /// Connections that the server closed as announced, and that were reopened.
    pub(crate) reconnects: u64,
}

impl Default for Tally {
    fn default() -> Tally {
        let histogram = || {
            Histogram::new_with_max(LATENCY_NS_MAX, SIGNIFICANT_DIGITS)
                .expect("the bounds are constant, and valid")
        };
        Tally {
            answered: 0,
            measured: 0,
            latencies_ns: histogram(),
            lateness_ns: histogram(),
            failures: BTreeMap::new(),
            unanswered: 0,
            reconnects: 0,
        }
    }
}

impl Tally {
    /// Counts a response; returns true if it arrived in the measured time.
    pub(crate) fn count(&mut self, clock: &Clock, due: Instant, answered: Instant) -> bool {
        self.answered += 1;
        if answered < clock.begin {
            return false;
        }
        record(
            &mut self.latencies_ns,
            answered.saturating_duration_since(due),
        );
        let measured = !clock.is_over(answered);
        self.measured += u64::from(measured);
        measured
    }

    /// Counts a message of an open loop when it is sent.
    pub(crate) fn count_sent(&mut self, clock: &Clock, due: Instant, now: Instant) {
        if due >= clock.begin {
            record(&mut self.lateness_ns, now.saturating_duration_since(due));
        }
    }

    pub(crate) fn fail(&mut self, failure: Failure) {
        let (count, _) = self
            .failures
            .entry(failure.kind)
            .or_insert((0, failure.text));
        *count += 1;
    }

    pub(crate) fn add(&mut self, other: Tally) {
        self.answered += other.answered;
        self.measured += other.measured;
        self.latencies_ns += other.latencies_ns;
        self.lateness_ns += other.lateness_ns;
        for (kind, (count, text)) in other.failures {
            self.failures.entry(kind).or_insert((0, text)).0 += count;
        }
        self.unanswered += other.unanswered;
        self.reconnects += other.reconnects;
    }
}

fn record(histogram: &mut Histogram<u64>, duration: Duration) {
    histogram.saturating_record(duration.as_nanos() as u64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::End;

    /// Measures from 1 to 3 s.
    fn clock(start: Instant) -> Clock {
        let end = End::new();
        end.set(start + Duration::from_secs(3));
        let begin = start + Duration::from_secs(1);
        Clock { start, begin, end }
    }

    #[test]
    fn an_answer_is_measured_between_warm_up_and_end_alone() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut tally = Tally::default();
        let clock = clock(start);
        let measured = [999, 1000, 2999, 3000].map(|ms| tally.count(&clock, at(900), at(ms)));
        assert_eq!(measured, [false, true, true, false]);
        assert_eq!((tally.answered, tally.measured), (4, 2));
    }

    #[test]
    fn a_latency_counts_unless_it_ended_too_early() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut tally = Tally::default();
        let clock = clock(start);
        tally.count(&clock, at(0), at(999));
        // From 1 to 1,000 ms; the first few are due before the measured time.
        (1..=1000).for_each(|ms| {
            tally.count(&clock, at(990 + ms), at(990 + 2 * ms).max(at(1000)));
        });
        let check = |quantile, expected_ms: f64| {
            let found_ms = tally.latencies_ns.value_at_quantile(quantile) as f64 / 1e6;
            let share = found_ms / expected_ms;
            assert!(
                (share - 1.0).abs() < 0.002,
                "{found_ms} is not {expected_ms}"
            );
        };
        assert_eq!(tally.latencies_ns.len(), 1000);
        check(0.5, 500.0);
        check(0.99, 990.0);
        check(0.999, 999.0);
        check(1.0, 1000.0);
    }

    #[test]
    fn failures_are_counted_by_kind_with_the_first_example() {
        let fail = |texts: [&str; 2]| {
            let mut tally = Tally::default();
            for text in texts {
                tally.fail(Failure::new(Kind::Status, text));
            }
            tally.fail(Failure::new(Kind::Closed, "x"));
            tally.unanswered = 2;
            tally
        };
        let mut tally = fail(["a", "b"]);
        tally.add(fail(["c", "d"]));
        let failures: Vec<_> = tally.failures.into_iter().collect();
        let expected = [
            (Kind::Closed, (2, "x".to_owned())),
            (Kind::Status, (4, "a".to_owned())),
        ];
        assert_eq!(failures, expected);
        assert_eq!(tally.unanswered, 4);
    }

    #[test]
    fn lateness_is_that_of_the_measured_time() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut tally = Tally::default();
        tally.count_sent(&clock(start), at(999), at(1500));
        tally.count_sent(&clock(start), at(1000), at(1002));
        assert_eq!(tally.lateness_ns.len(), 1);
        assert!(tally.lateness_ns.max() < 3_000_000);
    }
}

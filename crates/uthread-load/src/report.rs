//! The report of a run, as JSON with `serde` and as text with `Display`.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use uthread::Driver;

use crate::failure::Kind;
use crate::plan::{Pattern, Plan};
use crate::worker::Outcome;

/// Share of its CPUs from which on the generator counts as the limit: a worker needs the rest to
/// fall asleep.
const BUSY_SHARE: f64 = 0.95;
/// Lateness of an open loop from which on its users would blame the server for it.
const LATE_P99_US: f64 = 1000.0;

/// Results of a run. Times are in microseconds.
///
/// ```
/// let json = r#"{ "target": "tcp 127.0.0.1:7000, 16 bytes", "connections": 2, "connected": 2, "workers": 1,
///     "driver": "epoll", "pipelining": 1, "rate": null, "seconds": 1.0, "interrupted": false, "answered": 30,
///     "measured": 20, "per_second": 20.0, "latency_us": null, "most_served": 12, "least_served": 8,
///     "fairness": 1.5, "unanswered": 0, "reconnects": 0, "errors": [], "cpu_share": 0.2, "cpu_wait_share": 0.0,
///     "late_us": null, "saturated": [] }"#;
/// let report: uthread_load::Report = serde_json::from_str(json).unwrap();
/// assert!(report.to_string().contains("20.0 responses/s"));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Target of the load.
    pub target: String,
    /// Number of connections requested.
    pub connections: u64,
    /// Number of connections that were open, and answered once, before the run.
    pub connected: u64,
    /// Threads of the generator.
    pub workers: u64,
    /// I/O driver of the generator.
    pub driver: String,
    /// Closed loop: requests in flight per connection.
    pub pipelining: Option<u64>,
    /// Open loop: requests per second.
    pub rate: Option<u64>,
    /// Length of the measured time.
    pub seconds: f64,
    /// True if the run was ended early.
    pub interrupted: bool,
    /// All responses of the run, including those of the warm-up and those after the end. Divide a
    /// server's CPU time from the start to the last response by it. Excludes messages exchanged
    /// while connecting.
    pub answered: u64,
    /// Responses in the measured time.
    pub measured: u64,
    /// Responses per second of the measured time.
    pub per_second: f64,
    /// Latency from when a request was sent or, in an open loop, due. `None` without responses.
    pub latency_us: Option<Percentiles>,
    /// Responses on the most served connection in the measured time.
    pub most_served: u64,
    /// Responses on the least served connection in the measured time.
    pub least_served: u64,
    /// Ratio of the two; `None` if a connection received none.
    pub fairness: Option<f64>,
    /// Requests sent and never answered.
    pub unanswered: u64,
    /// Connections that the server ended as announced, and that were reopened.
    pub reconnects: u64,
    /// Failures, the most frequent first.
    pub errors: Vec<ErrorCount>,
    /// Share of its CPUs that the generator used in the measured time. If it spins, only the part
    /// that was not idle. `None` if each of its fibers is a thread.
    pub cpu_share: Option<f64>,
    /// Share of the measured time in which it was ready to run without a CPU.
    pub cpu_wait_share: Option<f64>,
    /// Open loop: time from when a request was due to when it was sent.
    pub late_us: Option<Lateness>,
    /// Reasons why these figures are the generator's rather than the server's; empty if they are
    /// the server's.
    pub saturated: Vec<Saturation>,
}

/// Percentiles of latency. See the example of [`Report`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// 99.99th percentile.
    pub p9999: f64,
    /// 99.999th percentile.
    pub p99999: f64,
    /// Maximum.
    pub max: f64,
}

/// Lateness of the generator. See the example of [`Report`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
}

/// Failures of one kind. See the example of [`Report`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// Kind of failure.
    pub kind: Kind,
    /// Number of failures.
    pub count: u64,
    /// Description of the first one.
    pub example: String,
}

/// Reasons why the generator itself was the limit. In JSON in lower case, with hyphens.
///
/// ```
/// use uthread_load::Saturation;
///
/// assert!(Saturation::Busy.remedy().contains("--workers"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Saturation {
    /// Its workers computed all the time.
    Busy,
    /// Its workers never idled, because they waited for CPUs that others used.
    Starved,
    /// It sent later than it should have.
    Late,
}

impl Saturation {
    /// Explains the reason, and the remedy. See the example of [`Saturation`].
    pub fn remedy(self) -> &'static str {
        match self {
            Saturation::Busy => {
                "the generator used all of its CPU time, so the server may be faster: use more --workers, with a CPU for each"
            }
            Saturation::Starved => {
                "the generator waited for CPUs that others used, and latencies include that: give it CPUs of its own \
                 (taskset)"
            }
            Saturation::Late => {
                "the generator sent more than 1 in 100 requests over 1 ms late: lower --rate, or use more --workers and give \
                 it CPUs of its own"
            }
        }
    }
}

impl Report {
    pub(crate) fn new(
        plan: &Plan,
        driver: &str,
        connected: u64,
        measured: Duration,
        interrupted: bool,
        outcome: &Outcome,
    ) -> Report {
        let tally = &outcome.tally;
        let workers = plan.workers();
        let seconds = measured.as_secs_f64();
        let is_known = driver != Driver::Threads.to_string();
        let share =
            |time: Duration| is_known.then(|| rate(time.as_secs_f64(), seconds * workers as f64));
        let (pipelining, per_second) = match plan.pattern {
            Pattern::Closed { depth } => (Some(depth.get() as u64), None),
            Pattern::Open { per_second } => (None, Some(per_second.get())),
        };
        let most_served = outcome.served.iter().copied().max().unwrap_or(0);
        let least_served = outcome.served.iter().copied().min().unwrap_or(0);
        let mut errors: Vec<ErrorCount> = tally
            .failures
            .iter()
            .map(|(&kind, (count, example))| ErrorCount {
                kind,
                count: *count,
                example: example.clone(),
            })
            .collect();
        errors.sort_by_key(|error| std::cmp::Reverse(error.count));
        let mut report = Report {
            target: plan.target.to_string(),
            connections: plan.connections.get() as u64,
            connected,
            workers: workers as u64,
            driver: driver.to_owned(),
            pipelining,
            rate: per_second,
            seconds,
            interrupted,
            answered: tally.answered,
            measured: tally.measured,
            per_second: rate(tally.measured as f64, seconds),
            latency_us: percentiles(&tally.latencies_ns),
            most_served,
            least_served,
            fairness: (least_served > 0).then(|| most_served as f64 / least_served as f64),
            unanswered: tally.unanswered,
            reconnects: tally.reconnects,
            errors,
            cpu_share: share(outcome.usage.cpu),
            cpu_wait_share: share(outcome.usage.waited),
            late_us: lateness(&tally.lateness_ns),
            saturated: Vec::new(),
        };
        report.saturated = report.judge();
        report
    }

    fn judge(&self) -> Vec<Saturation> {
        let [cpu, wait] = [self.cpu_share, self.cpu_wait_share].map(Option::unwrap_or_default);
        let busy = cpu >= BUSY_SHARE;
        let starved = !busy && cpu + wait >= BUSY_SHARE;
        let late = self.late_us.is_some_and(|late| late.p99 > LATE_P99_US);
        let all = [
            (busy, Saturation::Busy),
            (starved, Saturation::Starved),
            (late, Saturation::Late),
        ];
        all.into_iter()
            .filter_map(|(is, why)| is.then_some(why))
            .collect()
    }
}

/// Returns events per second; zero for no time.
fn rate(count: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { count / seconds } else { 0.0 }
}

fn percentiles(histogram: &Histogram<u64>) -> Option<Percentiles> {
    let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
    (!histogram.is_empty()).then(|| Percentiles {
        mean: histogram.mean() / 1e3,
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        p9999: at(0.9999),
        p99999: at(0.99999),
        max: histogram.max() as f64 / 1e3,
    })
}

fn lateness(histogram: &Histogram<u64>) -> Option<Lateness> {
    (!histogram.is_empty()).then(|| Lateness {
        p99: histogram.value_at_quantile(0.99) as f64 / 1e3,
        max: histogram.max() as f64 / 1e3,
    })
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report {
            target,
            connections,
            seconds,
            workers,
            driver,
            ..
        } = self;
        let pattern = match (self.rate, self.pipelining) {
            (Some(rate), _) => format!("open loop at {rate}/s"),
            (None, Some(depth)) if depth > 1 => format!("closed loop, {depth} in flight on each"),
            _ => "closed loop".to_owned(),
        };
        let early = if self.interrupted {
            ", interrupted"
        } else {
            ""
        };
        writeln!(
            formatter,
            "{target}: {connections} connections, {pattern}, {seconds:.1} s{early}"
        )?;
        if self.answered == 0 {
            writeln!(formatter, "  no response")?;
            return self.write_faults(formatter);
        }
        writeln!(
            formatter,
            "  {:.1} responses/s ({} measured, {} in total)",
            self.per_second, self.measured, self.answered
        )?;
        self.write_latency(formatter)?;
        if self.measured > 0 {
            let ratio = self
                .fairness
                .map_or("no ratio".to_owned(), |ratio| format!("ratio {ratio:.2}"));
            let (most, least) = (self.most_served, self.least_served);
            writeln!(
                formatter,
                "  fairness: {most} responses on the most served connection, {least} on the least, {ratio}"
            )?;
        }
        write!(formatter, "  generator: {workers} worker(s) on {driver}")?;
        if let (Some(cpu), Some(wait)) = (self.cpu_share, self.cpu_wait_share) {
            let [cpu, wait] = [cpu, wait].map(|share| share * 100.0);
            write!(
                formatter,
                ", {cpu:.0} % busy, {wait:.0} % waiting for a CPU"
            )?;
        }
        match self.late_us {
            Some(late) => writeln!(
                formatter,
                ", sent late by p99 {}, max {}",
                time(late.p99),
                time(late.max)
            )?,
            None => writeln!(formatter)?,
        }
        self.write_faults(formatter)
    }
}

impl Report {
    fn write_latency(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(latency) = self.latency_us else {
            return writeln!(formatter, "  no latency: no response in the measured time");
        };
        let from = if self.rate.is_some() { "due" } else { "sent" };
        let figures = [
            ("mean", latency.mean),
            ("p50", latency.p50),
            ("p90", latency.p90),
            ("p99", latency.p99),
            ("p99.9", latency.p999),
            ("p99.99", latency.p9999),
            ("p99.999", latency.p99999),
            ("max", latency.max),
        ];
        write!(formatter, "  latency since {from}:")?;
        for (name, us) in figures {
            write!(formatter, " {name} {}", time(us))?;
        }
        writeln!(formatter)
    }

    fn write_faults(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.connected < self.connections {
            let missing = self.connections - self.connected;
            writeln!(
                formatter,
                "  {missing} connections received no response before the run"
            )?;
        }
        if self.reconnects > 0 {
            let times = self.reconnects;
            writeln!(
                formatter,
                "  the server closed connections {times} times, as announced; they were reopened"
            )?;
        }
        if self.unanswered > 0 {
            writeln!(
                formatter,
                "  {} requests received no response",
                self.unanswered
            )?;
        }
        for ErrorCount {
            kind,
            count,
            example,
        } in &self.errors
        {
            writeln!(formatter, "  error: {count} {kind}, the first: {example}")?;
        }
        for why in &self.saturated {
            writeln!(formatter, "  saturated: {}", why.remedy())?;
        }
        Ok(())
    }
}

/// Formats a time in the unit that needs few digits.
fn time(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{us:.1} us"),
        us if us < 1e6 => format!("{:.2} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, End};
    use crate::failure::Failure;
    use crate::tally::Tally;
    use crate::target::Target;
    use crate::usage::Usage;
    use std::time::Instant;

    fn report(cpu_ms: u64, waited_ms: u64, late_us: &[u64], served: &[u64]) -> Report {
        let plan = Plan::new(Target::tcp("127.0.0.1:1", 16).unwrap());
        let start = Instant::now();
        let clock = Clock {
            start,
            begin: start,
            end: End::new(),
        };
        let mut tally = Tally::default();
        for &count in served {
            for _ in 0..count {
                tally.count(&clock, start, start + Duration::from_micros(100));
            }
        }
        for &us in late_us {
            tally.count_sent(&clock, start, start + Duration::from_micros(us));
        }
        tally.fail(Failure::new(Kind::Reset, "by peer"));
        let outcome = Outcome {
            tally,
            served: served.to_vec(),
            usage: Usage {
                cpu: Duration::from_millis(cpu_ms),
                waited: Duration::from_millis(waited_ms),
            },
        };
        Report::new(&plan, "uring", 50, Duration::from_secs(1), false, &outcome)
    }

    #[test]
    fn figures_are_those_of_the_measured_time() {
        let report = report(500, 100, &[], &[30, 10]);
        assert_eq!((report.measured, report.per_second), (40, 40.0));
        assert_eq!((report.most_served, report.least_served), (30, 10));
        assert_eq!(report.fairness, Some(3.0));
        assert_eq!(
            (report.cpu_share, report.cpu_wait_share),
            (Some(0.5), Some(0.1))
        );
        let latency = report.latency_us.unwrap();
        assert!((latency.p50 - 100.0).abs() < 0.2 && latency.max >= latency.p99999);
        assert_eq!(report.saturated, []);
    }

    #[test]
    fn a_connection_without_an_answer_has_no_ratio_and_no_answer_no_latency() {
        let one = report(0, 0, &[], &[3, 0]);
        assert_eq!((one.least_served, one.fairness), (0, None));
        let none = report(0, 0, &[], &[]);
        assert_eq!(none.latency_us, None);
        assert!(none.to_string().contains("\n  no response\n"), "{none}");
    }

    #[test]
    fn a_generator_that_was_the_limit_is_reported_with_a_remedy() {
        let check = |cpu_ms, waited_ms, late_us: &[u64], expected: &[Saturation]| {
            let report = report(cpu_ms, waited_ms, late_us, &[1]);
            assert_eq!(report.saturated, expected);
            let text = report.to_string();
            for why in expected {
                assert!(text.contains(why.remedy()), "{text}");
            }
            assert_eq!(text.contains("saturated"), !expected.is_empty());
        };
        check(949, 0, &[999], &[]);
        check(950, 0, &[], &[Saturation::Busy]);
        check(500, 460, &[], &[Saturation::Starved]);
        check(100, 0, &[1100], &[Saturation::Late]);
        check(960, 100, &[10, 5000], &[Saturation::Busy, Saturation::Late]);
    }

    #[test]
    fn json_has_the_same_figures() {
        let report = report(1000, 0, &[2000], &[2]);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["errors"][0]["kind"], "reset");
        assert_eq!(json["saturated"][0], "busy");
        assert!(json["latency_us"]["p99999"].is_f64());
        assert_eq!(serde_json::from_value::<Report>(json).unwrap(), report);
    }

    #[test]
    fn times_have_few_digits() {
        assert_eq!(
            [0.5, 999.0, 1500.0, 2e6].map(time),
            ["0.5 us", "999.0 us", "1.50 ms", "2.00 s"]
        );
    }
}

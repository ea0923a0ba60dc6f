//! Counts of a simulation or a real run in progress, and the results that follow from them.

use std::collections::HashSet;

use crate::latencies::Latencies;
use crate::limit::limit;
use crate::mode::Mode;
use crate::outcome::{Failed, Level, Outcome, Percentile, Tier};
use crate::scenario::Scenario;
use crate::series::{Gauge, Series};
use crate::steady::Steady;
use crate::timeline::Timeline;
use crate::times::Times;
use crate::words::count;

/// The percentiles of latencies that are reported.
const PERCENTILES: [f64; 9] = [0.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0];

/// The cause of a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Call,
    Breaker,
    Refused,
    Shed,
    Timeout,
}

/// The causes in words, in the order of [`Failure`].
const CAUSES: [&str; 5] = [
    "a call failed or took too long",
    "the circuit breaker was open",
    "the queue was full",
    "it waited too long in the queue",
    "the client gave up",
];

/// Counts of a simulation or a real run in progress.
pub(crate) struct Tally {
    pub(crate) attempts: u64,
    /// Number of jobs that the service has accepted.
    pub(crate) accepted: u64,
    /// Number of jobs whose client had given up before they ended.
    pub(crate) wasted: u64,
    /// Number of second calls in place of those that took long.
    pub(crate) hedged: u64,
    requests: u64,
    succeeded: u64,
    failed: [u64; CAUSES.len()],
    /// Clients of which a request has failed.
    clients_failed: HashSet<u64>,
    last_arrival: u64,
    steady: Steady,
    last_end: u64,
    latencies: Latencies,
    /// Times that successful requests waited to be accepted.
    waits: Latencies,
    timeline: Timeline,
    /// Sum of the times in progress of all jobs, in nanoseconds.
    in_progress: f64,
}

impl Tally {
    pub(crate) fn new() -> Tally {
        Tally {
            attempts: 0,
            accepted: 0,
            wasted: 0,
            hedged: 0,
            requests: 0,
            succeeded: 0,
            failed: [0; CAUSES.len()],
            clients_failed: HashSet::new(),
            last_arrival: 0,
            steady: Steady::new(),
            last_end: 0,
            latencies: Latencies::new(),
            waits: Latencies::new(),
            timeline: Timeline::new(),
            in_progress: 0.0,
        }
    }

    pub(crate) fn arrived(&mut self, now: u64) {
        self.requests += 1;
        self.last_arrival = now;
    }

    /// Counts a job that has ended after this time in progress.
    pub(crate) fn ended(&mut self, now: u64, in_progress: u64) {
        self.last_end = now;
        self.in_progress += in_progress as f64;
    }

    pub(crate) fn succeeded(&mut self, now: u64, latency: u64, waited: u64) {
        self.last_end = now;
        self.succeeded += 1;
        self.steady.add(now);
        self.latencies.add(latency);
        self.waits.add(waited);
        self.timeline.add(now, latency);
    }

    pub(crate) fn failed(&mut self, now: u64, client: u64, failure: Failure) {
        self.last_end = now;
        self.clients_failed.insert(client);
        self.failed[failure as usize] += 1;
    }

    /// Returns the end of the last request.
    pub(crate) fn end(&self) -> u64 {
        self.last_end.max(self.last_arrival)
    }

    /// Computes the results, with the times of a request without waiting.
    pub(crate) fn outcome(
        &self,
        scenario: &Scenario,
        mode: Mode,
        series: Series,
        times: Times,
        tiers: Vec<Tier>,
    ) -> Outcome {
        let end = self.end();
        let offered = scenario.arrivals.rate();
        let offered = offered.unwrap_or_else(|| per_second(self.requests, self.last_arrival));
        let (service, bytes_each) = service(scenario, mode);
        let failed = CAUSES.into_iter().zip(self.failed);
        let failed = failed.map(|(cause, requests)| Failed { cause, requests });
        let in_progress = Level::of(&series, Gauge::InProgress, end);
        let all = match (mode, scenario.sync) {
            (Mode::Sync, Some(pool)) => pool.threads,
            _ => in_progress.max,
        };
        let mut outcome = Outcome {
            mode,
            measured: None,
            service,
            requests: self.requests,
            attempts: self.attempts,
            accepted: self.accepted,
            succeeded: self.succeeded,
            failed: failed.filter(|failed| failed.requests > 0).collect(),
            wasted: self.wasted,
            hedged: self.hedged,
            clients: scenario.client.count,
            clients_failed: self.clients_failed.len() as u64,
            seconds: seconds(end),
            offered,
            rate: per_second(self.succeeded, end),
            rate_steady: self.steady.rate().map(|rate| rate.mean),
            rate_deviation: self.steady.rate().map(|rate| rate.deviation),
            percentiles: percentiles(self),
            latency: self.latencies.spread(),
            distribution: self.latencies.distribution(),
            waits: self.waits.distribution(),
            timeline: self.timeline.windows(),
            in_progress,
            waiting: Level::of(&series, Gauge::Waiting, end),
            tiers,
            bytes_each,
            bytes: bytes_each.saturating_mul(all),
            seconds_in_progress: self.in_progress / 1e9 / self.accepted.max(1) as f64,
            service_seconds: times.seconds,
            times,
            demand: 0.0,
            limit: String::new(),
            series,
        };
        outcome.demand = outcome.load() * outcome.service_seconds;
        outcome.limit = limit(scenario, &outcome);
        outcome
    }
}

fn percentiles(tally: &Tally) -> Vec<Percentile> {
    let percentile = |percent| Percentile {
        percent,
        latency: tally.latencies.at(percent),
        wait: tally.waits.at(percent),
    };
    match tally.succeeded {
        0 => Vec::new(),
        _ => PERCENTILES.map(percentile).to_vec(),
    }
}

/// Returns a service in words, and the bytes of each thread or fiber.
fn service(scenario: &Scenario, mode: Mode) -> (String, u64) {
    match (mode, scenario.sync, scenario.fibers) {
        (Mode::Sync, Some(sync), _) => {
            let threads = count(sync.threads, "thread");
            (format!("{}, {threads}", mode.name()), sync.bytes_each)
        }
        (Mode::Async, _, Some(fibers)) => {
            let connections = fibers.connections.map_or(String::new(), |connections| {
                format!(", {}", count(connections, "connection"))
            });
            (format!("{}{connections}", mode.name()), fibers.bytes_each)
        }
        _ => unreachable!("the scenario has a service of this mode"),
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn per_second(count: u64, nanoseconds: u64) -> f64 {
    match nanoseconds {
        0 => 0.0,
        _ => count as f64 / seconds(nanoseconds),
    }
}

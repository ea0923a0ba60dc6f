//! The results of a simulation or of a real run: counts, latencies, and the limit of the service.

use serde::Serialize;

use crate::mode::Mode;
use crate::series::{Gauge, Series};
use crate::timeline::Window;
use crate::times::Times;

/// The results of a simulation.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Kind of the service.
    pub mode: Mode,
    /// The circumstances of a real run; absent if it was simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// The service in words: "sync, 50 threads".
    pub service: String,
    /// Number of requests, without retries.
    pub requests: u64,
    /// Number of attempts.
    pub attempts: u64,
    /// Number of attempts that the service has accepted.
    pub accepted: u64,
    /// Number of requests with a response.
    pub succeeded: u64,
    /// Failed requests by cause; causes without one are absent.
    pub failed: Vec<Failed>,
    /// Number of responses for which no client waited any more.
    pub wasted: u64,
    /// Number of second calls in place of those that took long.
    pub hedged: u64,
    /// Number of clients.
    pub clients: u64,
    /// Number of clients of which a request has failed.
    pub clients_failed: u64,
    /// Seconds from the beginning to the end of the last request.
    pub seconds: f64,
    /// Requests per second that arrive.
    pub offered: f64,
    /// Successes per second until the end of the last request.
    pub rate: f64,
    /// Successes per second without the first two and the last two seconds in which requests
    /// succeed; absent if too few are left.
    pub rate_steady: Option<f64>,
    /// Standard deviation of the successes in each of these seconds.
    pub rate_deviation: Option<f64>,
    /// Latencies of successful requests; empty if there is none.
    pub percentiles: Vec<Percentile>,
    /// Mean and standard deviation of these latencies in seconds; absent if there is none.
    pub latency: Option<Spread>,
    /// Percent and latency, in steps that a curve needs.
    #[serde(skip)]
    pub(crate) distribution: Vec<(f64, f64)>,
    /// Percent and wait to be accepted, in the same steps.
    #[serde(skip)]
    pub(crate) waits: Vec<(f64, f64)>,
    /// Percentiles of latencies over time.
    #[serde(skip)]
    pub(crate) timeline: Vec<Window>,
    /// Number of requests in progress, and so of threads or fibers in use.
    pub in_progress: Level,
    /// Number of requests that wait to be accepted.
    pub waiting: Level,
    /// The services that it calls, and those that they call.
    pub tiers: Vec<Tier>,
    /// Bytes of each thread or fiber; 0 in a real run, which does not measure them.
    pub bytes_each: u64,
    /// Bytes of the threads of the pool, whether they are in use or not, or of the most fibers at
    /// the same time; 0 in a real run.
    pub bytes: u64,
    /// Mean seconds that an accepted request was in progress.
    pub seconds_in_progress: f64,
    /// Seconds that a request takes without waiting, outside of spikes.
    pub service_seconds: f64,
    /// The same by its calls.
    #[serde(skip)]
    pub(crate) times: Times,
    /// Number of requests in progress that the load needs by Little's law, retries included.
    pub demand: f64,
    /// The limit of the service, in a sentence.
    pub limit: String,
    /// Counts and levels over time.
    pub series: Series,
}

/// The circumstances of a real run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Driver of the service.
    pub driver: String,
    /// Number by which all times were divided. Results are in times of the scenario: they are
    /// multiplied by it.
    pub scale: f64,
}

/// Number of requests that failed for one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// The cause in words.
    pub cause: &'static str,
    /// Number of requests.
    pub requests: u64,
}

/// A percentile of successful requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentile {
    /// The share of the requests in percent.
    pub percent: f64,
    /// Seconds from the first attempt to the response.
    pub latency: f64,
    /// Seconds that the successful attempt waited to be accepted.
    pub wait: f64,
}

/// A mean, and the standard deviation from it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub deviation: f64,
}

/// A number that changed over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Level {
    /// The mean over the whole time.
    pub mean: f64,
    /// The maximum.
    pub max: u64,
}

/// A service that others call.
#[derive(Clone, Debug, Serialize)]
pub struct Tier {
    /// The names of the dependencies that lead to it, with slashes in between.
    pub name: String,
    /// Number of calls in progress, on all its servers.
    pub in_progress: Level,
    /// Number of calls that wait to be accepted.
    pub waiting: Level,
    /// Number of responses for which no caller waited any more.
    pub wasted: u64,
}

impl Level {
    pub(crate) fn of(series: &Series, gauge: Gauge, end: u64) -> Level {
        Level {
            mean: series.mean(gauge, end),
            max: series.max(gauge),
        }
    }
}

impl Outcome {
    /// Returns the share of requests with a response.
    #[must_use]
    pub fn success(&self) -> f64 {
        self.succeeded as f64 / self.requests.max(1) as f64
    }

    /// Returns a percentile that is reported; `None` if no request has succeeded.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Option<Percentile> {
        let mut known = self.percentiles.iter();
        known.find(|known| known.percent == percent).copied()
    }

    /// Returns the number of attempts per second: the offered requests and their retries.
    pub(crate) fn load(&self) -> f64 {
        self.offered * self.attempts as f64 / self.requests.max(1) as f64
    }
}

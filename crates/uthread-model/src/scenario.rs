//! A scenario: which requests arrive when, what the service and its dependencies do, and what
//! protects them.
//!
//! The command line describes a small one, and a TOML file any.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use serde::Deserialize;

use crate::latency::Latency;
use crate::mode::Mode;
use crate::values::{
    count, duration, positive_duration, share, some_budget, some_count, some_duration,
    some_positive_duration, some_rate, some_share,
};

/// Maximum number of requests: a simulation of as many takes some minutes.
pub(crate) const REQUESTS_MAX: u64 = 1_000_000_000;
/// Maximum number of threads, connections or calls: more than any machine has.
pub(crate) const CONCURRENCY_MAX: u64 = 1_000_000_000;
/// Maximum number of CPUs.
const CPUS_MAX: u64 = 1_000_000;
/// Maximum number of servers of a dependency in a line of its list.
const ENDPOINTS_MAX: u64 = 10_000;
/// Maximum number of clients: each has a flag.
const CLIENTS_MAX: u64 = 1_000_000;
/// Maximum number of retries of a request. Clients give up long before.
const RETRIES_MAX: u64 = 100;
/// Maximum memory of a thread or fiber: 1 TiB.
const BYTES_MAX: u64 = 1 << 40;

/// A call that takes as long has failed, unless the scenario says otherwise.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// A thread with a stack of which two pages are in use, and the kernel's part of it.
const THREAD_BYTES: u64 = 24 * 1024;
/// A fiber that waits: a page of its stack and its control block.
const FIBER_BYTES: u64 = 4400;

/// Everything that a simulation needs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Title of the results.
    #[serde(default)]
    pub(crate) name: String,
    /// Purpose of the scenario, in a sentence.
    #[serde(default)]
    pub(crate) about: String,
    /// Number of requests, without retries.
    #[serde(deserialize_with = "count::<_, 1, REQUESTS_MAX>")]
    pub(crate) requests: u64,
    /// Seed of everything random.
    #[serde(default)]
    pub(crate) seed: u64,
    pub(crate) arrivals: Arrivals,
    /// Dependencies that each request calls one after the other.
    #[serde(default)]
    pub(crate) dependencies: Vec<Dependency>,
    #[serde(default)]
    pub(crate) service: Service,
    pub(crate) sync: Option<Threads>,
    #[serde(rename = "async")]
    pub(crate) fibers: Option<Fibers>,
    #[serde(default)]
    pub(crate) client: Client,
}

/// The times at which requests arrive.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "ArrivalsKeys")]
pub(crate) enum Arrivals {
    /// Every 10 ms, as many as have accumulated at this rate per second.
    LeakyBucket { rate: f64 },
    /// At random and independent of each other, at this mean rate per second.
    Poisson { rate: f64 },
    /// `size` at the same time, once in `every`, and at random with this mean rate per second in
    /// between.
    Bursts {
        rate: Option<f64>,
        size: u64,
        every: Duration,
    },
    /// At recorded times: a file with one time per line, in ascending seconds.
    Trace { file: PathBuf },
}

/// The keys of all kinds of arrivals. An enum with a tag would lose the lines of its values.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ArrivalsKeys {
    kind: ArrivalsKind,
    #[serde(default, deserialize_with = "some_rate")]
    rate: Option<f64>,
    #[serde(default, deserialize_with = "some_count::<_, 1, REQUESTS_MAX>")]
    size: Option<u64>,
    #[serde(default, deserialize_with = "some_positive_duration")]
    every: Option<Duration>,
    file: Option<PathBuf>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ArrivalsKind {
    LeakyBucket,
    Poisson,
    Bursts,
    Trace,
}

/// A service that requests call.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dependency {
    #[serde(default = "dependency_name")]
    pub(crate) name: String,
    /// Time that a call takes.
    pub(crate) latency: Option<Latency>,
    /// A service that answers the calls, in place of a latency.
    pub(crate) tier: Option<Tier>,
    /// A call that takes as long has failed, after this time.
    #[serde(default = "call_timeout", deserialize_with = "positive_duration")]
    pub(crate) timeout: Duration,
    /// Share of calls that fail, after their latency. A tier has failures of its own.
    #[serde(default, deserialize_with = "share")]
    pub(crate) failures: f64,
    /// Maximum number of calls in progress; others wait for one to end. Absent: no bound.
    #[serde(default, deserialize_with = "some_count::<_, 1, CONCURRENCY_MAX>")]
    pub(crate) concurrent: Option<u64>,
    /// Times in which it is slower than usual, or down. The first one that affects a call counts.
    #[serde(default)]
    pub(crate) spikes: Vec<Spike>,
    /// One for each server.
    pub(crate) breaker: Option<Breaker>,
    /// Its servers, each of which has the values above, or its own. A call goes to the one with fewer
    /// calls of two at random whose breakers are closed. Absent: there is one.
    #[serde(default)]
    pub(crate) endpoints: Vec<Endpoint>,
    /// Number of servers that belong to each client: shuffle sharding. Absent: all do.
    #[serde(default, deserialize_with = "some_count::<_, 1, ENDPOINTS_MAX>")]
    pub(crate) shard: Option<u64>,
    pub(crate) hedge: Option<Hedge>,
}

/// A service that others call: it has threads, a queue and dependencies of its own, by the same keys
/// as the service that clients call. A caller that gives up leaves its call behind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Tier {
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) service: Service,
    /// Absent: it has as many threads as it needs.
    pub(crate) sync: Option<Threads>,
    #[serde(rename = "async")]
    pub(crate) fibers: Option<Fibers>,
}

/// What a service is made of.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(crate) dependencies: &'a [Dependency],
    pub(crate) service: &'a Service,
    sync: Option<Threads>,
    fibers: Option<Fibers>,
}

/// Servers of a dependency. Absent values are those of the dependency.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Endpoint {
    /// Number of servers like this.
    #[serde(deserialize_with = "count::<_, 1, ENDPOINTS_MAX>")]
    pub(crate) count: u64,
    pub(crate) latency: Option<Latency>,
    #[serde(deserialize_with = "some_share")]
    pub(crate) failures: Option<f64>,
    pub(crate) spikes: Option<Vec<Spike>>,
}

/// A second call in place of one that takes long. The first result counts, and the other call is
/// cancelled.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hedge {
    /// Time after which the second call begins.
    #[serde(deserialize_with = "duration")]
    pub(crate) after: Duration,
    /// Number of second calls per first call. Absent: no bound.
    #[serde(default, deserialize_with = "some_budget")]
    pub(crate) budget: Option<f64>,
}

/// A time in which a dependency is slow or down.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spike {
    #[serde(default, deserialize_with = "duration")]
    pub(crate) from: Duration,
    /// Absent: until the end.
    #[serde(default, deserialize_with = "some_duration")]
    pub(crate) lasts: Option<Duration>,
    /// Share of the calls in this time that it affects.
    #[serde(default = "all", deserialize_with = "share")]
    pub(crate) share: f64,
    /// Time that these calls take. Absent: the dependency is down, and they fail at once.
    pub(crate) latency: Option<Latency>,
}

/// A circuit breaker, which stops the calls of a server for a while after it has failed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Breaker {
    /// Number of failed calls in a row after which it opens. While it is open, calls fail at once.
    #[serde(deserialize_with = "count::<_, 1, REQUESTS_MAX>")]
    pub(crate) failures: u64,
    /// After this time it lets one call pass, and closes if that succeeds.
    #[serde(deserialize_with = "duration")]
    pub(crate) open: Duration,
}

/// The work and the limits of a service, whether with threads or with fibers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Service {
    /// CPU time of a request, before its first call.
    #[serde(deserialize_with = "duration")]
    pub(crate) work: Duration,
    /// Number of CPUs for this work. Absent: 1.
    #[serde(deserialize_with = "some_count::<_, 1, CPUS_MAX>")]
    pub(crate) cpus: Option<u64>,
    /// Maximum number of requests that wait to be accepted; more are refused. Absent: no bound.
    #[serde(deserialize_with = "some_count::<_, 0, REQUESTS_MAX>")]
    pub(crate) queue: Option<u64>,
    /// A request that has waited longer is refused when its turn comes. Absent: none is.
    #[serde(deserialize_with = "some_duration")]
    pub(crate) shed_after: Option<Duration>,
}

/// A pool of threads, each of which has one request at a time.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Threads {
    #[serde(deserialize_with = "count::<_, 1, CONCURRENCY_MAX>")]
    pub(crate) threads: u64,
    /// Memory of a thread in use.
    #[serde(
        default = "thread_bytes",
        deserialize_with = "count::<_, 0, BYTES_MAX>"
    )]
    pub(crate) bytes_each: u64,
    /// Time for which each request has the task queue of the pool alone. Absent: none.
    #[serde(default, deserialize_with = "duration")]
    pub(crate) queue_cost: Duration,
}

/// A fiber for each request in progress.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fibers {
    /// Maximum number of requests in progress. Absent: no bound.
    #[serde(default, deserialize_with = "some_count::<_, 1, CONCURRENCY_MAX>")]
    pub(crate) connections: Option<u64>,
    /// Memory of a fiber in use.
    #[serde(default = "fiber_bytes", deserialize_with = "count::<_, 0, BYTES_MAX>")]
    pub(crate) bytes_each: u64,
}

/// The number and the patience of clients.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Client {
    /// Number of clients; each request is that of one of them, at random.
    #[serde(deserialize_with = "count::<_, 1, CLIENTS_MAX>")]
    pub(crate) count: u64,
    /// An attempt without a response after this time has failed. The service does not notice.
    /// Absent: clients wait.
    #[serde(deserialize_with = "some_positive_duration")]
    pub(crate) timeout: Option<Duration>,
    /// Maximum number of further attempts.
    #[serde(deserialize_with = "count::<_, 0, RETRIES_MAX>")]
    pub(crate) retries: u64,
    /// Wait before the first retry, doubled for each further one. Half of it is random.
    #[serde(deserialize_with = "duration")]
    pub(crate) backoff: Duration,
    /// Number of retries per first attempt that all clients together may use. Absent: no bound.
    #[serde(deserialize_with = "some_budget")]
    pub(crate) budget: Option<f64>,
}

impl Threads {
    pub(crate) fn new(threads: u64) -> Threads {
        Threads {
            threads,
            bytes_each: THREAD_BYTES,
            queue_cost: Duration::ZERO,
        }
    }
}

impl Dependency {
    /// Describes a dependency with this latency, without failures and policies.
    pub(crate) fn new(latency: Latency) -> Dependency {
        Dependency {
            name: dependency_name(),
            latency: Some(latency),
            tier: None,
            timeout: CALL_TIMEOUT,
            failures: 0.0,
            concurrent: None,
            spikes: Vec::new(),
            breaker: None,
            endpoints: Vec::new(),
            shard: None,
            hedge: None,
        }
    }
}

impl Tier {
    pub(crate) fn parts(&self) -> Parts<'_> {
        Parts {
            dependencies: &self.dependencies,
            service: &self.service,
            sync: self.sync,
            fibers: self.fibers,
        }
    }
}

impl Parts<'_> {
    /// Returns how many requests may be in progress, if there is a bound.
    pub(crate) fn slots(&self, mode: Mode) -> Option<u64> {
        match mode {
            Mode::Sync => self.sync.map(|sync| sync.threads),
            Mode::Async => self.fibers.and_then(|fibers| fibers.connections),
        }
    }

    /// Returns for how long each request has the task queue alone.
    pub(crate) fn queue_cost(&self, mode: Mode) -> Duration {
        let pool = self.sync.filter(|_| mode == Mode::Sync);
        pool.map_or(Duration::ZERO, |pool| pool.queue_cost)
    }
}

impl Default for Endpoint {
    fn default() -> Endpoint {
        Endpoint {
            count: 1,
            latency: None,
            failures: None,
            spikes: None,
        }
    }
}

impl Default for Client {
    fn default() -> Client {
        Client {
            count: 1,
            timeout: None,
            retries: 0,
            backoff: Duration::ZERO,
            budget: None,
        }
    }
}

impl Default for Fibers {
    fn default() -> Fibers {
        Fibers {
            connections: None,
            bytes_each: FIBER_BYTES,
        }
    }
}

impl Scenario {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The errors of reading the file, and those of [`parse`](Scenario::parse).
    pub fn read(path: &Path) -> anyhow::Result<Scenario> {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        Scenario::parse(&text).with_context(|| path.display().to_string())
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    ///
    /// The text is no TOML, has an unknown key or a value out of its range, or describes no
    /// service. The message has the line.
    ///
    /// ```
    /// let error = uthread_model::Scenario::parse("requests = 0").unwrap_err();
    /// let expected = "line 1: 0 is not from 1 to 1000000000, in `requests = 0`";
    /// assert_eq!(error.to_string(), expected);
    /// ```
    pub fn parse(text: &str) -> anyhow::Result<Scenario> {
        let scenario: Scenario = toml::from_str(text).map_err(|error| at_line(text, &error))?;
        ensure!(
            scenario.sync.is_some() || scenario.fibers.is_some(),
            "there is no service: add `sync = {{ threads = 50 }}`, `async = {{}}`, or both"
        );
        check(&scenario.dependencies)?;
        Ok(scenario)
    }

    /// Returns `true` if it has a service of this mode.
    pub(crate) fn has(&self, mode: Mode) -> bool {
        match mode {
            Mode::Sync => self.sync.is_some(),
            Mode::Async => self.fibers.is_some(),
        }
    }

    pub(crate) fn parts(&self) -> Parts<'_> {
        Parts {
            dependencies: &self.dependencies,
            service: &self.service,
            sync: self.sync,
            fibers: self.fibers,
        }
    }
}

/// Checks that dependencies, and those of tiers, have a latency or are tiers.
fn check(dependencies: &[Dependency]) -> anyhow::Result<()> {
    for Dependency {
        name,
        latency,
        tier,
        failures,
        ..
    } in dependencies
    {
        match (latency, tier) {
            (Some(_), None) => {}
            (None, Some(tier)) if *failures == 0.0 => check(&tier.dependencies)?,
            (None, Some(_)) => bail!("the dependency {name:?} is a tier, which has no `failures`"),
            _ => bail!("the dependency {name:?} needs either a `latency` or a `tier`"),
        }
    }
    Ok(())
}

fn at_line(text: &str, error: &toml::de::Error) -> anyhow::Error {
    let message = error.message().trim().replace('\n', "; ");
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let before = &text.as_bytes()[..start];
    let index = before.iter().filter(|byte| **byte == b'\n').count();
    let line = text.lines().nth(index).unwrap_or_default().trim();
    anyhow!("line {}: {message}, in `{line}`", index + 1)
}

impl TryFrom<ArrivalsKeys> for Arrivals {
    type Error = &'static str;

    fn try_from(keys: ArrivalsKeys) -> Result<Arrivals, &'static str> {
        let ArrivalsKeys {
            kind,
            rate,
            size,
            every,
            file,
        } = keys;
        Ok(match (kind, rate, size, every, file) {
            (ArrivalsKind::LeakyBucket, Some(rate), None, None, None) => {
                Arrivals::LeakyBucket { rate }
            }
            (ArrivalsKind::Poisson, Some(rate), None, None, None) => Arrivals::Poisson { rate },
            (ArrivalsKind::Bursts, rate, Some(size), Some(every), None) => {
                Arrivals::Bursts { rate, size, every }
            }
            (ArrivalsKind::Trace, None, None, None, Some(file)) => Arrivals::Trace { file },
            (ArrivalsKind::LeakyBucket, ..) => return Err("a leaky bucket has `rate` only"),
            (ArrivalsKind::Poisson, ..) => return Err("poisson arrivals have `rate` only"),
            (ArrivalsKind::Bursts, ..) => {
                return Err(
                    "bursts have `size` and `every`, and `rate` if requests arrive in between",
                );
            }
            (ArrivalsKind::Trace, ..) => return Err("a trace has `file` only"),
        })
    }
}

impl Arrivals {
    /// Returns the mean rate per second, if it is known.
    pub(crate) fn rate(&self) -> Option<f64> {
        match self {
            Arrivals::LeakyBucket { rate } | Arrivals::Poisson { rate } => Some(*rate),
            Arrivals::Bursts { rate, size, every } => {
                Some(rate.unwrap_or(0.0) + *size as f64 / every.as_secs_f64())
            }
            Arrivals::Trace { .. } => None,
        }
    }
}

fn all() -> f64 {
    1.0
}

fn dependency_name() -> String {
    "dependency".to_owned()
}

fn call_timeout() -> Duration {
    CALL_TIMEOUT
}

fn thread_bytes() -> u64 {
    THREAD_BYTES
}

fn fiber_bytes() -> u64 {
    FIBER_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, expected: &[&str]) {
        let error = Scenario::parse(text).unwrap_err().to_string();
        for expected in expected {
            assert!(error.contains(expected), "{text:?}: {error}");
        }
        assert_eq!(error.lines().count(), 1, "{error}");
    }

    #[test]
    fn wrong_scenarios_are_refused_with_line_and_key() {
        let rest = "\narrivals = { kind = \"poisson\", rate = 10 }\nsync = { threads = 1 }\n";
        let check = |lines: &str, expected: &[&str]| refused(&format!("{lines}{rest}"), expected);
        let unknown = ["line 2", "unknown field `retries`", "expected one of"];
        check("requests = 10\nretries = 3", &unknown);
        let text =
            "line 1: invalid type: string \"x\", expected a whole number from 1 to 1000000000, in";
        check("requests = \"x\"", &[text]);
        check("requests = -1", &["line 1: -1 is not from 1 to 1000000000"]);
        let number = [
            "line 2",
            "integer `5`, expected a duration such as",
            "timeout = 5",
        ];
        check("requests = 1\nclient = { timeout = 5 }", &number);
        let text = ["line 2", "string \"x\", expected a number from 0 to 1000"];
        check("requests = 1\nclient = { budget = \"x\" }", &text);
        let fraction = ["floating point `1.5`, expected a whole number from 0 to 100"];
        check("requests = 1\nclient = { retries = 1.5 }", &fraction);
        check("seed = 1", &["missing field `requests`"]);
        let soon = ["line 2: \"soon\" is no duration", "timeout = "];
        check("requests = 1\nclient = { timeout = \"soon\" }", &soon);
        let cpus = ["line 3: 0 is not from 1 to", "cpus = 0"];
        check("requests = 1\n\nservice = { cpus = 0 }", &cpus);
        let depend = |keys: &str| format!("requests = 1\ndependencies = [\n{{ {keys} }}]");
        let failures = ["line 3: 2 is not from 0 to 1", "failures = 2"];
        check(&depend("latency = \"1ms\", failures = 2"), &failures);
        check(
            &depend("latency = \"1 x\""),
            &["line 3: \"1 x\" is no duration"],
        );
        let zero = depend("latency = \"1ms\", timeout = \"0s\"");
        check(&zero, &["line 3: the duration must be longer than zero"]);
        for keys in ["name = \"x\"", "latency = \"1ms\", tier = {}"] {
            check(&depend(keys), &["needs either a `latency` or a `tier`"]);
        }
        let nested = "tier = { dependencies = [{ tier = {}, failures = 0.1 }] }";
        check(&depend(nested), &["is a tier, which has no `failures`"]);
        refused("requests = ", &["line 1"]);
        let service = "requests = 1\narrivals = { kind = \"poisson\", rate = 1 }";
        refused(service, &["sync = { threads"]);
    }

    #[test]
    fn arrivals_have_the_keys_of_their_kind() {
        let check = |keys: &str, expected: &[&str]| {
            refused(&format!("requests = 1\n[arrivals]\n{keys}"), expected);
        };
        check("kind = \"x\"", &["line 3", "`x`", "`leaky-bucket`"]);
        check(
            "kind = \"poisson\"\nrate = 0",
            &["line 4: 0 is not from 0.001"],
        );
        check("kind = \"poisson\"\nrates = 1", &["line 4: unknown field"]);
        let lines = [
            ("poisson\"\nsize = 2", "poisson arrivals have `rate` only"),
            ("leaky-bucket\"", "a leaky bucket has `rate` only"),
            ("bursts\"\nrate = 1", "bursts have `size` and `every`"),
            ("trace\"\nrate = 1", "a trace has `file` only"),
        ];
        for (keys, expected) in lines {
            check(&format!("kind = \"{keys}"), &["line 2: ", expected]);
        }
        let bursts = "requests = 1
            arrivals = { kind = \"bursts\", size = 20, every = \"2s\" }
            async = {}";
        assert_eq!(Scenario::parse(bursts).unwrap().arrivals.rate(), Some(10.0));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let error = Scenario::read(Path::new("missing.toml")).unwrap_err();
        assert!(
            format!("{error:#}").contains("read missing.toml"),
            "{error:#}"
        );
    }
}

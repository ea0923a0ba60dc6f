//! Loads a server by `uthread-load`, in a process of its own, on its own CPUs.
//!
//! The process works in steps, so that a study can start counting when all connections are open,
//! and read the memory of a server while they still are:
//!
//! ```text
//!   stdout  connected            every connection is open, and has been answered once
//!   stdin   a line               start the load
//!   stdout  a report, as JSON    the last answer has arrived
//!   stdin   its end              close the connections
//! ```
//!
//! If a step fails, `failed: REASON` takes the place of its line.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use uthread::Driver;
use uthread_load::{Crowd, Pattern, Percentiles, Plan, Report, Target};
use uthread_report::say;

use crate::h2load;
use crate::servers::{pinned, pinned_in_real_time};
use crate::setup::own_path;

/// Seconds of load before a measurement, long enough that a garbage collector knows its heap.
pub(crate) const WARM_UP_SECONDS: u64 = 1;

/// Mean answers per connection needed to compare connections. With fewer, the end of the run
/// decides most of the difference.
const ANSWERS_TO_COMPARE: u64 = 30;

const CONNECTED: &str = "connected";
const FAILED: &str = "failed: ";
/// Size of a message, as in the paper with the first study of this kind.
const MESSAGE_BYTES: usize = 16;

/// A load. It is passed to the process as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Load {
    pub(crate) connections: u32,
    /// Seconds of load before the measurement.
    pub(crate) warm_up_seconds: u64,
    pub(crate) seconds: u64,
    /// Messages per second over all connections, as an open loop; `None` for a closed loop.
    pub(crate) rate: Option<u64>,
    /// Never sleep: for a load with a CPU of its own, whose wake-ups must not show in the figures.
    pub(crate) spin: bool,
    /// Use the driver `threads`, whose blocking calls wake up without a ring or epoll in between.
    pub(crate) has_threads: bool,
    /// Run before the other processes of its CPUs, by [`pinned_in_real_time`].
    pub(crate) real_time: bool,
    /// Request this file over HTTP instead of sending messages: its name at the root, and a path to
    /// the expected body.
    pub(crate) get: Option<(String, PathBuf)>,
    /// Request it over HTTP/2 by this program.
    pub(crate) h2load: Option<PathBuf>,
}

impl FromStr for Load {
    type Err = serde_json::Error;

    fn from_str(json: &str) -> Result<Load, serde_json::Error> {
        serde_json::from_str(json)
    }
}

/// Runs the process of a load, which [`Load::start`] talks to.
pub(crate) fn run(address: SocketAddr, load: &Load) -> Result<()> {
    if let Err(error) = serve(address, load) {
        say!("{FAILED}{error:#}");
    }
    Ok(())
}

fn serve(address: SocketAddr, load: &Load) -> Result<()> {
    if let (Some(program), Some((path, _))) = (&load.h2load, &load.get) {
        return step(|| h2load::run(program, address, path, load.connections, load.seconds));
    }
    let mut crowd = Crowd::connect(&load.plan(address)?)?;
    let connected = crowd.connected();
    if connected < u64::from(load.connections) {
        bail!(
            "{connected} connections are open: {}",
            failures(&crowd.run()?)
        );
    }
    step(|| Ok(crowd.run()?))
}

/// Loads when it is told to, and returns when it is told to end.
fn step(run: impl FnOnce() -> Result<Report>) -> Result<()> {
    say!("{CONNECTED}");
    let mut stdin = io::stdin().lock();
    if stdin.read_line(&mut String::new())? == 0 {
        return Ok(());
    }
    say!("{}", serde_json::to_string(&run()?)?);
    io::copy(&mut stdin, &mut io::sink())?;
    Ok(())
}

impl Load {
    /// Describes a closed loop: each connection sends as soon as it has been answered.
    pub(crate) fn closed(connections: u32, seconds: u64, spin: bool) -> Load {
        Load {
            connections,
            seconds,
            spin,
            ..Load::default()
        }
    }

    /// Requests a file of this folder over HTTP.
    pub(crate) fn get(self, folder: &Path, name: &str) -> Load {
        Load {
            get: Some((name.to_owned(), folder.join(name))),
            ..self
        }
    }

    /// Opens the connections from a process on these CPUs, and lets the server answer once on each.
    pub(crate) fn start(&self, cpus: &[usize], address: SocketAddr) -> Result<Running> {
        let pin = if self.real_time {
            pinned_in_real_time
        } else {
            pinned
        };
        let mut child = pin(cpus, &own_path()?)
            .args(["load", &address.to_string(), &serde_json::to_string(self)?])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .context("run taskset")?;
        let mut running = Running {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().context("it has no output")?),
            child,
        };
        let line = running.line().context("connect the load")?;
        ensure!(line == CONNECTED, "the load said {line:?}");
        Ok(running)
    }

    fn plan(&self, address: SocketAddr) -> Result<Plan> {
        let target = match &self.get {
            Some((name, body)) => {
                let body = fs::read(body).with_context(|| format!("read {}", body.display()))?;
                Target::http(&format!("http://{address}/{name}"))?.expecting(body)
            }
            None => Target::tcp(&address.to_string(), MESSAGE_BYTES)?,
        };
        let plan = Plan::new(target);
        let open = |per_second| Pattern::Open { per_second };
        let rate = self
            .rate
            .map(|rate| rate.try_into().context("a rate of zero"));
        Ok(Plan {
            connections: (self.connections as usize).try_into()?,
            pattern: rate.transpose()?.map_or(plan.pattern, open),
            duration: Duration::from_secs(self.seconds),
            warm_up: Duration::from_secs(self.warm_up_seconds),
            spin: self.spin,
            driver: self.has_threads.then_some(Driver::Threads),
            ..plan
        })
    }
}

/// A load with open connections, which close when it is dropped.
pub(crate) struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    /// Loads the server. The connections stay open.
    pub(crate) fn run(&mut self) -> Result<Report> {
        let stdin = self.stdin.as_mut().context("the load has ended")?;
        stdin.write_all(b"run\n").context("start the load")?;
        let line = self.line().context("run the load")?;
        let report = serde_json::from_str(&line).context("read the report of the load")?;
        check(&report)?;
        Ok(report)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        match line.trim_end().strip_prefix(FAILED) {
            Some(why) => bail!("{why}"),
            None if line.is_empty() => bail!("the load has ended"),
            None => Ok(line.trim_end().to_owned()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stdin = None;
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.wait();
        }
    }
}

/// Fails if a request failed: the rate would be one of errors.
fn check(report: &Report) -> Result<()> {
    ensure!(report.errors.is_empty(), "{}", failures(report));
    let unanswered = report.unanswered;
    ensure!(unanswered == 0, "{unanswered} messages were not answered");
    ensure!(report.latency_us.is_some(), "nothing was answered in time");
    Ok(())
}

/// Returns the latencies of a report that was checked.
pub(crate) fn latency(report: &Report) -> Percentiles {
    report.latency_us.expect("the report has latencies")
}

/// Returns the answers on the most served connection divided by those on the least served one;
/// `NAN` with too few answers to tell. A connection without an answer counts as one with one
/// answer.
pub(crate) fn fairness(report: &Report) -> f64 {
    if report.measured < ANSWERS_TO_COMPARE * report.connections {
        f64::NAN
    } else {
        report.fairness.unwrap_or(report.most_served as f64)
    }
}

fn failures(report: &Report) -> String {
    let errors = report.errors.iter();
    let words = errors.map(|error| format!("{} {}: {}", error.count, error.kind, error.example));
    words.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_requests_fail_the_study() {
        let json = r#"{ "target": "", "connections": 10, "connected": 1, "workers": 1, "driver": "uring", "pipelining": 1,
            "rate": null, "seconds": 1.0, "interrupted": false, "answered": 3, "measured": 300, "per_second": 2.0,
            "latency_us": { "mean": 1, "p50": 2, "p90": 3, "p99": 4, "p999": 5, "p9999": 6, "p99999": 7, "max": 8 },
            "most_served": 40, "least_served": 20, "fairness": 2.0, "unanswered": 0, "reconnects": 0, "errors": [],
            "cpu_share": 0.2, "cpu_wait_share": 0.0, "late_us": null, "saturated": ["busy"] }"#;
        let parse = |from: &str, to: &str| -> Report {
            serde_json::from_str(&json.replace(from, to)).unwrap()
        };
        check(&parse("", "")).unwrap();
        assert_eq!(fairness(&parse("", "")), 2.0);
        assert_eq!(
            fairness(&parse(r#""fairness": 2.0"#, r#""fairness": null"#)),
            40.0
        );
        assert!(fairness(&parse("300", "299")).is_nan());
        let check = |from, to, reason: &str| {
            let error = check(&parse(from, to)).unwrap_err().to_string();
            assert!(error.contains(reason), "{error:?} does not say {reason:?}");
        };
        check(r#""unanswered": 0"#, r#""unanswered": 2"#, "2 messages");
        check(
            r#""latency_us": {"#,
            r#""latency_us": null, "x": {"#,
            "nothing was answered",
        );
        let errors = r#""errors": [{ "kind": "reset", "count": 4, "example": "receive: x" }]"#;
        check(r#""errors": []"#, errors, "4 reset: receive: x");
    }
}

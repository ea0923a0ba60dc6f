//! The load on a server, by `uthread-load`, in a process of its own, on its own CPUs.
//!
//! Two steps, so that a study can begin to count when all connections are open, and read the memory of a server while they
//! still are. Of the process:
//!
//! ```text
//!   stdout  connected            every connection is open, and has been answered once
//!   stdin   a line               begin
//!   stdout  a report, as JSON    the last answer has come
//!   stdin   its end              close the connections
//! ```
//!
//! Where something fails, `failed: why` takes the place of a line.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use uthread_load::{Crowd, Pattern, Plan, Saturation, Target};

use crate::say::say;
use crate::servers::pinned;

/// Long enough that a garbage collector knows its heap.
pub(crate) const WARM_UP_SECONDS: u64 = 1;

/// Of each connection, on the average: with fewer, which ones the end cuts off is most of how they differ.
const ANSWERS_TO_COMPARE: u64 = 30;

const CONNECTED: &str = "connected";
const FAILED: &str = "failed: ";
/// Of a message, as in the paper that had the first such study.
const MESSAGE_BYTES: usize = 16;

#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
// Its group would have the name of the subcommand's.
#[group(skip)]
pub(crate) struct Load {
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: u32,
    /// Seconds of load before what is measured
    #[arg(long)]
    pub(crate) warm_up_seconds: u64,
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: u64,
    /// Messages per second over all connections, as an open loop [default: a closed loop]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rate: Option<u64>,
    /// Never sleep: for a load with a CPU of its own, of whose waking up the figures should not tell
    #[arg(long)]
    pub(crate) spin: bool,
    /// Request this file over HTTP, by its name at the root [default: messages that come back]
    #[arg(long, requires = "body")]
    pub(crate) get: Option<String>,
    /// What every answer to the request has to be
    #[arg(long, requires = "get")]
    pub(crate) body: Option<PathBuf>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Report {
    /// All messages from the start of the run on, also those of the warm-up, as the server's CPU time is divided by it.
    /// All else is of the measured time.
    pub(crate) answered: u64,
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p90_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) p9999_us: f64,
    pub(crate) max_us: f64,
    /// Answers on the connection that got the most, to those on the one that got the least; `NAN` where these are too few
    /// to tell.
    pub(crate) fairness: f64,
    /// Of its CPUs, how much it needed itself.
    pub(crate) busy_share: Option<f64>,
    /// Why it was the load that limited the figures, if it was.
    pub(crate) saturated: Vec<Saturation>,
}

/// What the process of a load does, for [`Load::start`] to talk to.
pub(crate) fn run(address: SocketAddr, load: &Load) -> Result<()> {
    if let Err(error) = serve(address, load) {
        say!("{FAILED}{error:#}");
    }
    Ok(())
}

fn serve(address: SocketAddr, load: &Load) -> Result<()> {
    let mut crowd = Crowd::connect(&load.plan(address)?)?;
    let connected = crowd.connected();
    if connected < u64::from(load.connections) {
        bail!(
            "{connected} connections are open: {}",
            failures(&crowd.run()?)
        );
    }
    say!("{CONNECTED}");
    let mut stdin = io::stdin().lock();
    if stdin.read_line(&mut String::new())? == 0 {
        return Ok(());
    }
    say!("{}", serde_json::to_string(&crowd.run()?)?);
    io::copy(&mut stdin, &mut io::sink())?;
    Ok(())
}

impl Load {
    /// On one connection, each of whose messages follows an answer.
    pub(crate) fn closed(seconds: u64, spin: bool) -> Load {
        Load {
            connections: 1,
            seconds,
            spin,
            ..Load::default()
        }
    }

    pub(crate) fn with_connections(&self, connections: u32) -> Load {
        Load {
            connections,
            ..self.clone()
        }
    }

    /// Over HTTP, for a file by its name.
    pub(crate) fn get(self, name: &str, body: &Path) -> Load {
        Load {
            get: Some(name.to_owned()),
            body: Some(body.to_owned()),
            ..self
        }
    }

    /// Opens the connections from a process on these CPUs, and has the server answer once on each.
    pub(crate) fn start(&self, cpus: &[usize], address: SocketAddr) -> Result<Running> {
        let own = env::current_exe().context("find this program's own path")?;
        let mut child = pinned(cpus, &own)
            .args(["load", &address.to_string()])
            .args(self.to_arguments()?)
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
        let target = match (&self.get, &self.body) {
            (Some(name), Some(body)) => {
                let body = fs::read(body).with_context(|| format!("read {}", body.display()))?;
                Target::http(&format!("http://{address}/{name}"))?.expecting(body)
            }
            _ => Target::tcp(&address.to_string(), MESSAGE_BYTES)?,
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
            ..plan
        })
    }

    fn to_arguments(&self) -> Result<Vec<String>> {
        let mut arguments = vec![
            format!("--connections={}", self.connections),
            format!("--warm-up-seconds={}", self.warm_up_seconds),
            format!("--seconds={}", self.seconds),
        ];
        arguments.extend(self.rate.map(|rate| format!("--rate={rate}")));
        arguments.extend(self.spin.then(|| "--spin".to_owned()));
        arguments.extend(self.get.as_ref().map(|name| format!("--get={name}")));
        if let Some(body) = &self.body {
            let path = body.to_str().context("the name of a file is not text")?;
            arguments.push(format!("--body={path}"));
        }
        Ok(arguments)
    }
}

/// A load whose connections are open; they end with it.
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
        summarise(&report)
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

/// A request that failed fails the study: its rate would be of errors.
fn summarise(report: &uthread_load::Report) -> Result<Report> {
    ensure!(report.errors.is_empty(), "{}", failures(report));
    ensure!(
        report.unanswered == 0,
        "{} messages were not answered",
        report.unanswered
    );
    let latency = report.latency_us.context("nothing was answered in time")?;
    Ok(Report {
        answered: report.answered,
        per_second: report.per_second,
        p50_us: latency.p50,
        p90_us: latency.p90,
        p99_us: latency.p99,
        p999_us: latency.p999,
        p9999_us: latency.p9999,
        max_us: latency.max,
        fairness: fairness(report),
        busy_share: report.cpu_share,
        saturated: report.saturated.clone(),
    })
}

/// One that got nothing counts as if it had got one answer.
fn fairness(report: &uthread_load::Report) -> f64 {
    if report.measured < ANSWERS_TO_COMPARE * report.connections {
        return f64::NAN;
    }
    report.fairness.unwrap_or(report.most_served as f64)
}

fn failures(report: &uthread_load::Report) -> String {
    let words = report
        .errors
        .iter()
        .map(|error| format!("{} {}: {}", error.count, error.kind, error.example));
    words.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        load: Load,
    }

    #[test]
    fn a_process_of_its_own_gets_the_same_load() {
        let closed = Load {
            connections: 500,
            seconds: 3,
            ..Load::default()
        };
        let open = Load {
            rate: Some(12_345),
            spin: true,
            ..closed.clone()
        };
        let get = Load {
            get: Some("1KiB".to_owned()),
            body: Some(PathBuf::from("a folder/1KiB")),
            ..closed.clone()
        };
        for load in [closed, open, get] {
            let arguments = load.to_arguments().unwrap();
            let parsed = Program::parse_from(["load".to_owned()].into_iter().chain(arguments));
            assert_eq!(parsed.load, load);
        }
    }

    #[test]
    fn what_failed_fails_the_study() {
        let json = r#"{ "target": "", "connections": 1, "connected": 1, "workers": 1, "driver": "uring", "pipelining": 1,
            "rate": null, "seconds": 1.0, "interrupted": false, "answered": 3, "measured": 2, "per_second": 2.0,
            "latency_us": { "mean": 1, "p50": 2, "p90": 3, "p99": 4, "p999": 5, "p9999": 6, "max": 7 },
            "most_served": 2, "least_served": 2, "fairness": 1.0, "unanswered": 0, "reconnects": 0, "errors": [],
            "cpu_share": 0.2, "cpu_wait_share": 0.0, "late_us": null, "saturated": ["busy"] }"#;
        let good: uthread_load::Report = serde_json::from_str(json).unwrap();
        let report = summarise(&good).unwrap();
        assert_eq!(
            (report.answered, report.p999_us, report.max_us),
            (3, 5.0, 7.0)
        );
        assert_eq!(report.saturated, [Saturation::Busy]);
        let fairness_of = |measured, least_served: u64| {
            let changed = uthread_load::Report {
                connections: 10,
                measured,
                most_served: 40,
                least_served,
                fairness: (least_served > 0).then(|| 40.0 / least_served as f64),
                ..good.clone()
            };
            summarise(&changed).unwrap().fairness
        };
        assert_eq!(fairness_of(300, 20), 2.0);
        assert_eq!(fairness_of(300, 0), 40.0);
        assert!(fairness_of(299, 20).is_nan());
        let check = |change: fn(&mut uthread_load::Report), reason: &str| {
            let mut bad = good.clone();
            change(&mut bad);
            let error = summarise(&bad).unwrap_err().to_string();
            assert!(error.contains(reason), "{error:?} does not say {reason:?}");
        };
        check(|bad| bad.unanswered = 2, "2 messages");
        check(|bad| bad.latency_us = None, "nothing was answered");
        check(
            |bad| {
                bad.errors.push(uthread_load::ErrorCount {
                    kind: uthread_load::Kind::Reset,
                    count: 4,
                    example: "receive: x".to_owned(),
                });
            },
            "4 reset: receive: x",
        );
    }
}

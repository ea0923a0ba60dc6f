//! Does our load generator see what others see? The same nginx under `uthread load`, `wrk` and `oha`, in turn.
//!
//! All three are closed loops over as many connections. What differs is what each costs and checks: ours compares every
//! byte, the others count.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::check_served;
use crate::Common;
use crate::files::{Files, Size};
use crate::measure::quiet::Window;
use crate::measure::rounds::{Taken, interleave};
use crate::report::{Metric, Table, write_json};
use crate::say::tell;
use crate::servers::{Peer, Server, pinned};
use crate::setup::{OPEN_FILES_SPARE, Setup, find_program, find_uthread};
use crate::wrk;

/// Small, so that the exchange and not the copy is compared.
const FILE: &str = "1KiB";

const METRICS: &[Metric] = &[
    Metric::new("requests/s", 0),
    Metric::new("p50 us", 1),
    Metric::new("p99 us", 1),
    Metric::new("server CPU us/request", 2),
];

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Rounds; each has every generator load the server once
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// Length of one measurement
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Connections that request without pause
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    connections: u64,
    /// The program `oha` [default: the one in PATH, or in ~/.cargo/bin]
    #[arg(long, value_name = "PATH")]
    oha: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let open_files = 2 * args.connections + OPEN_FILES_SPARE;
    let setup = Setup::prepare(&args.common, &[Peer::Nginx], open_files)?;
    let size: Size = FILE.parse().map_err(anyhow::Error::msg)?;
    let files = Files::create(std::slice::from_ref(&size))?;
    let tools = find_tools(args)?;
    let server = setup.start(Peer::Nginx, files.path(), args.connections as usize)?;
    check_served(&server, &size)?;
    let study = Study {
        args,
        url: format!("http://{}/{}", server.address(), size.name),
        setup,
        server,
    };
    let table = study.compare(&tools)?;
    table.print();
    let json = json!({ "study": "load-check", "setup": study.setup.to_json(), "tables": [table.to_json()] });
    write_json(args.common.json.as_deref(), &json)
}

enum Tool {
    Uthread(PathBuf),
    Wrk(PathBuf),
    Oha(PathBuf),
}

impl Tool {
    fn name(&self) -> &'static str {
        match self {
            Tool::Uthread(_) => "uthread load",
            Tool::Wrk(_) => "wrk",
            Tool::Oha(_) => "oha",
        }
    }
}

/// Ours, and those of the others that are there; the missing are named.
fn find_tools(args: &Args) -> Result<Vec<Tool>> {
    let mut tools = vec![Tool::Uthread(find_uthread(args.common.server.as_deref())?)];
    match find_program("wrk") {
        Ok(path) => tools.push(Tool::Wrk(path)),
        Err(error) => tell!("without wrk: {error}"),
    }
    let installed = env::home_dir().map(|home| home.join(".cargo/bin/oha"));
    let in_path = || find_program("oha").ok();
    let oha = args.oha.clone().or_else(in_path).or(installed);
    match oha.filter(|path| path.is_file()) {
        Some(path) => tools.push(Tool::Oha(path)),
        None => tell!("without oha: cargo install oha, or --oha PATH"),
    }
    Ok(tools)
}

struct Study<'a> {
    args: &'a Args,
    setup: Setup,
    server: Server,
    url: String,
}

/// What a generator reports.
#[derive(Debug, PartialEq)]
struct Seen {
    requests: u64,
    per_second: f64,
    p50_us: f64,
    p99_us: f64,
}

impl Study<'_> {
    /// Ours beside each of the others.
    fn compare(&self, tools: &[Tool]) -> Result<Table> {
        let Args {
            rounds,
            seconds,
            connections,
            ..
        } = *self.args;
        let progress = |round, tool: usize| {
            tell!("load-check: round {} {}", round + 1, tools[tool].name());
        };
        let taken = interleave(tools.len(), rounds as usize, progress, |tool| {
            self.measure(&tools[tool])
        })?;
        Ok(Table {
            title: format!(
                "nginx, {FILE}: {connections} connections, {} worker(s), {rounds} rounds of {seconds} s; median (min..max)",
                self.setup.workers
            ),
            metrics: METRICS,
            subjects: tools.iter().map(|tool| tool.name().to_owned()).collect(),
            taken,
            comparisons: (1..tools.len()).map(|other| (0, other)).collect(),
        })
    }

    fn measure(&self, tool: &Tool) -> Result<Taken> {
        let window = Window::open(Some(self.server.pid()), self.setup.quiet_wait)?;
        let seen = self
            .load(tool)
            .with_context(|| format!("load with {}", tool.name()))?;
        let usage = window.close()?;
        let cpu_us = usage.server.total_ns() as f64 / 1e3 / seen.requests as f64;
        Ok(Taken {
            figures: vec![seen.per_second, seen.p50_us, seen.p99_us, cpu_us],
            usage,
        })
    }

    fn load(&self, tool: &Tool) -> Result<Seen> {
        let (seconds, connections) = (self.args.seconds, self.args.connections);
        let threads = self.setup.place.load_cpus.len();
        match tool {
            Tool::Uthread(path) => {
                let options = format!(
                    "--connections {connections} --duration {seconds}s --workers {threads}"
                );
                let json = self.output(
                    path,
                    &format!("load http {} --json --warm-up 0s {options}", self.url),
                )?;
                parse_uthread(&serde_json::from_str(&json)?)
            }
            Tool::Wrk(path) => {
                let report = wrk::run(&wrk::Load {
                    program: path,
                    url: &self.url,
                    threads,
                    connections: connections as usize,
                    seconds,
                })?;
                Ok(Seen {
                    requests: report.requests,
                    per_second: report.requests_per_second,
                    p50_us: report.p50_us,
                    p99_us: report.p99_us,
                })
            }
            Tool::Oha(path) => {
                let options =
                    format!("--no-tui --output-format json -w -z {seconds}s -c {connections}");
                parse_oha(&serde_json::from_str(
                    &self.output(path, &format!("{options} {}", self.url))?,
                )?)
            }
        }
    }

    fn output(&self, program: &Path, arguments: &str) -> Result<String> {
        let output = pinned(&self.setup.place.load_cpus, program)
            .args(arguments.split(' '))
            .stdout(Stdio::piped())
            .output()
            .context("run taskset")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "it ended with {}: {errors}",
            output.status
        );
        Ok(String::from_utf8(output.stdout)?)
    }
}

fn parse_uthread(json: &Value) -> Result<Seen> {
    let report: uthread_load::Report = serde_json::from_value(json.clone())?;
    ensure!(
        report.errors.is_empty(),
        "requests failed: {:?}",
        report.errors
    );
    let latency = report.latency_us.context("no latency")?;
    Ok(Seen {
        requests: report.answered,
        per_second: report.per_second,
        p50_us: latency.p50,
        p99_us: latency.p99,
    })
}

/// It counts its answers by status, and its times in seconds.
fn parse_oha(json: &Value) -> Result<Seen> {
    let number = |path: &str| {
        json.pointer(path)
            .and_then(Value::as_f64)
            .with_context(|| format!("no {path}"))
    };
    let statuses = json["statusCodeDistribution"]
        .as_object()
        .context("no status codes")?;
    ensure!(
        statuses.keys().eq(["200"]),
        "requests failed: {statuses:?}, {}",
        json["errorDistribution"]
    );
    Ok(Seen {
        requests: statuses["200"].as_u64().context("no count of answers")?,
        per_second: number("/summary/requestsPerSec")?,
        p50_us: number("/latencyPercentiles/p50")? * 1e6,
        p99_us: number("/latencyPercentiles/p99")? * 1e6,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_oha_says_is_read() {
        let json = json!({
            "summary": { "successRate": 1.0, "requestsPerSec": 2000.5 },
            "latencyPercentiles": { "p50": 0.00025, "p99": 0.001 },
            "statusCodeDistribution": { "200": 6000 },
            "errorDistribution": {},
        });
        let expected = Seen {
            requests: 6000,
            per_second: 2000.5,
            p50_us: 250.0,
            p99_us: 1000.0,
        };
        assert_eq!(parse_oha(&json).unwrap(), expected);
        let mut failed = json.clone();
        failed["statusCodeDistribution"]["404"] = 3.into();
        assert!(parse_oha(&failed).unwrap_err().to_string().contains("404"));
        let mut partial = json;
        partial["latencyPercentiles"] = Value::Null;
        assert!(parse_oha(&partial).is_err());
    }
}

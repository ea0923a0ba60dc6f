//! Static files over keep-alive connections, closed loop: how many requests per second, at what cost, how late?

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::json;

use super::check_served;
use crate::Common;
use crate::files::{Files, Size};
use crate::measure::quiet::{Usage, Window};
use crate::measure::rounds::{Taken, interleave};
use crate::report::{Metric, Table, write_json};
use crate::servers::{Peer, Server};
use crate::setup::{OPEN_FILES_SPARE, Setup, find_program};
use crate::wrk::{self, Load, Report};

/// Long enough for the page cache, the connections' windows and the branch predictors; shorter `wrk` cannot run.
const WARM_UP_SECONDS: u64 = 1;

const METRICS: &[Metric] = &[
    Metric::new("requests/s", 0),
    Metric::new("server CPU us/request", 2),
    Metric::new("of it user", 2),
    Metric::new("of it system", 2),
    Metric::new("p50 us", 0),
    Metric::new("p99 us", 0),
];

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Rounds; each measures every server once
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// Length of one measurement
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Connections that request without pause
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    connections: u64,
    /// Sizes of the files, in B, KiB or MiB
    #[arg(long, value_delimiter = ',', default_value = "1KiB,16KiB,1MiB")]
    sizes: Vec<Size>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let study = Study::prepare(args)?;
    let mut tables = Vec::new();
    for size in &args.sizes {
        let table = study.measure(size)?;
        table.print();
        tables.push(table.to_json());
    }
    let json = json!({ "study": "http", "setup": study.setup.to_json(), "tables": tables });
    write_json(args.common.json.as_deref(), &json)
}

struct Study<'a> {
    args: &'a Args,
    setup: Setup,
    wrk: PathBuf,
    servers: Vec<Server>,
    /// Served until the study ends.
    _files: Files,
}

impl<'a> Study<'a> {
    fn prepare(args: &'a Args) -> Result<Study<'a>> {
        let connections = args.connections as usize;
        let wrk = find_program("wrk")?;
        let setup = Setup::prepare(
            &args.common,
            &Peer::BOTH,
            2 * args.connections + OPEN_FILES_SPARE,
        )?;
        let files = Files::create(&args.sizes)?;
        let start = |&peer| setup.start(peer, files.path(), connections);
        let servers = setup
            .peers
            .iter()
            .map(start)
            .collect::<Result<Vec<Server>>>()?;
        Ok(Study {
            args,
            setup,
            wrk,
            servers,
            _files: files,
        })
    }

    fn measure(&self, size: &Size) -> Result<Table> {
        let Args {
            rounds,
            seconds,
            connections,
            ..
        } = *self.args;
        let subjects: Vec<String> = self.setup.peers.iter().map(ToString::to_string).collect();
        for server in &self.servers {
            check_served(server, size)?;
            self.load(server, size, WARM_UP_SECONDS)?;
        }
        let progress = |round, subject: usize| {
            eprintln!("{}: round {} {}", size.name, round + 1, subjects[subject])
        };
        let taken = interleave(self.servers.len(), rounds as usize, progress, |subject| {
            let server = &self.servers[subject];
            let window = Window::open(Some(server.pid()), self.setup.quiet_wait)?;
            let report = self.load(server, size, seconds)?;
            let usage = window.close()?;
            Ok(Taken {
                figures: figures(&report, &usage),
                usage,
            })
        })?;
        let workers = self.setup.workers;
        Ok(Table {
            title: format!(
                "{}: {connections} connections, {workers} worker(s), {rounds} rounds of {seconds} s; median (min..max)",
                size.name
            ),
            metrics: METRICS,
            comparisons: if subjects.len() == 2 {
                vec![(0, 1)]
            } else {
                Vec::new()
            },
            subjects,
            taken,
        })
    }

    fn load(&self, server: &Server, size: &Size, seconds: u64) -> Result<Report> {
        let load = Load {
            program: &self.wrk,
            url: &format!("http://{}/{}", server.address(), size.name),
            threads: self.setup.place.load_cpus.len(),
            connections: self.args.connections as usize,
            seconds,
        };
        wrk::run(&load).with_context(|| format!("load with {}", size.name))
    }
}

fn figures(report: &Report, usage: &Usage) -> Vec<f64> {
    let per_request_us = |ns: f64| ns / 1e3 / report.requests as f64;
    let (user_ns, system_ns) = usage.server.split_ns();
    vec![
        report.requests_per_second,
        per_request_us(usage.server.total_ns() as f64),
        per_request_us(user_ns),
        per_request_us(system_ns),
        report.p50_us,
        report.p99_us,
    ]
}

//! Slow and hostile clients: do they delay an ordinary one?

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;

use uthread_load::raise_open_files;
use uthread_report::measure::Taken;
use uthread_report::results::{Better, Metric, Panel, Point, Subject};
use uthread_report::study::{Cell, Study};

use super::parse_workers;
use super::plan;
use super::server_study::{self, AROUND_SECONDS};
use crate::alone::Alone;
use crate::cpu_split::CpuSplit;
use crate::files::{Files, LARGE, SMALL, Size};
use crate::hostile::Attack;
use crate::load::{Load, latency};
use crate::peers;
use crate::servers::http::{HttpServer, Launch};
use crate::setup::{OPEN_FILES_SPARE, find_uthread};

/// Time in which all hostile clients connect and fill their buffers.
const ATTACK_BEFORE: Duration = Duration::from_millis(500);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) alone: Alone,
    #[command(flatten)]
    http: Http,
    /// Number of clients that send a header of one byte per 100 ms
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(0..=5_000))]
    slow_header: u32,
    /// Number of clients that request a file of 1 MiB over and over and never read
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(0..=5_000))]
    never_read: u32,
    /// Requests per second of the ordinary client
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pace: u64,
}

/// The servers that are measured under special clients.
#[derive(clap::Args, Clone)]
pub(super) struct Http {
    /// The program `uthread` [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
    /// The servers, a panel for each
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "uthread,nginx"
    )]
    servers: Vec<Which>,
    /// Number of workers of each server
    #[arg(long, default_value_t = 1, value_parser = parse_workers)]
    pub(super) workers: usize,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Which {
    Uthread,
    Nginx,
}

pub(super) struct Servers {
    pub(super) names: Vec<&'static str>,
    pub(super) servers: Vec<HttpServer>,
    pub(super) split: CpuSplit,
    pub(super) files: Files,
}

impl Http {
    /// Finds the programs, and makes files of these sizes.
    pub(super) fn find(&self, sizes: &[Size]) -> Result<Servers> {
        let (mut names, mut servers) = (Vec::new(), Vec::new());
        for which in &self.servers {
            let (name, server) = match which {
                Which::Nginx => ("nginx", HttpServer::Nginx(peers::find_program("nginx")?)),
                Which::Uthread => {
                    let server = HttpServer::Uthread {
                        serve: find_uthread(self.server.as_deref())?,
                        driver: None,
                        fixed: peers::own("fixed", &[])?,
                    };
                    ("uthread", server)
                }
            };
            names.push(name);
            servers.push(server);
        }
        Ok(Servers {
            names,
            servers,
            split: CpuSplit::apart_or_shared(self.workers)?,
            files: Files::create(sizes)?,
        })
    }

    pub(super) fn launch<'a>(
        &self,
        files: &'a Files,
        split: &'a CpuSplit,
        connections: u32,
    ) -> Launch<'a> {
        Launch {
            root: files.path(),
            workers: self.workers,
            split,
            connections,
        }
    }
}

/// Compares each server without and with the hostile clients; a panel for each server.
pub(crate) fn study(args: &Args) -> Result<Study> {
    let (slow_header, never_read) = (args.slow_header, args.never_read);
    raise_open_files(u64::from(slow_header + never_read) + OPEN_FILES_SPARE)?;
    let measuring = &args.alone.measuring;
    let Servers {
        names,
        servers,
        split,
        files,
    } = args.http.find(&[SMALL, LARGE])?;
    let us = |name| Metric::new(name, "us", Better::Less).drawn();
    let mut metrics = ["p50", "p99", "p99.9", "max"].map(us).to_vec();
    metrics.push(Metric::new("CPU", "% of a CPU", Better::Less));
    metrics.push(Metric::new("dropped", "hostile clients", Better::Neither));
    let point = || vec![Point::number(args.pace as f64)];
    let panels = names
        .iter()
        .map(|name| Panel::new(name, "requests per second", point(), metrics.clone()));
    let hostile = format!("beside {slow_header} slow headers and {never_read} that never read");
    let notes = vec![split.describe(args.http.workers)];
    let subjects = vec![Subject::ours("undisturbed"), Subject::ours(&hostile)];
    let plan = plan("slow", notes, subjects, panels.collect());
    let (http, seconds, quiet_wait) =
        (args.http.clone(), measuring.seconds, measuring.quiet_wait());
    let load = Load {
        rate: Some(args.pace),
        ..Load::closed(1, seconds, false).get(files.path(), SMALL.0)
    };
    let measure = move |cell: Cell| {
        // On a server of its own, which no hostile client of an earlier round still occupies.
        let launch = http.launch(&files, &split, slow_header + never_read);
        let server = servers[cell.panel].start(&launch)?;
        let is_hostile = cell.subject == 1;
        let clients = if is_hostile {
            [slow_header, never_read]
        } else {
            [0, 0]
        };
        let attack = Attack::start(server.address(), clients, LARGE.0, &split.load_cpus);
        thread::sleep(ATTACK_BEFORE);
        let measured = server_study::measure(&server, &split, &load, quiet_wait, false);
        let dropped = attack.finish()? as f64;
        let measured = measured?;
        let latency = latency(&measured.report);
        let cpu_percent = measured.usage.server.total_ns() as f64 / 1e7 / seconds as f64;
        let dropped = if is_hostile { dropped } else { f64::NAN };
        let latencies = [latency.p50, latency.p99, latency.p999, latency.max];
        Ok(Taken {
            figures: [&latencies[..], &[cpu_percent, dropped]].concat(),
            usage: measured.usage,
        })
    };
    let seconds_each = seconds as f64 + AROUND_SECONDS + ATTACK_BEFORE.as_secs_f64();
    Ok(Study::new(plan, seconds_each, measure))
}

//! Idle connections: what do thousands of them cost the busy ones, and how much memory does each
//! hold?
//!
//! Every measurement starts its own server: one that has held many connections keeps memory for
//! them.

use std::thread;
use std::time::Duration;

use anyhow::Result;

use uthread_load::raise_open_files;
use uthread_report::measure::Taken;
use uthread_report::results::{Better, Metric, Panel, Point, Subject};
use uthread_report::study::{Cell, Study};

use super::plan;
use super::server_study::{self, AROUND_SECONDS};
use super::slow::{Http, Servers};
use crate::alone::Alone;
use crate::files::SMALL;
use crate::load::{Load, WARM_UP_SECONDS};
use crate::measure::memory::Memory;
use crate::setup::OPEN_FILES_SPARE;

/// Time from the last request of the idle connections until their memory is measured: servers give
/// some back when a connection has been idle for a while.
const REST: Duration = Duration::from_secs(3);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) alone: Alone,
    #[command(flatten)]
    http: Http,
    /// Number of idle connections, each of which has been answered once
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    idle: u32,
    /// Number of connections that send requests without pause
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
}

/// Compares each server without and with the idle connections; a panel for each server.
pub(crate) fn study(args: &Args) -> Result<Study> {
    let (idle, busy) = (args.idle, args.connections);
    raise_open_files(u64::from(idle + busy) + OPEN_FILES_SPARE)?;
    let measuring = &args.alone.measuring;
    let Servers {
        names,
        servers,
        split,
        files,
    } = args.http.find(&[SMALL])?;
    let mut metrics = server_study::metrics();
    metrics.push(Metric::new("RSS", "B per idle connection", Better::Less));
    let point = || vec![Point::number(f64::from(busy))];
    let panels = names
        .iter()
        .map(|name| Panel::new(name, "busy connections", point(), metrics.clone()));
    let with = format!("with {idle} idle");
    let notes = vec![split.describe(args.http.workers)];
    let subjects = vec![Subject::ours("busy alone"), Subject::ours(&with)];
    let plan = plan("idle", notes, subjects, panels.collect());
    let (http, seconds, quiet_wait) =
        (args.http.clone(), measuring.seconds, measuring.quiet_wait());
    let measure = move |cell: Cell| {
        let is_alone = cell.subject == 0;
        let launch = http.launch(&files, &split, idle + busy);
        let server = servers[cell.panel].start(&launch)?;
        let load = |connections, seconds| {
            Load::closed(connections, seconds, false).get(files.path(), SMALL.0)
        };
        let start = |load: Load| load.start(&split.load_cpus, server.address());
        // The memory of the busy connections must be there before that of the idle ones is
        // measured.
        start(load(busy, WARM_UP_SECONDS))?.run()?;
        let before = Memory::read(server.pid())?;
        let mut crowd = if is_alone {
            None
        } else {
            Some(start(load(idle.max(1), 1))?)
        };
        if !is_alone {
            thread::sleep(REST);
        }
        let [per_idle, ..] = Memory::read(server.pid())?.since(&before, idle);
        let measured =
            server_study::measure(&server, &split, &load(busy, seconds), quiet_wait, false)?;
        // The idle connections must still be answered: one that the server has closed fails the
        // measurement.
        if let Some(crowd) = &mut crowd {
            crowd.run()?;
        }
        let mut figures = measured.figures();
        figures.push(if is_alone { f64::NAN } else { per_idle });
        Ok(Taken {
            figures,
            usage: measured.usage,
        })
    };
    let seconds_each =
        (seconds + WARM_UP_SECONDS) as f64 + AROUND_SECONDS + 1.0 + REST.as_secs_f64();
    Ok(Study::new(plan, seconds_each, measure))
}

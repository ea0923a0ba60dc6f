//! The programs `uthread echo` and `uthread serve` on each driver, at more and more connections.
//!
//! A driver that cannot handle a number of connections is a result, shown in its row.

use std::path::PathBuf;

use anyhow::Result;
use uthread::{Driver, Runtime};
use uthread_report::results::{Panel, Point, Subject};
use uthread_report::study::{Cell, Study};

use super::parse_workers;
use super::plan;
use super::server_study::{self, AROUND_SECONDS, metrics_with_memory};
use crate::alone::Alone;
use crate::cpu_split::CpuSplit;
use crate::files::{Files, SMALL};
use crate::limits;
use crate::load::{Load, WARM_UP_SECONDS};
use crate::peers;
use crate::servers::http::{HttpServer, Launch};
use crate::servers::{pinned, start_listening};
use crate::setup::find_uthread;

const DRIVERS: [Driver; 3] = [Driver::Uring, Driver::Epoll, Driver::Threads];
/// Index of the panel of `uthread echo`.
const ECHO: usize = 0;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) alone: Alone,
    /// The program `uthread` [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
    /// Numbers of connections that send as soon as they have been answered, a point for each
    #[arg(long, value_delimiter = ',', default_value = "1,10,100,1000,10000",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: Vec<u32>,
    /// Number of workers of each server; the load gets the other CPUs, or shares all if none are
    /// left
    #[arg(long, default_value_t = 1, value_parser = parse_workers)]
    workers: usize,
}

pub(crate) fn study(args: &Args) -> Result<Study> {
    let (workers, connections) = (args.workers, args.connections.clone());
    let measuring = &args.alone.measuring;
    let split = CpuSplit::apart_or_shared(workers)?;
    let uthread = find_uthread(args.server.as_deref())?;
    let files = Files::create(&[SMALL])?;
    let mut notes = vec![split.describe(workers)];
    for driver in DRIVERS {
        let runtime = Runtime::builder().workers(1).driver(driver).build();
        notes.extend(runtime.map(|runtime| runtime.driver().to_string()));
    }
    let panel = |title| {
        let points = Point::numbers(&connections);
        Panel::new(title, "connections", points, metrics_with_memory())
    };
    let subjects = DRIVERS.map(|driver| Subject::ours(&driver.to_string()));
    let panels = ["uthread echo", "uthread serve"].map(panel);
    let plan = plan("drivers", notes, subjects.to_vec(), panels.to_vec());
    let (seconds, quiet_wait) = (measuring.seconds, measuring.quiet_wait());
    let fixed = peers::own("fixed", &[])?;
    let measure = move |cell: Cell| {
        let (driver, connections) = (DRIVERS[cell.subject], connections[cell.point]);
        let mut load = Load {
            warm_up_seconds: WARM_UP_SECONDS,
            ..Load::closed(connections, seconds, split.is_apart())
        };
        let server = if cell.panel == ECHO {
            limits::check(u64::from(connections), driver == Driver::Threads)?;
            let mut command = pinned(&split.server_cpus, &uthread);
            command.args(["echo", "--listen", "127.0.0.1:0"]);
            command.args(["--driver", &driver.to_string()]);
            command.args(["--workers", &workers.to_string()]);
            start_listening(command)?
        } else {
            load = load.get(files.path(), SMALL.0);
            let server = HttpServer::Uthread {
                serve: uthread.clone(),
                driver: Some(driver),
                fixed: fixed.clone(),
            };
            server.start(&Launch {
                root: files.path(),
                workers,
                split: &split,
                connections,
            })?
        };
        let measured = server_study::measure(&server, &split, &load, quiet_wait, false)?;
        Ok(measured.taken_with_memory())
    };
    let seconds_each = (seconds + WARM_UP_SECONDS) as f64 + AROUND_SECONDS;
    Ok(Study::new(plan, seconds_each, measure))
}

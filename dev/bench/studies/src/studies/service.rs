//! Web services: a text, a value as JSON, and a page of 20 rows, by frameworks of several runtimes.

use std::fs;

use anyhow::{Context, Result};
use uthread_report::results::{Panel, Point};
use uthread_report::study::{Cell, Study};

use super::plan;
use super::server_study::{self, AROUND_SECONDS, metrics_with_memory};
use crate::alone::Measuring;
use crate::cpu_split::CpuSplit;
use crate::files::Files;
use crate::limits;
use crate::load::Load;
use crate::peers;
use crate::peers::page::{TEXT, page};
use crate::servers::Server;

const PATHS: [&str; 3] = ["text", "json", "page"];
const CONNECTIONS: [u32; 2] = [64, 512];
const WORKERS: [usize; 2] = [1, 2];
const PEERS: [&str; 3] = ["tokio", "go", "actix"];

pub(crate) fn study(measuring: &Measuring) -> Result<Study> {
    let own = peers::own("uthread", &["--driver", "uring"])?;
    let (subjects, programs) = peers::compared(vec![own], &PEERS, measuring);
    // The load compares each answer with these.
    let files = Files::create(&[])?;
    let json = format!("{{\"message\":\"{TEXT}\"}}");
    for (name, body) in PATHS.iter().zip([TEXT, &json, &page()]) {
        fs::write(files.path().join(name), body).with_context(|| format!("write {name}"))?;
    }
    let notes = vec![CpuSplit::apart_or_shared(1)?.describe(1)];
    let cases: Vec<(usize, u32)> = WORKERS
        .iter()
        .flat_map(|workers| CONNECTIONS.map(|connections| (*workers, connections)))
        .collect();
    let panels = cases.iter().map(|(workers, connections)| {
        let plural = if *workers == 1 { "" } else { "s" };
        let title = format!("{connections} connections, {workers} worker{plural}");
        let points = PATHS.map(Point::name).to_vec();
        Panel::new(&title, "", points, metrics_with_memory())
    });
    let plan = plan("service", notes, subjects, panels.collect());
    let (seconds, quiet_wait) = (measuring.seconds, measuring.quiet_wait());
    let measure = move |cell: Cell| {
        let (workers, connections) = cases[cell.panel];
        limits::check(u64::from(connections), false)?;
        let split = CpuSplit::apart_or_shared(workers)?;
        let program = programs[cell.subject].as_ref().context("it is missing")?;
        let arguments = ["service", "0", &workers.to_string()];
        let server = Server::start_peer(program, &split.server_cpus, &arguments)?;
        let load = Load::closed(connections, seconds, split.is_apart());
        let load = load.get(files.path(), PATHS[cell.point]);
        let measured = server_study::measure(&server, &split, &load, quiet_wait, cell.round == 0)?;
        Ok(measured.taken_with_memory())
    };
    Ok(Study::new(plan, seconds as f64 + AROUND_SECONDS, measure))
}

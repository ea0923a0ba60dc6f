//! A web server in Haskell, on our manager and on GHC's own, beside warp and `uthread serve`.

use anyhow::{Context, Result};
use uthread::Driver;
use uthread_report::results::{Panel, Point, Subject};
use uthread_report::study::{Cell, Study};

use super::plan;
use super::server_study::{self, AROUND_SECONDS, metrics};
use crate::alone::Measuring;
use crate::cpu_split::CpuSplit;
use crate::files::{Files, SMALL};
use crate::limits;
use crate::load::Load;
use crate::peers;
use crate::servers::haskell;
use crate::servers::http::{HttpServer, Launch};
use crate::setup::find_uthread;

const CAPABILITIES: [usize; 3] = [1, 2, 4];
const CONNECTIONS: [u32; 5] = [1, 10, 64, 1_000, 5_000];
/// Connections where something else varies.
const CONNECTIONS_ELSE: u32 = 64;

pub(crate) fn study(measuring: &Measuring) -> Result<Study> {
    let native = HttpServer::Uthread {
        serve: find_uthread(None)?,
        driver: Some(Driver::Uring),
        fixed: peers::own("fixed", &[])?,
    };
    let (mut subjects, servers): (Vec<Subject>, Vec<_>) = haskell::all().into_iter().unzip();
    let index_of_native = subjects.len();
    subjects.push(Subject::peer("uthread serve", None, None));
    let files = Files::create(&[SMALL])?;
    let notes = vec![CpuSplit::apart_or_shared(1)?.describe(1)];
    let panel = |title: &str, axis, points| Panel::new(title, axis, points, metrics());
    let capabilities = Point::numbers(&CAPABILITIES.map(|count| count as u32));
    let panels = vec![
        panel(
            "1 KiB by capabilities, 64 connections",
            "capabilities",
            capabilities,
        ),
        panel(
            "1 KiB by connections, one capability",
            "connections",
            Point::numbers(&CONNECTIONS),
        ),
    ];
    let plan = plan("haskell", notes, subjects, panels);
    let cpus = uthread_report::machine::allowed_cpus()?.len();
    let (seconds, quiet_wait) = (measuring.seconds, measuring.quiet_wait());
    let measure = move |cell: Cell| {
        let (capabilities, connections) = match cell.panel {
            0 => (CAPABILITIES[cell.point], CONNECTIONS_ELSE),
            _ => (1, CONNECTIONS[cell.point]),
        };
        // More capabilities than CPUs share them all.
        let split = CpuSplit::apart_or_shared(capabilities.min(cpus))?;
        limits::check(u64::from(connections), false)?;
        let server = if cell.subject == index_of_native {
            native.start(&Launch {
                root: files.path(),
                workers: capabilities,
                split: &split,
                connections,
            })?
        } else {
            let server = servers[cell.subject].as_ref().context("it is missing")?;
            server.start(files.path(), capabilities, &split.server_cpus)?
        };
        let load = Load::closed(connections, seconds, split.is_apart()).get(files.path(), SMALL.0);
        let measured = server_study::measure(&server, &split, &load, quiet_wait, cell.round == 0)?;
        Ok(measured.taken())
    };
    Ok(Study::new(plan, seconds as f64 + AROUND_SECONDS, measure))
}

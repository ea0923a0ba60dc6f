//! Forwarders of TCP connections, beside HAProxy: messages, transfers, and the memory of each
//! connection.

use std::path::Path;

use anyhow::{Context, Result};
use uthread::Driver;
use uthread_report::results::{Panel, Point, Subject};
use uthread_report::study::{Cell, Study};

use super::plan;
use super::server_study::{self, AROUND_SECONDS};
use crate::alone::Measuring;
use crate::cpu_split::CpuSplit;
use crate::files::{Files, LARGE};
use crate::load::Load;
use crate::peers;
use crate::servers::http::serve_on;
use crate::servers::tunnel::{Forwarder, Forwarding};
use crate::servers::{Server, pinned, start_listening};
use crate::setup::find_uthread;

/// Connections that exchange messages. The memory of each is measured from a thousand on.
const MESSAGE_CONNECTIONS: [u32; 4] = [1, 10, 100, 2_000];
/// Connections that transfer.
const TRANSFER_CONNECTIONS: [u32; 2] = [1, 100];

const OURS: [(&str, Driver); 2] = [("uthread", Driver::Uring), ("uthread epoll", Driver::Epoll)];

pub(crate) fn study(measuring: &Measuring, uthread: Option<&Path>) -> Result<Study> {
    let uthread = find_uthread(uthread)?;
    let (mut subjects, mut forwarders) = (Vec::new(), Vec::new());
    for (name, driver) in OURS {
        subjects.push(Subject::ours(name));
        forwarders.push(Some(Forwarder::Uthread(uthread.clone(), driver)));
    }
    let (peers, programs) = peers::compared(Vec::new(), &["haproxy"], measuring);
    subjects.extend(peers);
    let haproxy = |program: peers::Program| Forwarder::Haproxy(program.path);
    forwarders.extend(programs.into_iter().map(|program| program.map(haproxy)));
    let files = Files::create(&[LARGE])?;
    let split = CpuSplit::apart_or_shared(1)?;
    let panel = |title: &str, connections: &[u32]| {
        let points = Point::numbers(connections);
        Panel::new(
            title,
            "connections",
            points,
            server_study::metrics_with_memory(),
        )
    };
    let panels = vec![
        panel("messages of 16 bytes", &MESSAGE_CONNECTIONS),
        panel("transfers of 1 MiB", &TRANSFER_CONNECTIONS),
    ];
    let plan = plan("tunnel", vec![split.describe(1)], subjects, panels);
    let (seconds, quiet_wait) = (measuring.seconds, measuring.quiet_wait());
    let measure = move |cell: Cell| {
        let is_bulk = cell.panel == 1;
        let connections = if is_bulk {
            TRANSFER_CONNECTIONS[cell.point]
        } else {
            MESSAGE_CONNECTIONS[cell.point]
        };
        // The target shares the CPUs of the load.
        let target = if is_bulk {
            serve_on(&uthread, files.path(), &split.load_cpus, connections)?
        } else {
            echo_on(&uthread, &split.load_cpus)?
        };
        let forwarder = forwarders[cell.subject].as_ref().context("it is missing")?;
        let server = forwarder.start(&Forwarding {
            to: target.address(),
            split: &split,
            connections,
            is_bulk,
        })?;
        let load = Load::closed(connections, seconds, false);
        let load = if is_bulk {
            load.get(files.path(), LARGE.0)
        } else {
            load
        };
        let measured = server_study::measure(&server, &split, &load, quiet_wait, cell.round == 0)?;
        Ok(measured.taken_with_memory())
    };
    Ok(Study::new(plan, seconds as f64 + AROUND_SECONDS, measure))
}

/// Starts an echo server of one worker.
fn echo_on(program: &Path, cpus: &[usize]) -> Result<Server> {
    let mut command = pinned(cpus, program);
    command.args(["echo", "--listen", "127.0.0.1:0", "--workers", "1"]);
    start_listening(command).context("start the target")
}

//! A light connection beside bulk transfers: how long does it wait for an answer on each driver,
//! and at which rate do the transfers run meanwhile?
//!
//! The reference is the driver `threads`: it has a thread for each connection, and the kernel
//! schedules them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use uthread::Driver;
use uthread_report::measure::Taken;
use uthread_report::measure::quiet::Window;
use uthread_report::results::{Better, Metric, Panel, Point, Subject};
use uthread_report::study::{Cell, Study};

use super::plan;
use super::server_study::{AROUND_SECONDS, MIB};
use crate::alone::{Alone, Measuring};

use crate::cpu_split::CpuSplit;
use crate::limits;
use crate::load::{Load, WARM_UP_SECONDS, latency};
use crate::servers::{Server, can_run_in_real_time, pinned, start_listening};
use crate::setup::find_uthread;
use crate::transfers::Transfers;

pub(crate) const BULK_CONNECTIONS: [u32; 2] = [4, 16];
/// The others are compared with the first.
const SUBJECTS: [(&str, Driver); 3] = [
    ("uthread threads", Driver::Threads),
    ("uthread", Driver::Uring),
    ("uthread epoll", Driver::Epoll),
];
/// Messages per second of the light client, which are far apart beside the time until an answer.
const RATE: u64 = 200;
/// Minimum length of a measurement: in a second only two messages are beyond p99.
const SECONDS_MIN: u64 = 3;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) alone: Alone,
    /// The program `uthread` [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) server: Option<PathBuf>,
    /// Numbers of bulk connections, a point for each
    #[arg(long, value_delimiter = ',', default_values_t = BULK_CONNECTIONS,
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) connections: Vec<u32>,
}

pub(crate) fn study(
    measuring: &Measuring,
    uthread: Option<&Path>,
    connections: &[u32],
) -> Result<Study> {
    let split = CpuSplit::apart_or_shared(1)?;
    let uthread = find_uthread(uthread)?;
    let seconds = measuring.seconds.max(SECONDS_MIN);
    let real_time = can_run_in_real_time();
    let notes = vec![split.describe(1), light_note(seconds, real_time)];
    // Two numbers are no trend: names are drawn as bars.
    let points = connections
        .iter()
        .map(|count| Point::name(&count.to_string()));
    let panel = Panel::new("1 worker", "bulk connections", points.collect(), metrics());
    let subjects = SUBJECTS.map(|(name, _)| Subject::ours(name));
    let plan = plan("bulk", notes, subjects.to_vec(), vec![panel]);
    let load = Load {
        rate: Some(RATE),
        warm_up_seconds: WARM_UP_SECONDS,
        has_threads: true,
        real_time,
        ..Load::closed(1, seconds, false)
    };
    let (connections, quiet_wait) = (connections.to_vec(), measuring.quiet_wait());
    let measure_cell = move |cell: Cell| {
        let (driver, connections) = (SUBJECTS[cell.subject].1, connections[cell.point]);
        limits::check(u64::from(connections) + 1, driver == Driver::Threads)?;
        let mut command = pinned(&split.server_cpus, &uthread);
        command.args(["echo", "--listen", "127.0.0.1:0", "--workers", "1"]);
        command.args(["--driver", &driver.to_string()]);
        let server = start_listening(command)?;
        measure(&server, &load, connections, &split, quiet_wait)
    };
    let seconds_each = (seconds + WARM_UP_SECONDS) as f64 + AROUND_SECONDS;
    Ok(Study::new(plan, seconds_each, measure_cell))
}

/// Takes the figures of [`metrics`] from a server that has just been started.
fn measure(
    server: &Server,
    load: &Load,
    connections: u32,
    split: &CpuSplit,
    quiet_wait: Duration,
) -> Result<Taken> {
    let (address, cpus) = (server.address(), &split.load_cpus);
    let mut window = Window::open(Some(server.pid()), quiet_wait)?;
    let mut light = load.start(cpus, address)?;
    let transfers = Transfers::start(address, connections, cpus)?;
    // Connecting is not measured.
    window.restart()?;
    let (begin, before) = (Instant::now(), transfers.received_bytes());
    let report = light.run();
    let mib = (transfers.received_bytes() - before) as f64 / MIB;
    let seconds = begin.elapsed().as_secs_f64();
    let usage = window.close()?;
    transfers.finish()?;
    let report = report?;
    let latency = latency(&report);
    let figures = vec![
        latency.p50,
        latency.p90,
        latency.p99,
        latency.max,
        mib / seconds,
        usage.server.total_ns() as f64 / 1e3 / mib,
        report.late_us.map_or(f64::NAN, |late| late.p99),
    ];
    Ok(Taken { figures, usage })
}

/// Returns the latencies of the light client, and rate and cost of the transfers.
fn metrics() -> Vec<Metric> {
    let us = |name| Metric::new(name, "us", Better::Less);
    vec![
        us("p50").drawn(),
        us("p90"),
        us("p99").drawn(),
        us("max"),
        Metric::new("bulk rate", "MiB/s", Better::More).drawn(),
        Metric::new("CPU", "us per MiB", Better::Less),
        Metric::new("late", "us, p99", Better::Neither),
    ]
}

/// Describes the light client, and what it competes with.
fn light_note(seconds: u64, real_time: bool) -> String {
    let competition = if real_time {
        "runs under SCHED_FIFO, before the bulk clients on its CPU, so its latencies are those of the server"
    } else {
        "competes with the bulk clients for a CPU, as SCHED_FIFO is not permitted here, so its latencies include the wait for it"
    };
    format!(
        "The light client sends {RATE} messages of 16 bytes a second for {seconds} s, at random times. It {competition}."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_the_scheduling_of_the_light_client() {
        let first = light_note(3, true);
        assert!(first.contains("for 3 s, ") && first.contains("runs under SCHED_FIFO"));
        assert!(light_note(3, false).contains("SCHED_FIFO is not permitted"));
    }
}

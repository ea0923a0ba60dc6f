//! The studies of echo servers: `echo` and `compute` as closed loops, `latency` as an open loop in
//! which workers sleep and have to be woken.

use anyhow::Result;
use uthread_report::results::{Limit, Metric, Panel, Point};
use uthread_report::study::{Journal, Study};
use uthread_report::tell;

use super::plan;
use super::server_study::{AROUND_SECONDS, EchoServers, OURS, Task, metrics};
use crate::alone::{Alone, Measuring};
use crate::cpu_split::CpuSplit;
use crate::load::{Load, WARM_UP_SECONDS};

pub(crate) const ECHO_CONNECTIONS: [u32; 6] = [1, 10, 100, 1_000, 5_000, 15_000];
/// The panels of `compute`: microseconds of work, and workers.
const COMPUTE: [(u64, usize); 4] = [(20, 1), (20, 2), (200, 1), (200, 2)];
const COMPUTE_CONNECTIONS: [u32; 2] = [100, 1_000];
/// Loads, as parts of what ours can answer. All get the same rate, so that a slow server does not
/// gain by less load.
const LATENCY_PERCENT: [u32; 4] = [5, 20, 50, 80];
const LATENCY_CONNECTIONS: u32 = 50;
/// Our subjects whose fibers run on the same worker, and on any.
const BOTH_MODES: usize = 2;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) alone: Alone,
    /// Numbers of connections, a point for each
    #[arg(long, value_delimiter = ',', default_values_t = ECHO_CONNECTIONS,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) connections: Vec<u32>,
}

pub(crate) fn echo(measuring: &Measuring, connections: &[u32]) -> Result<Study> {
    let split = CpuSplit::apart_or_shared(1)?;
    let servers = EchoServers::new(measuring, OURS.len())?;
    let points = Point::numbers(connections);
    let panel = Panel::new("closed loop, 1 worker", "connections", points, metrics());
    let load = |&count: &u32| Load::closed(count, measuring.seconds, split.is_apart());
    let tasks = connections
        .iter()
        .map(|count| Task::new(&split, load(count)));
    let tasks = tasks.collect();
    Ok(study(
        "echo",
        measuring,
        servers,
        vec![split.describe(1)],
        vec![(panel, tasks)],
    ))
}

pub(crate) fn compute(measuring: &Measuring) -> Result<Study> {
    let servers = EchoServers::new(measuring, BOTH_MODES)?;
    let (mut notes, mut panels) = (Vec::new(), Vec::new());
    for (compute_us, workers) in COMPUTE {
        let split = CpuSplit::apart_or_shared(workers)?;
        // The first second has the latency of a thousand connections that all start at once.
        let load = |count| Load {
            warm_up_seconds: WARM_UP_SECONDS,
            ..Load::closed(count, measuring.seconds, split.is_apart())
        };
        let tasks = COMPUTE_CONNECTIONS.map(|count| Task {
            workers,
            compute_us,
            ..Task::new(&split, load(count))
        });
        panels.push((compute_panel(compute_us, workers), tasks.into()));
        notes.push(split.describe(workers));
    }
    // The second half of `COMPUTE` has the same numbers of workers, and so the same notes.
    notes.truncate(2);
    Ok(study("compute", measuring, servers, notes, panels))
}

fn compute_panel(compute_us: u64, workers: usize) -> Panel {
    let plural = if workers == 1 { "" } else { "s" };
    let title = format!("{compute_us} us of work, {workers} worker{plural}");
    let points = Point::numbers(&COMPUTE_CONNECTIONS);
    let mut panel = Panel::new(&title, "connections", points, metrics());
    let bounds = COMPUTE_CONNECTIONS.map(|count| bound(workers, compute_us, count));
    let limits = [
        ("what the work allows", "rate", bounds.map(|(rate, _)| rate)),
        (
            "Little's law",
            "p50",
            bounds.map(|(_, latency_us)| latency_us),
        ),
    ];
    for (name, metric, figures) in limits {
        panel
            .limits
            .extend(panel.metric(metric).map(|metric| Limit {
                name: name.to_owned(),
                metric,
                figures: figures.to_vec(),
            }));
    }
    panel
}

/// Returns what no server can pass if everything but the work is free: answers per second, and the
/// mean latency at that rate in microseconds.
fn bound(workers: usize, compute_us: u64, connections: u32) -> (f64, f64) {
    let busy = f64::from(connections).min(workers as f64);
    let rate = busy * 1e6 / compute_us as f64;
    (rate, f64::from(connections) * 1e6 / rate)
}

pub(crate) fn latency(measuring: &Measuring, journal: &mut Journal) -> Result<Study> {
    let split = CpuSplit::apart_or_shared(1)?;
    let servers = EchoServers::new(measuring, BOTH_MODES)?;
    let closed = Load::closed(LATENCY_CONNECTIONS, measuring.seconds, split.is_apart());
    let capacity = journal.found("latency", || {
        tell!("latency: measuring the capacity of uthread");
        let measured = servers.measure(0, &Task::new(&split, closed.clone()), false)?;
        Ok(measured.report.per_second)
    })?;
    let title = format!("{LATENCY_CONNECTIONS} connections, 1 worker");
    let point = |percent| Point {
        label: format!("{percent} %"),
        value: Some(f64::from(percent)),
    };
    let points = LATENCY_PERCENT.map(point).to_vec();
    let panel = Panel::new(&title, "of capacity", points, latency_metrics());
    let tasks = LATENCY_PERCENT.map(|percent| {
        let rate = ((capacity * f64::from(percent) / 100.0) as u64).max(1);
        let load = Load {
            rate: Some(rate),
            ..closed.clone()
        };
        Task::new(&split, load)
    });
    let note = format!(
        "Capacity is what uthread answers in a closed loop, {capacity:.0} a second. All get the same rates."
    );
    let notes = vec![split.describe(1), note];
    Ok(study(
        "latency",
        measuring,
        servers,
        notes,
        vec![(panel, tasks.into())],
    ))
}

/// Draws the tail instead of the rate, which is given.
fn latency_metrics() -> Vec<Metric> {
    let mut metrics = metrics();
    for metric in &mut metrics {
        match &*metric.name {
            "rate" | "fairness" => metric.is_drawn = false,
            "p99.9" => metric.is_drawn = true,
            _ => {}
        }
    }
    metrics
}

/// Measures the tasks of each panel on every server.
fn study(
    name: &str,
    measuring: &Measuring,
    servers: EchoServers,
    notes: Vec<String>,
    panels: Vec<(Panel, Vec<Task>)>,
) -> Study {
    let (panels, tasks): (_, Vec<_>) = panels.into_iter().unzip();
    let plan = plan(name, notes, servers.subjects.clone(), panels);
    let warm_ups = tasks.iter().flatten().map(|task| task.load.warm_up_seconds);
    let seconds_each = measuring.seconds + warm_ups.max().unwrap_or(0);
    Study::new(plan, seconds_each as f64 + AROUND_SECONDS, move |cell| {
        let task = &tasks[cell.panel][cell.point];
        let measured = servers.measure(cell.subject, task, cell.round == 0)?;
        Ok(measured.taken())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_limits_the_rate_and_the_rate_the_latency() {
        assert_eq!(bound(1, 1, 1), (1e6, 1.0));
        assert_eq!(bound(2, 20, 500), (100e3, 5e3));
        assert_eq!(bound(2, 200, 500), (10e3, 50e3));
    }
}

//! One counter that threads or fibers increment together: the ways of sharing it.

use anyhow::{Result, ensure};
use uthread_report::machine::allowed_cpus;
use uthread_report::measure::Taken;
use uthread_report::measure::quiet::Window;
use uthread_report::program::output;
use uthread_report::results::{Better, Metric, Panel, Point, Subject};
use uthread_report::study::{Cell, Study};

use super::plan;
use super::programs::numbers;
use crate::alone::Measuring;
use crate::peers;
use crate::servers::pinned;

/// The ways: name, command, and increments of a measurement, which take 50 ms or more. The others
/// are compared with the first.
const WAYS: [(&str, &str, u64); 5] = [
    ("batched", "batched", 400_000_000),
    ("shards", "shards", 40_000_000),
    ("atomic", "atomic", 20_000_000),
    ("std mutex", "std-mutex", 10_000_000),
    ("uthread mutex", "mutex", 10_000_000),
];

/// Numbers of fibers or threads.
const TASKS: [u32; 5] = [1, 2, 4, 16, 64];

/// Mean of the ways, with the wait for a quiet machine.
const SECONDS_EACH: f64 = 1.5;

/// Compares the ways on OS threads, on fibers of one worker, and on those of as many workers as
/// there are CPUs.
pub(crate) fn study(measuring: &Measuring) -> Result<Study> {
    let cpus = allowed_cpus()?;
    let own = peers::own("uthread", &[])?;
    let panels = [
        ("OS threads".to_owned(), "threads", 0),
        ("fibers on one worker".to_owned(), "fibers", 1),
        (
            format!("fibers on {} workers", cpus.len()),
            "fibers",
            cpus.len(),
        ),
    ];
    let workers = panels.each_ref().map(|&(.., workers)| workers);
    let described = panels.map(|(title, axis, _)| panel(&title, axis));
    let subjects = WAYS.map(|(name, ..)| Subject::ours(name));
    let plan = plan("counter", Vec::new(), subjects.to_vec(), described.to_vec());
    let quiet_wait = measuring.quiet_wait();
    let measure = move |cell: Cell| {
        let (_, way, increments) = WAYS[cell.subject];
        let tasks = TASKS[cell.point];
        let each = increments / u64::from(tasks);
        let window = Window::open(None, quiet_wait)?;
        let mut command = pinned(&cpus, &own.path);
        command.args(["counter", way]);
        command.args([
            &workers[cell.panel].to_string(),
            &tasks.to_string(),
            &each.to_string(),
        ]);
        let figures = numbers(&output(&mut command)?)?;
        let usage = window.close()?;
        ensure!(figures.len() == 1, "it printed {figures:?}");
        Ok(Taken { figures, usage })
    };
    Ok(Study::new(plan, SECONDS_EACH, measure))
}

fn panel(title: &str, axis: &str) -> Panel {
    let metric = Metric::new("time", "ns per increment", Better::Less).drawn();
    Panel::new(title, axis, Point::numbers(&TASKS), vec![metric])
}

//! Studies of programs that measure by themselves and print numbers: `threads` and `micro`.
//!
//! Every figure comes from a process of its own; `dev/bench/peers/README.md` describes the commands.

use std::collections::HashMap;
use std::hint::black_box;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use uthread_report::machine::allowed_cpus;
use uthread_report::measure::Taken;
use uthread_report::measure::quiet::Window;
use uthread_report::program::output;
use uthread_report::results::{Better, Metric, Panel, Point};
use uthread_report::study::{Cell, Study};

use super::plan;
use crate::alone::Measuring;
use crate::cpu_split::CpuSplit;
use crate::measure::memory::available;
use crate::peers;
use crate::servers::pinned;
use crate::setup::{built, own_path};

/// The slowest commands take some seconds.
const SECONDS_EACH: f64 = 2.0;
/// Memory of a created fiber: its page of stack, and what the system and the runtime keep of it.
const CREATED_BYTES: u64 = 6 * 1024;
/// A thread of the system takes fifty times as long to spawn.
const SPAWNS_OF_THREADS: &str = "20000";

#[derive(Deserialize)]
struct Programs {
    peers: Vec<String>,
    panels: Vec<Commands>,
}

/// A panel: its points, and the command of each.
#[derive(Deserialize)]
struct Commands {
    title: String,
    axis: String,
    /// Names and units of the numbers that the commands print.
    metrics: Vec<(String, String)>,
    /// Labels and commands.
    points: Vec<(String, String)>,
    /// Peers that cannot do it.
    #[serde(default)]
    without: Vec<String>,
    /// Our program that does it instead of the peer on uthread.
    own: Option<String>,
}

/// Compares more and more fibers with threads of the system and other runtimes.
pub(crate) fn threads(measuring: &Measuring) -> Result<Study> {
    study(
        "threads",
        measuring,
        CpuSplit::apart_or_shared(1)?.server_cpus,
    )
}

/// Compares fibers without I/O with other runtimes.
pub(crate) fn micro(measuring: &Measuring) -> Result<Study> {
    study("micro", measuring, allowed_cpus()?)
}

fn study(name: &str, measuring: &Measuring, cpus: Vec<usize>) -> Result<Study> {
    let json = include_str!("programs.json");
    let mut all: HashMap<String, Programs> = serde_json::from_str(json)?;
    let Programs { peers, panels } = all.remove(name).context("no such study")?;
    let own = peers::own("uthread", &[])?;
    let (subjects, programs) = peers::compared(vec![own], &peers, measuring);
    let names: Vec<String> = subjects
        .iter()
        .map(|subject| subject.name.clone())
        .collect();
    let described = panels.iter().map(Commands::panel).collect();
    let plan = plan(name, Vec::new(), subjects, described);
    let without: Vec<Vec<String>> = panels.iter().map(|panel| panel.without.clone()).collect();
    for own in panels.iter().filter_map(|panel| panel.own.as_ref()) {
        built(own)?;
    }
    let quiet_wait = measuring.quiet_wait();
    let measure = move |cell: Cell| {
        let program = programs[cell.subject].as_ref().context("it is missing")?;
        let panel = &panels[cell.panel];
        let path = match &panel.own {
            Some(own) => own_path()?.with_file_name(own),
            None => program.path.clone(),
        };
        let words: Vec<&str> = panel.points[cell.point].1.split(' ').collect();
        let words = match words[..] {
            ["spawn", _] if program.name == "threads" => vec!["spawn", SPAWNS_OF_THREADS],
            _ => words,
        };
        if let ["create", count] = words[..] {
            use_memory(count.parse::<u64>()? * CREATED_BYTES)?;
        }
        let window = Window::open(None, quiet_wait)?;
        let mut command = pinned(&cpus, &path);
        let figures = numbers(&output(command.args(program.prefix).args(words))?)?;
        let usage = window.close()?;
        let is_complete = figures.len() == panel.metrics.len();
        ensure!(is_complete, "it printed {figures:?}");
        Ok(Taken { figures, usage })
    };
    let applies = move |panel: usize, subject: usize| !without[panel].contains(&names[subject]);
    Ok(Study::new(plan, SECONDS_EACH, measure).where_it(applies))
}

impl Commands {
    fn panel(&self) -> Panel {
        let numbered = |label: &String| label.parse().map(Point::number);
        let point =
            |(label, _): &(String, String)| numbered(label).unwrap_or_else(|_| Point::name(label));
        let metric =
            |(name, unit): &(String, String)| Metric::new(name, unit, Better::Less).drawn();
        let (points, metrics) = (
            self.points.iter().map(point),
            self.metrics.iter().map(metric),
        );
        Panel::new(&self.title, &self.axis, points.collect(), metrics.collect())
    }
}

/// Uses and releases so much memory. The host of a virtual machine provides each page at its first
/// use, which takes several microseconds; pages freed last are used next.
fn use_memory(bytes: u64) -> Result<()> {
    let bytes = bytes.min(available()? / 2);
    drop(black_box(vec![1_u8; usize::try_from(bytes)?]));
    Ok(())
}

/// Parses the numbers of the last line.
pub(super) fn numbers(text: &str) -> Result<Vec<f64>> {
    let words = text
        .lines()
        .next_back()
        .unwrap_or_default()
        .split_ascii_whitespace();
    let numbers: Result<Vec<f64>, _> = words.map(str::parse).collect();
    numbers.with_context(|| format!("it printed {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_has_the_numbers() {
        assert_eq!(numbers("ready\n1.5 20\n").unwrap(), [1.5, 20.0]);
        assert!(
            numbers("1.5 many\n")
                .unwrap_err()
                .to_string()
                .contains("many")
        );
    }
}

//! Studies of programs that measure by themselves and print numbers: `threads` and `micro`.
//!
//! Every figure comes from a process of its own; `bench/peers/README.md` describes the commands.

use std::hint::black_box;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::measure::Taken;
use crate::measure::memory::available;
use crate::measure::quiet::Window;
use crate::peers;
use crate::place::Place;
use crate::results::{self, Better, Metric, Panel, Point};
use crate::servers::pinned;
use crate::study::{Cell, Measuring, Study};

/// The slowest commands take some seconds.
const SECONDS_EACH: f64 = 2.0;
/// Memory of a created fiber: its page of stack, and what the system and the runtime keep of it.
const CREATED_BYTES: u64 = 6 * 1024;
/// A thread of the system takes fifty times as long to spawn.
const SPAWNS_OF_THREADS: &str = "20000";

/// A panel: what its points are, and the command of each.
struct Commands {
    title: &'static str,
    axis: &'static str,
    /// Names and units of the numbers that the commands print.
    metrics: &'static [(&'static str, &'static str)],
    points: &'static [(&'static str, &'static str)],
    /// Peers that cannot do it.
    without: &'static [&'static str],
}

const THREADS: &[Commands] = &[
    Commands {
        title: "created, all alive at once",
        axis: "fibers",
        metrics: &[("time", "ns"), ("memory", "B")],
        points: &[
            ("1000", "create 1000"),
            ("10000", "create 10000"),
            ("100000", "create 100000"),
            ("1000000", "create 1000000"),
        ],
        without: &[],
    },
    Commands {
        title: "yielding in turn",
        axis: "fibers",
        metrics: &[("time", "ns")],
        points: &[
            ("2", "yield 2 4000000"),
            ("100", "yield 100 4000000"),
            ("10000", "yield 10000 4000000"),
            ("1000000", "yield 1000000 4000000"),
        ],
        without: &[],
    },
    Commands {
        title: "spawned and joined, one after the other",
        axis: "",
        metrics: &[("time", "ns")],
        points: &[("one", "spawn 1000000")],
        without: &[],
    },
];

const MICRO: &[Commands] = &[
    Commands {
        title: "fibers",
        axis: "",
        metrics: &[("time", "ns")],
        points: &[
            ("spawn and join", "spawn 2000000"),
            ("yield among 2", "yield 2 10000000"),
            ("yield among 10,000", "yield 10000 10000000"),
            ("ping-pong, 1 worker", "pingpong 1 500000"),
            ("ping-pong, 2 workers", "pingpong 2 500000"),
        ],
        without: &["rayon"],
    },
    Commands {
        title: "a million sleepers",
        axis: "",
        metrics: &[("memory", "B")],
        points: &[("each", "sleepers 1000000")],
        without: &["rayon"],
    },
    Commands {
        title: "fork and join",
        axis: "",
        metrics: &[("time", "ms")],
        points: &[
            ("fib(38), 1 worker", "fib 1"),
            ("fib(38), 2 workers", "fib 2"),
            ("sort 10,000,000, 1 worker", "sort 1 10000000"),
            ("sort 10,000,000, 2 workers", "sort 2 10000000"),
        ],
        without: &["tokio", "may", "go"],
    },
];

/// Compares more and more fibers with threads of the system and other runtimes.
pub(crate) fn threads(measuring: &Measuring) -> Result<Study> {
    let words = [
        "threads",
        "Creating and yielding",
        "So many fibers (tasks, goroutines, threads) are created, and all are alive before the first may end: how long until the \
         last has begun, and by how much has the process grown? And how long is it from one to the next where so many do nothing \
         but yield?",
    ];
    let notes = [
        "Before each creation as much memory is used and released, so that no figure includes the time in which the host of a \
         virtual machine provides its first pages.",
        "One worker, on one CPU. A fiber has a stack from when it begins, at least one page of it in memory; a task of Tokio has \
         none.",
        "A row ends at the limit of a peer or of the machine.",
    ];
    let place = Place::apart_or_shared(1)?;
    let peers = ["tokio", "go", "may", "threads"];
    study(words, &notes, &peers, THREADS, measuring, place.server_cpus)
}

/// Compares fibers without I/O with other runtimes.
pub(crate) fn micro(measuring: &Measuring) -> Result<Study> {
    let question = "What do spawning, yielding, sleeping, messages and forks cost?";
    let words = ["micro", "Fibers alone", question];
    let peers = ["tokio", "may", "go", "rayon"];
    let cpus = crate::place::allowed_cpus()?;
    study(words, &[], &peers, MICRO, measuring, cpus)
}

fn study(
    words: [&str; 3],
    notes: &[&str],
    peers: &[&'static str],
    panels: &'static [Commands],
    measuring: &Measuring,
    cpus: Vec<usize>,
) -> Result<Study> {
    let own = peers::own("uthread", &["own"])?;
    let (subjects, programs) = peers::compared(vec![own], peers, measuring);
    let notes = notes.iter().map(|&note| note.to_owned()).collect();
    let described = panels.iter().map(Commands::panel).collect();
    let plan = results::Study::new(words, notes, subjects, described);
    let names: Vec<String> = plan
        .subjects
        .iter()
        .map(|subject| subject.name.clone())
        .collect();
    let quiet_wait = measuring.quiet_wait();
    let measure = move |cell: Cell| {
        let program = programs[cell.subject].as_ref().context("it is missing")?;
        let panel = &panels[cell.panel];
        let words: Vec<&str> = panel.points[cell.point].1.split(' ').collect();
        let words = match words[..] {
            ["spawn", _] if program.name == "threads" => vec!["spawn", SPAWNS_OF_THREADS],
            _ => words,
        };
        if let ["create", count] = words[..] {
            use_memory(count.parse::<u64>()? * CREATED_BYTES)?;
        }
        let window = Window::open(None, quiet_wait)?;
        let mut command = pinned(&cpus, &program.path);
        let figures = numbers(&output(command.args(program.prefix).args(words))?)?;
        let usage = window.close()?;
        let is_complete = figures.len() == panel.metrics.len();
        ensure!(is_complete, "it printed {figures:?}");
        Ok(Taken { figures, usage })
    };
    let applies =
        move |panel: usize, subject: usize| !panels[panel].without.contains(&&*names[subject]);
    Ok(Study::new(plan, SECONDS_EACH, measure).where_it(applies))
}

impl Commands {
    fn panel(&self) -> Panel {
        let point = |&(label, _): &(&str, &str)| {
            label
                .parse()
                .map_or_else(|_| Point::name(label), Point::number)
        };
        let metric = |&(name, unit): &(&str, &str)| Metric::new(name, unit, Better::Less).drawn();
        let points = self.points.iter().map(point).collect();
        Panel::new(
            self.title,
            self.axis,
            points,
            self.metrics.iter().map(metric).collect(),
        )
    }
}

/// Uses and releases so much memory. The host of a virtual machine provides each page at its first use, which takes several
/// microseconds; pages freed last are used next.
fn use_memory(bytes: u64) -> Result<()> {
    let bytes = bytes.min(available()? / 2);
    drop(black_box(vec![1_u8; usize::try_from(bytes)?]));
    Ok(())
}

/// Runs a command to its end without a standard input. Returns its output, or fails with its last line of errors.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("run {}", command.get_program().display()))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().rfind(|line| !line.trim().is_empty());
    let (status, last) = (output.status, last.unwrap_or_default());
    ensure!(status.success(), "{status}: {last}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
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
    fn a_program_prints_numbers_or_says_why_not() {
        let run = |script: &str| output(Command::new("sh").args(["-c", script]));
        assert_eq!(run("echo 1.5 20; echo x >&2").unwrap(), "1.5 20\n");
        let error = run("echo 1; echo none left >&2; echo >&2; exit 3").unwrap_err();
        assert_eq!(error.to_string(), "exit status: 3: none left");
        assert_eq!(run("cat").unwrap(), "", "it has no input");
        assert!(output(&mut Command::new("no-such-program")).is_err());
        assert_eq!(numbers("ready\n1.5 20\n").unwrap(), [1.5, 20.0]);
        assert!(
            numbers("1.5 many\n")
                .unwrap_err()
                .to_string()
                .contains("many")
        );
    }
}

//! Fibers alone, without I/O: what spawning, yielding, sleeping and messages cost, beside other runtimes.
//!
//! Every figure is taken by a process of its own; `bench/peers/README.md` tells what each measures.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::Rounds;
use crate::measure::quiet::Window;
use crate::measure::rounds::{Taken, interleave};
use crate::peers::{self, Program};
use crate::report::{Metric, Table, write_json};
use crate::say::tell;

/// The commands of the programs, in the order of `METRICS`. Each runs for some tenths of a second.
const COMMANDS: &[&[&str]] = &[
    &["spawn", "2000000"],
    &["yield", "2", "10000000"],
    &["yield", "10000", "10000000"],
    &["sleepers", "1000000"],
    &["pingpong", "1", "500000"],
    &["pingpong", "2", "500000"],
    &["fib", "1"],
    &["fib", "2"],
    &["sort", "1", "10000000"],
    &["sort", "2", "10000000"],
];

const METRICS: &[Metric] = &[
    Metric::new("spawn and join, ns", 1),
    Metric::new("yield, 2 fibers, ns", 1),
    Metric::new("yield, 10,000, ns", 1),
    Metric::new("memory per sleeper, B", 0),
    Metric::new("ping-pong, 1 worker, ns", 1),
    Metric::new("ping-pong, 2 workers, ns", 1),
    Metric::new("fib(38), 1 worker ms", 1),
    Metric::new("fib(38), 2 workers ms", 1),
    Metric::new("sort 10M, 1 worker ms", 0),
    Metric::new("sort 10M, 2 workers ms", 0),
];

const FIBERS: &[&str] = &["spawn", "yield", "sleepers", "pingpong"];
const FORKS: &[&str] = &["fib", "sort"];
const OURS: &[&str] = &["spawn", "yield", "sleepers", "pingpong", "fib", "sort"];

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    rounds: Rounds,
}

struct Subject {
    program: Program,
    /// What it has a program for.
    commands: &'static [&'static str],
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let subjects = subjects()?;
    let Rounds { rounds, json, .. } = &args.rounds;
    let progress = |round, subject: usize| {
        let subject: &Subject = &subjects[subject];
        tell!("round {} {}", round + 1, subject.program.name);
    };
    let taken = interleave(subjects.len(), *rounds as usize, progress, |subject| {
        let window = Window::open(None, args.rounds.quiet_wait())?;
        let figures = COMMANDS
            .iter()
            .map(|command| figure(&subjects[subject], command))
            .collect::<Result<_>>()?;
        let usage = window.close()?;
        Ok(Taken { figures, usage })
    })?;
    let table = Table {
        title: format!("fibers alone (sleepers: a million), {rounds} rounds; median (min..max)"),
        metrics: METRICS,
        comparisons: (1..subjects.len()).map(|peer| (0, peer)).collect(),
        subjects: subjects
            .iter()
            .map(|subject| subject.program.name.to_owned())
            .collect(),
        taken,
    };
    table.print();
    write_json(
        json.as_deref(),
        &json!({ "study": "micro", "tables": [table.to_json()] }),
    )
}

/// Ours first, then the peers that can be built here; the others are named.
fn subjects() -> Result<Vec<Subject>> {
    let mut subjects = vec![Subject {
        program: peers::own("uthread", &["own"])?,
        commands: OURS,
    }];
    for (name, commands) in [
        ("tokio", FIBERS),
        ("may", FIBERS),
        ("go", FIBERS),
        ("rayon", FORKS),
    ] {
        let program = peers::find(name).or_tell();
        subjects.extend(program.map(|program| Subject { program, commands }));
    }
    Ok(subjects)
}

/// Runs one command of a program; `NAN` where the runtime cannot do it, which is told.
fn figure(subject: &Subject, command: &[&str]) -> Result<f64> {
    let (program, shown) = (&subject.program, command.join(" "));
    let name = program.name;
    if !subject.commands.contains(&command[0]) {
        return Ok(f64::NAN);
    }
    let output = Command::new(&program.path)
        .args(program.prefix)
        .args(command)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {}", program.path.display()))?;
    if !output.status.success() {
        ensure!(name != "uthread", "own {shown} failed: {}", output.status);
        tell!("{name} cannot do {shown}: {}", output.status);
        return Ok(f64::NAN);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim()
        .parse()
        .with_context(|| format!("{name} {shown} printed {text:?}"))
}

//! Published crates that block or are async, used unpatched inside fibers: which of them end right,
//! and which stop other fibers.
//!
//! A *use* is a small program around one crate. It runs in a process of its own, as a use that
//! hangs keeps its workers.
//!
//! There are two programs of the same contents: `uthread-crates`, and `uthread-crates-interposed`, which
//! names `uthread-interpose`.

mod databases;
mod mode;
mod services;
mod table;
mod threads;
mod trial;
mod uses;

use std::env;
use std::process::ExitCode;

use mode::Mode;
use table::Plan;
use uses::Use;

const HELP: &str = "\
Runs published crates, unpatched, inside fibers.

Usage:
  uthread-crates run USE [--workers N] [--mode default|lean] [--copies N]
  uthread-crates table [--modes MODE,..] [--workers N,..] [--only TEXT,..] [--copies N]
                       [--times N]
  uthread-crates threads [--workers N] [--only TEXT,..] [--copies N]
  uthread-crates list

`run` runs one use in this process, and prints one line. `table` runs each use in a process of its own, and prints a table
in Markdown; `--only` selects the uses whose name contains one of the texts. `threads` prints a table of the threads that
copies of each use take, 100 at once by default, in this program and in `uthread-crates-interposed` beside it.
`list` prints the uses. `--copies` runs a use
several times at once, in one runtime: each copy has a fiber that is stuck. `--times` repeats each trial until it fails, at
most N times; the table shows in which run it failed.

Exit codes: 0 success, 1 a use failed (for `table`: one in the default mode), 2 wrong arguments.";

/// Runs the program with the arguments of the process.
pub fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let result = match arguments.first().map(String::as_str) {
        Some("run") => run(&arguments[1..]),
        Some("table") => table(&arguments[1..]),
        Some("threads") => threads(&arguments[1..]),
        Some("list") => {
            for item in uses::all() {
                println!("{}: {}", item.name, item.title);
            }
            Ok(true)
        }
        _ => Err(HELP.to_owned()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<bool, String> {
    let (name, options) = arguments.split_first().ok_or(HELP)?;
    let item = uses::find(name).ok_or_else(|| format!("there is no use `{name}`: see `list`"))?;
    let (mut mode, mut workers, mut copies) = (Mode::Default, 2, 1);
    for (option, value) in pairs(options)? {
        match option {
            "--mode" => mode = value.parse()?,
            "--workers" => workers = number(value)?,
            "--copies" => copies = number(value)?,
            _ => return Err(format!("unknown option `{option}`\n\n{HELP}")),
        }
    }
    // Kept until the use has ended.
    let _service = item.service.map(services::provide).transpose()?;
    let report = trial::run(item, mode, workers, item.copies(copies))?;
    println!("{report}");
    Ok(report.failure.is_none())
}

fn table(arguments: &[String]) -> Result<bool, String> {
    let mut plan = Plan {
        modes: Mode::ALL.to_vec(),
        workers: vec![1, 2],
        uses: uses::all().collect(),
        copies: 1,
        times: 1,
    };
    for (option, value) in pairs(arguments)? {
        let parts = value.split(',');
        match option {
            "--modes" => plan.modes = parts.map(str::parse).collect::<Result<_, _>>()?,
            "--workers" => plan.workers = parts.map(number).collect::<Result<_, _>>()?,
            "--copies" => plan.copies = number(value)?,
            "--times" => plan.times = number(value)?,
            "--only" => {
                let is_named = |item: &&Use| parts.clone().any(|part| item.name.contains(part));
                plan.uses = uses::all().filter(is_named).collect();
            }
            _ => return Err(format!("unknown option `{option}`\n\n{HELP}")),
        }
    }
    table::run(&plan)
}

fn threads(arguments: &[String]) -> Result<bool, String> {
    let (mut selected, mut workers, mut copies) = (Vec::from_iter(uses::all()), 1, 100);
    for (option, value) in pairs(arguments)? {
        match option {
            "--workers" => workers = number(value)?,
            "--copies" => copies = number(value)?,
            "--only" => {
                let is_named = |item: &&Use| value.split(',').any(|part| item.name.contains(part));
                selected.retain(is_named);
            }
            _ => return Err(format!("unknown option `{option}`\n\n{HELP}")),
        }
    }
    threads::run(&selected, workers, copies)
}

/// Splits arguments into options and their values.
fn pairs(arguments: &[String]) -> Result<Vec<(&str, &str)>, String> {
    let chunks = arguments.chunks(2).map(|chunk| match chunk {
        [option, value] => Ok((option.as_str(), value.as_str())),
        _ => Err(format!("an option without a value\n\n{HELP}")),
    });
    chunks.collect()
}

fn number(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("`{text}` is not a number above zero")),
    }
}

//! All studies in one run, written as one page and as JSON.
//!
//! Each measurement is in the journal at once, so the same command goes on after a Ctrl-C, or worse.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use anyhow::{Context, Result};
use clap::ValueEnum;
use rustix::system::uname;

use super::{compute, disk, echo, http, latency, requests, threads};
use crate::measure::rounds::Taken;
use crate::page;
use crate::place;
use crate::results::{self, Results};
use crate::setup::Unavailable;
use crate::study::{
    Cell, Journal, Measuring, Settings, Study, run as run_studies, stop_on_interrupt,
};
use crate::summary;

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Which {
    Echo,
    Compute,
    Latency,
    Requests,
    Threads,
    Http,
    Disk,
}

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    measuring: Measuring,
    #[command(flatten)]
    disk: disk::Place,
    /// Which studies
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Which::value_variants().iter().copied())]
    studies: Vec<Which>,
    /// The folder of the page, its JSON and the journal
    #[arg(long, value_name = "DIR", default_value = "target/report")]
    output: PathBuf,
    /// Forget what an earlier run has measured
    #[arg(long)]
    anew: bool,
}

/// Whether all was measured.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let stop = stop_on_interrupt()?;
    let output = &args.output;
    fs::create_dir_all(output).with_context(|| format!("make {}", output.display()))?;
    let journal = output.join("journal.jsonl");
    if args.anew && journal.exists() {
        fs::remove_file(&journal).with_context(|| format!("remove {}", journal.display()))?;
    }
    let settings = Settings::of_this_program(args.measuring.seconds)?;
    let mut journal = Journal::open(&journal, &settings)?;
    let mut studies = Vec::new();
    for which in &args.studies {
        studies.push(prepare(*which, args, &mut journal)?);
    }
    let found = run_studies(&mut studies, &args.measuring, &mut journal, &stop)?;
    let mut results = Results {
        facts: facts(&args.measuring),
        studies: found,
        ..Results::default()
    };
    results.summary = summary::markdown(&results);
    write(&results, output)?;
    let was_stopped = stop.load(Ordering::Relaxed);
    if was_stopped {
        eprintln!("ended early; the same command goes on from here");
    }
    Ok(!was_stopped)
}

fn write(results: &Results, folder: &Path) -> Result<()> {
    let json = folder.join("report.json");
    let text = serde_json::to_string(results)? + "\n";
    page::write_whole(&json, text.as_bytes())
        .with_context(|| format!("write {}", json.display()))?;
    let html = json.with_extension("html");
    page::write(results, &html)?;
    println!("{}\n{}", json.display(), html.display());
    Ok(())
}

fn prepare(which: Which, args: &Args, journal: &mut Journal) -> Result<Box<dyn Study>> {
    let measuring = &args.measuring;
    match which {
        Which::Echo => echo::study(measuring),
        Which::Compute => compute::study(measuring),
        Which::Latency => latency::study(measuring, journal),
        Which::Threads => threads::study(measuring),
        Which::Http => http::study(measuring),
        Which::Requests => requests::study(measuring),
        Which::Disk => or_absent("disk", disk::study(measuring, &args.disk)),
    }
}

/// A study that cannot be made here is told on the page, and the others are made.
fn or_absent(name: &str, study: Result<Box<dyn Study>>) -> Result<Box<dyn Study>> {
    match study {
        Err(error) if error.is::<Unavailable>() => {
            eprintln!("{name} is left out: {error:#}");
            Ok(Box::new(Absent(results::Study {
                name: name.to_owned(),
                title: format!("Not measured: {name}"),
                question: format!("{error:#}"),
                notes: Vec::new(),
                subjects: Vec::new(),
                panels: Vec::new(),
            })))
        }
        study => study,
    }
}

struct Absent(results::Study);

impl Study for Absent {
    fn plan(&self) -> &results::Study {
        &self.0
    }

    fn measure(&mut self, _cell: Cell) -> Result<Taken> {
        unreachable!("it has no cells")
    }

    fn seconds_each(&self) -> f64 {
        0.0
    }
}

/// When, of what, and on what.
fn facts(measuring: &Measuring) -> Vec<(String, String)> {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let Measuring {
        rounds, seconds, ..
    } = measuring;
    let facts = [
        (
            "date",
            Some(humantime::format_rfc3339_seconds(SystemTime::now()).to_string()),
        ),
        ("uthread", Some(version())),
        ("processor", place::processor()),
        (
            "CPUs",
            place::allowed_cpus()
                .ok()
                .map(|cpus| cpus.len().to_string()),
        ),
        ("memory", memory(&meminfo)),
        (
            "kernel",
            Some(uname().release().to_string_lossy().into_owned()),
        ),
        (
            "measured",
            Some(format!("{rounds} rounds, {seconds} s each")),
        ),
    ];
    let known = facts
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    known.collect()
}

/// With the commit it was built from, where that can be told.
fn version() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let commit = Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .current_dir(root)
        .output();
    let commit = commit.ok().filter(|output| output.status.success());
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    match commit {
        Some(commit) => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
        None => env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn memory(meminfo: &str) -> Option<String> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(format!("{:.1} GiB", kib / (1024.0 * 1024.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_study_that_cannot_be_made_here_is_told() {
        let unavailable = Unavailable("no such disk".to_owned());
        let absent = or_absent("disk", Err(unavailable.into())).unwrap();
        assert_eq!(absent.plan().question, "no such disk");
        assert!(or_absent("disk", Err(anyhow::anyhow!("a bug"))).is_err());
    }

    #[test]
    fn the_memory_is_told_in_gib() {
        let check =
            |text: &str, expected: Option<&str>| assert_eq!(memory(text).as_deref(), expected);
        check(
            "MemTotal:       25165824 kB\nMemFree: 1 kB\n",
            Some("24.0 GiB"),
        );
        check("MemFree: 1 kB\n", None);
        check("MemTotal: many kB\n", None);
    }
}

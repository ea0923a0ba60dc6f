//! All studies in one run, or some that take the place of those of an earlier run, written as one page and as JSON.
//!
//! Each measurement is in the journal at once, so the same command goes on after a Ctrl-C, or worse. When a run has come to its
//! end, the report has all of it, and the next begins a journal of its own.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};
use clap::ValueEnum;

use super::{compute, disk, echo, http, latency, requests, threads};
use crate::measure::rounds::Taken;
use crate::merge;
use crate::page;
use crate::results::{self, Results};
use crate::say::{say, tell};
use crate::setup::Unavailable;
use crate::study::{
    Cell, Journal, Measuring, Settings, Study, run as run_studies, stop_on_interrupt,
};
use crate::summary;

/// In the order of the page.
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
    /// Which studies; the others stay as the report in the folder has them
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Which::value_variants().iter().copied())]
    studies: Vec<Which>,
    /// The folder of the page, its JSON and the journal
    #[arg(long, value_name = "DIR", default_value = "target/report")]
    output: PathBuf,
    /// Forget what earlier runs have measured: the journal, and the report in the folder
    #[arg(long)]
    anew: bool,
}

/// Whether all was measured.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let stop = stop_on_interrupt()?;
    let output = &args.output;
    fs::create_dir_all(output).with_context(|| format!("make {}", output.display()))?;
    let (journal_path, json) = (output.join("journal.jsonl"), output.join("report.json"));
    if args.anew {
        [&journal_path, &json].into_iter().try_for_each(forget)?;
    }
    let earlier = read_earlier(&json)?;
    let settings = Settings::of_this_program(args.measuring.seconds)?;
    let mut journal = Journal::open(&journal_path, &settings)?;
    let mut studies = Vec::new();
    for which in Which::value_variants() {
        if args.studies.contains(which) {
            studies.push(prepare(*which, args, &mut journal)?);
        }
    }
    let found = run_studies(&mut studies, &args.measuring, &mut journal, &stop)?;
    drop(journal);
    let was_stopped = stop.load(Ordering::Relaxed);
    let names: Vec<&str> = studies
        .iter()
        .map(|study| study.plan().name.as_str())
        .collect();
    let mut results = Results {
        studies: merge::merge(earlier.studies, found, was_stopped, &order()),
        ..Results::default()
    };
    results.summary = summary::markdown(&results);
    write(&results, &json)?;
    if was_stopped {
        tell!("ended early; the same command goes on from here");
    } else {
        Journal::forget(&journal_path, &names)?;
    }
    Ok(!was_stopped)
}

/// The names of all studies, in the order of the page.
fn order() -> Vec<String> {
    let values = Which::value_variants()
        .iter()
        .filter_map(Which::to_possible_value);
    values.map(|value| value.get_name().to_owned()).collect()
}

fn forget(path: &PathBuf) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// What is there already, if anything is. What cannot be read is somebody's, and is not written over.
fn read_earlier(json: &Path) -> Result<Results> {
    let text = match fs::read_to_string(json) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Results::default()),
        text => text.with_context(|| format!("read {}", json.display()))?,
    };
    serde_json::from_str(&text).with_context(|| {
        format!(
            "{} is no report that this build can add to: move it away, forget it and the journal with --anew, or name \
             another folder with --output",
            json.display()
        )
    })
}

fn write(results: &Results, json: &Path) -> Result<()> {
    let text = serde_json::to_string(results)? + "\n";
    page::write_whole(json, text.as_bytes())
        .with_context(|| format!("write {}", json.display()))?;
    let html = json.with_extension("html");
    page::write(results, &html)?;
    say!("{}\n{}", json.display(), html.display());
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
            tell!("{name} is left out: {error:#}");
            Ok(Box::new(Absent(results::Study {
                name: name.to_owned(),
                title: format!("Not measured: {name}"),
                question: format!("{error:#}"),
                facts: Vec::new(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_page_is_fixed() {
        let expected = "echo compute latency requests threads http disk";
        assert_eq!(order().join(" "), expected);
    }

    #[test]
    fn what_is_no_report_is_an_error_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let json = folder.path().join("report.json");
        assert_eq!(read_earlier(&json).unwrap(), Results::default());
        fs::write(&json, r#"{ "studies": [] }"#).unwrap();
        assert_eq!(read_earlier(&json).unwrap(), Results::default());
        for text in ["", "{", r#"{ "studies": [{ "name": "echo" }] }"#] {
            fs::write(&json, text).unwrap();
            let error = format!("{:#}", read_earlier(&json).unwrap_err());
            assert!(error.contains("--anew"), "{error}");
        }
        assert!(
            read_earlier(folder.path()).is_err(),
            "a folder is no report"
        );
        forget(&json).unwrap();
        assert!(!json.exists());
        forget(&json).unwrap();
        assert!(forget(&folder.path().to_owned()).is_err());
    }

    #[test]
    fn a_study_that_cannot_be_made_here_is_told() {
        let unavailable = Unavailable("no such disk".to_owned());
        let absent = or_absent("disk", Err(unavailable.into())).unwrap();
        assert_eq!(absent.plan().question, "no such disk");
        assert!(or_absent("disk", Err(anyhow::anyhow!("a bug"))).is_err());
    }
}

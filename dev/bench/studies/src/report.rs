//! `report`: all studies in one run, or some that replace those of an earlier report, written as
//! one page and as a JSON file for each study. `page` draws the page again.
//!
//! Each measurement is in the journal at once, so that the same command continues after a Ctrl-C or
//! a crash. A finished run is in the report, and the next one starts its own journal.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};
use clap::ValueEnum;
use uthread_report::file::write_whole;
use uthread_report::results::Results;
use uthread_report::study::{Journal, Settings, Study, run as run_studies, stop_on_interrupt};
use uthread_report::{Unavailable, json, say, tell};

use crate::alone::Measuring;
use crate::merge;
use crate::page;
use crate::setup::{own_path, peer_path};
use crate::studies::{bulk, counter, disk, echo, haskell, http, memory, programs, search, service};
use crate::{summary, targets};

/// In the order of the page.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Which {
    Echo,
    Compute,
    Latency,
    Bulk,
    Threads,
    Memory,
    Counter,
    Http,
    Service,
    Haskell,
    Disk,
    Search,
}

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    measuring: Measuring,
    #[command(flatten)]
    disk: disk::DiskArgs,
    #[command(flatten)]
    search: search::SearchArgs,
    /// Run these studies; the others stay as they are in the report of the folder
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Which::value_variants().iter().copied())]
    studies: Vec<Which>,
    /// Folder of the studies, the page and the journal
    #[arg(long, value_name = "DIR", default_value = "target/report")]
    output: PathBuf,
    /// Discard earlier measurements: the journal, and the report in the folder
    #[arg(long)]
    anew: bool,
}

#[derive(clap::Args)]
pub(crate) struct PageArgs {
    /// Folder of a report, or a file of results
    #[arg(value_name = "REPORT")]
    report: PathBuf,
    /// Path of the page [default: beside the report, as .html]
    #[arg(long, value_name = "FILE.html")]
    output: Option<PathBuf>,
}

/// Draws a page again from its results, for instance by a newer version of the drawing.
pub(crate) fn draw_again(args: &PageArgs) -> Result<()> {
    let results = if args.report.is_dir() {
        read(&args.report)?
    } else {
        read_file(&args.report)?
    };
    let beside = || args.report.with_extension("html");
    let output = args.output.clone().unwrap_or_else(beside);
    write_page(&results, &output)?;
    say!("{}", output.display());
    Ok(())
}

/// Runs the studies and writes the report. Returns whether everything was measured.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let stop = stop_on_interrupt()?;
    let output = &args.output;
    fs::create_dir_all(output).with_context(|| format!("make {}", output.display()))?;
    let journal_path = output.join("journal.json");
    if args.anew {
        forget(&journal_path)?;
        files(output).try_for_each(|file| forget(&file))?;
    }
    let earlier = read(output).context(
        "this build cannot extend the report: move it away, discard it and the journal with --anew, or name another \
         folder with --output",
    )?;
    let settings = settings(args.measuring.seconds)?;
    let mut journal = Journal::open(&journal_path, &settings)?;
    let mut studies = Vec::new();
    for which in Which::value_variants() {
        if args.studies.contains(which) {
            studies.push(prepare(*which, args, &mut journal)?);
        }
    }
    let found = run_studies(&mut studies, &args.measuring.extent(), &mut journal, &stop)?;
    let was_stopped = stop.load(Ordering::Relaxed);
    let names: Vec<&str> = studies
        .iter()
        .map(|study| study.plan.name.as_str())
        .collect();
    let studies = merge::merge(earlier.studies, found, was_stopped, &order());
    write(&Results { studies }, output)?;
    if was_stopped {
        tell!("interrupted; the same command continues from here");
    } else {
        journal.forget(&names)?;
    }
    Ok(!was_stopped)
}

/// Returns the settings of measurements by this program and ours among the peers.
fn settings(seconds: u64) -> Result<Settings> {
    let mut hasher = DefaultHasher::new();
    for path in [own_path()?, peer_path()?] {
        hasher.write(&fs::read(&path).unwrap_or_default());
    }
    Ok(Settings {
        program: format!("{:016x}", hasher.finish()),
        seconds,
    })
}

/// Returns the names of all studies in the order of the page.
pub(crate) fn order() -> Vec<String> {
    let values = Which::value_variants()
        .iter()
        .filter_map(Which::to_possible_value);
    values.map(|value| value.get_name().to_owned()).collect()
}

/// Returns the files of the studies in the folder of a report, in the order of the page.
fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let names = order().into_iter();
    names.map(move |name| folder.join(name + ".json"))
}

fn forget(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Reads the studies in the folder of a report.
pub(crate) fn read(folder: &Path) -> Result<Results> {
    let mut results = Results::default();
    for file in files(folder).filter(|file| file.exists()) {
        results.studies.extend(read_file(&file)?.studies);
    }
    Ok(results)
}

fn read_file(path: &Path) -> Result<Results> {
    let file = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("read {file}"))?;
    serde_json::from_str(&text).with_context(|| format!("{file} is not a report"))
}

fn write(results: &Results, folder: &Path) -> Result<()> {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        write_whole(&path, text.as_bytes()).with_context(|| format!("write {}", path.display()))
    };
    for study in &results.studies {
        let studies = vec![study.clone()];
        let name = format!("{}.json", study.name);
        write(&name, &json::format(&Results { studies })?)?;
    }
    let summary = summary::markdown(results);
    write("summary.md", &(summary.join("\n") + "\n"))?;
    let html = folder.join("report.html");
    write_page(results, &html)?;
    say!("{}\n{}", folder.display(), html.display());
    Ok(())
}

fn write_page(results: &Results, output: &Path) -> Result<()> {
    let page = page::draw(results, &targets::judge(results));
    write_whole(output, page.as_bytes()).with_context(|| format!("write {}", output.display()))
}

fn prepare(which: Which, args: &Args, journal: &mut Journal) -> Result<Study> {
    let measuring = &args.measuring;
    match which {
        Which::Echo => echo::echo(measuring, &echo::ECHO_CONNECTIONS),
        Which::Compute => echo::compute(measuring),
        Which::Latency => echo::latency(measuring, journal),
        Which::Bulk => bulk::study(measuring, None, &bulk::BULK_CONNECTIONS),
        Which::Threads => programs::threads(measuring),
        Which::Memory => memory::study(measuring),
        Which::Counter => counter::study(measuring),
        Which::Haskell => haskell::study(measuring),
        Which::Service => service::study(measuring),
        Which::Http => http::study(measuring, None),
        Which::Disk => or_absent("disk", disk::study(measuring, &args.disk)),
        Which::Search => or_absent("search", search::study(measuring, &args.search)),
    }
}

/// Replaces a study that is unavailable here by one that says why, so that the others can run.
fn or_absent(name: &str, study: Result<Study>) -> Result<Study> {
    match study {
        Err(error) if error.is::<Unavailable>() => {
            tell!("{name} is left out: {error:#}");
            Ok(Study::absent(name, &format!("{error:#}")))
        }
        study => study,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_page_is_fixed() {
        let expected =
            "echo compute latency bulk threads memory counter http service haskell disk search";
        assert_eq!(order().join(" "), expected);
    }

    #[test]
    fn a_page_is_drawn_from_json() {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("echo.json");
        let args = |output| PageArgs {
            report: report.clone(),
            output,
        };
        assert!(draw_again(&args(None)).is_err());
        fs::write(&report, "{").unwrap();
        let error = format!("{:#}", draw_again(&args(None)).unwrap_err());
        assert!(error.contains("echo.json is not a report: EOF"), "{error}");

        fs::write(&report, serde_json::to_string(&Results::default()).unwrap()).unwrap();
        let other = folder.path().join("page.html");
        fs::write(&other, "an earlier page").unwrap();
        draw_again(&args(None)).unwrap();
        draw_again(&args(Some(other.clone()))).unwrap();
        let page = fs::read_to_string(report.with_extension("html")).unwrap();
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        assert_eq!(fs::read_to_string(&other).unwrap(), page);
        let whole = PageArgs {
            report: folder.path().to_owned(),
            output: Some(other.clone()),
        };
        draw_again(&whole).unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), page);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 3);
    }

    #[test]
    fn an_unavailable_study_has_a_reason() {
        let unavailable = Unavailable("no such disk".to_owned());
        let absent = or_absent("disk", Err(unavailable.into())).unwrap();
        assert_eq!(absent.plan.question, "no such disk");
        assert!(or_absent("disk", Err(anyhow::anyhow!("a bug"))).is_err());
    }
}

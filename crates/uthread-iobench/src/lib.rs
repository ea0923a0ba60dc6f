//! Measures disk I/O by every technique that Linux has, side by side: blocking calls, a pool of
//! threads, POSIX AIO, Linux AIO, a bare ring, and fibers on each driver; `fio` is the reference.
//!
//! The README explains the scenarios and the rules that keep the figures honest. Each measurement
//! is a process of its own, which this program starts from itself: so CPU time, context switches
//! and memory are those of one technique.

mod options;

mod losses;
mod scenario;
mod study;

mod trace;

mod job;
mod kv;
mod load;
mod technique;
mod urgent;

mod fio;

mod test_files;

mod blocks;
mod tally;
mod usage;
mod walk;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use uthread_report::file::{check_output, write_whole};
use uthread_report::page::{Page, Section, counts, draw};
use uthread_report::results::{Results, counted};
use uthread_report::study::{Extent, Journal, Study, run as run_studies, stop_on_interrupt};
use uthread_report::{check_said, facts, json, machine, markdown, say, tell};

pub use fio::{Engine, run_fio};
pub use job::Job;
pub use load::{Load, Pattern, Rivals};
pub use options::Options;
pub use tally::{Latencies, PERCENTILES, Report};
pub use technique::Technique;
pub use test_files::TestFiles;
pub use usage::cpu_of_children;
pub use uthread_report::Unavailable;

use scenario::Scenario;

const LEAD: &str = "The same requests to one disk by every technique that Linux has, past the page cache, in interleaved rounds. What \
                    could not be measured is named, not guessed.";

/// Lead of a page without the scenarios of a disk.
const LEAD_URGENT: &str = "What the priorities of fibers change, by latencies beside rivals and by the order in which the kernel takes requests.";

/// How the figures came about, for readers who doubt them: in all scenarios, of a disk, and of
/// `urgent-trace`.
const METHOD: &str = include_str!("method/all.html");
const METHOD_DISK: &str = include_str!("method/disk.html");
const METHOD_TRACE: &str = include_str!("method/trace.html");

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was measured.
    Measured,
    /// Ctrl-C ended the run. What was measured until then has been written.
    Interrupted,
}

/// Runs the scenarios, prints their tables, and writes JSON and page if the options ask for them.
///
/// # Errors
///
/// [`Unavailable`] if a scenario cannot start here: no disk, no space, no permission, no tracing.
/// Any other error if a file cannot be written, if `urgent-trace` has found entries in a wrong
/// order, or if measurements have failed: it has a line for each scenario. What was measured has
/// been written.
pub fn run(options: &Options) -> Result<Outcome> {
    if let Some(job) = &options.job {
        job::perform(job)?;
        return Ok(Outcome::Measured);
    }
    let stop = stop_on_interrupt()?;
    [&options.json, &options.html]
        .into_iter()
        .flatten()
        .try_for_each(|path| check(path))?;
    check_names(options)?;
    let scenarios = options.scenarios();
    let fio = fio::find();
    let files = prepare(options, &scenarios, &fio, &stop)?;
    if stop.load(Ordering::Relaxed) {
        return Ok(Outcome::Interrupted);
    }
    let mut studies = Vec::new();
    let mut finishes = Vec::new();
    for scenario in scenarios {
        let (study, finish) = match scenario {
            Scenario::UrgentTrace => trace::study(options, &stop),
            _ => study::of(scenario, options, files.as_ref(), &fio),
        }
        .or_else(|error| absent(scenario, options, error))?;
        studies.push(study);
        finishes.push(finish);
    }
    let extent = Extent {
        rounds: options.rounds as usize,
        only: options.only.clone(),
        facts: facts_of(options, files.as_ref()),
    };
    let mut found = run_studies(&mut studies, &extent, &mut Journal::default(), &stop)?;
    let verdicts: Vec<Result<()>> = finishes
        .into_iter()
        .zip(&mut found)
        .map(|(finish, study)| finish(study).and_then(|()| losses::check(study, options)))
        .collect();
    let results = Results { studies: found };
    write(options, &results)?;
    if stop.load(Ordering::Relaxed) {
        tell!("interrupted: the results are those of the measurements until then");
        return Ok(Outcome::Interrupted);
    }
    judge(verdicts, &results)?;
    check_said()?;
    Ok(Outcome::Measured)
}

/// Fails with a line for each scenario that has failed, or if no scenario had anything to measure.
fn judge(verdicts: Vec<Result<()>>, results: &Results) -> Result<()> {
    let errors = verdicts.into_iter().filter_map(Result::err);
    let lines: Vec<String> = errors.map(|error| format!("{error:#}")).collect();
    ensure!(lines.is_empty(), "{}", lines.join("\n"));
    let mut studies = results.studies.iter();
    ensure!(
        studies.any(|study| study.measurements() > 0),
        "nothing was measured: no scenario has the techniques of --only"
    );
    Ok(())
}

/// Writes as many files as the scenarios need.
fn prepare(
    options: &Options,
    scenarios: &[Scenario],
    fio: &Result<String, String>,
    stop: &AtomicBool,
) -> Result<Option<TestFiles>> {
    let shared = scenarios.iter().filter(|scenario| !scenario.overwrites());
    let shared = shared.map(|scenario| scenario.files()).max();
    // The last file is for those that overwrite it.
    let mut scenarios = scenarios.iter();
    let is_overwritten = scenarios.any(|&scenario| study::overwrites(scenario, options, fio));
    let count = shared.unwrap_or(0) + usize::from(is_overwritten);
    let files = || TestFiles::prepare(&options.dir, count, options.mib, options.seed, stop);
    (count > 0).then(files).transpose()
}

/// Completes the results of a study, and judges them.
type Finish = Box<dyn FnOnce(&mut uthread_report::results::Study) -> Result<()>>;

/// Replaces a scenario that is unavailable by one that says why, unless it was asked for by name.
fn absent(scenario: Scenario, options: &Options, error: anyhow::Error) -> Result<(Study, Finish)> {
    if !error.is::<Unavailable>() || options.scenarios.contains(&scenario) {
        return Err(error);
    }
    tell!("{scenario} is left out: {error:#}");
    let study = Study::absent(scenario.name(), &format!("{error:#}"));
    Ok((study, Box::new(|_| Ok(()))))
}

/// Returns version, command, machine, disk and extent, in words.
fn facts_of(options: &Options, files: Option<&TestFiles>) -> Vec<(String, String)> {
    let mut facts = facts::of_run(env!("CARGO_PKG_VERSION"));
    facts.extend(machine::facts());
    facts.extend(files.into_iter().flat_map(TestFiles::facts));
    let measured = format!(
        "{} with {} of each technique, seed {}",
        counted(options.rounds, "round"),
        counted(options.blocks, "request"),
        options.seed
    );
    facts.push(("measured".to_owned(), measured));
    facts
}

fn check(path: &Path) -> Result<()> {
    let unavailable = |error| Unavailable(format!("cannot write {}: {error}", path.display()));
    Ok(check_output(path).map_err(unavailable)?)
}

/// Checks that there is a technique of each name of `--only`.
fn check_names(options: &Options) -> Result<()> {
    let names = study::names();
    let mut only = options.only.iter();
    match only.find(|name| !names.contains(*name)) {
        None => Ok(()),
        Some(name) => {
            let names = names.join(", ");
            Err(Unavailable(format!("there is no technique {name:?}: {names}")).into())
        }
    }
}

fn write(options: &Options, results: &Results) -> Result<()> {
    for study in &results.studies {
        say!("{}", markdown::show(study));
    }
    if let Some(path) = &options.json {
        write_whole(path, json::format(results)?.as_bytes())
            .with_context(|| format!("write {}", path.display()))?;
    }
    if let Some(path) = &options.html {
        let scenarios = options.scenarios();
        let has_disk = scenarios.iter().any(|scenario| scenario.files() > 0);
        let parts = [
            (has_disk, METHOD_DISK),
            (true, METHOD),
            (scenarios.contains(&Scenario::UrgentTrace), METHOD_TRACE),
        ];
        let parts = parts.iter().filter(|(applies, _)| *applies);
        let mut body = counts(results);
        body.0 += &format!(
            "<ul>\n{}</ul>\n",
            parts.map(|(_, part)| *part).collect::<String>()
        );
        let method = Section {
            id: "method",
            title: "Method",
            body,
        };
        let page = Page {
            title: "uthread iobench",
            lead: if has_disk { LEAD } else { LEAD_URGENT },
            command: "uthread iobench",
            sections: vec![method],
        };
        write_whole(path, draw(&page, results).as_bytes())
            .with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

//! Runs studies: every round measures each cell once, and every measurement is written to the
//! journal at once, so that an interrupted run continues where it stopped.
//!
//! Each round starts one subject further, so that drift (temperature, neighbours, page cache)
//! affects all subjects alike. A study is finished before the next begins, so that an interrupted
//! run has whole studies to show.

mod journal;
mod progress;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Error, Result};
use signal_hook::consts::SIGINT;
use signal_hook::flag;

pub use journal::{Journal, Settings};

use crate::measure::{Taken, least_disturbed};
use crate::results::{self, Facts, Round, significant};
use crate::{facts, tell};
use progress::Progress;

/// A cell that failed in this many rounds is not tried again: each attempt may take as long as the
/// timeout of a server.
pub const FAILURES_MAX: usize = 2;
/// Length of a reason, which has to fit under a table.
const REASON_CHARS_MAX: usize = 300;
/// Exit code of a program that Ctrl-C ended, as shells have it.
const EXIT_INTERRUPTED: i32 = 130;

/// One measurement of the plan, by its indices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Index into the panels of the study.
    pub panel: usize,
    /// Index into the points of the panel.
    pub point: usize,
    /// Index into the subjects of the study.
    pub subject: usize,
    /// Number of the round, from 0.
    pub round: usize,
}

/// The part of the studies that a run measures, and its facts.
#[derive(Clone, Debug, Default)]
pub struct Extent {
    /// Number of rounds; each measures every subject once.
    pub rounds: usize,
    /// Names of the subjects to measure; all if it is empty.
    pub only: Vec<String>,
    /// Version, command and machine. Each study adds its date.
    pub facts: Facts,
}

impl Extent {
    fn includes(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}

/// A study that can be run.
pub struct Study {
    /// Everything but the rounds.
    pub plan: results::Study,
    /// Roughly the duration of one measurement.
    pub seconds_each: f64,
    measure: Box<dyn FnMut(Cell) -> Result<Taken>>,
    applies: Box<dyn Fn(usize, usize) -> bool>,
}

impl Study {
    /// Combines a plan with the closure that measures one cell of it.
    pub fn new(
        plan: results::Study,
        seconds_each: f64,
        measure: impl FnMut(Cell) -> Result<Taken> + 'static,
    ) -> Study {
        Study {
            plan,
            seconds_each,
            measure: Box::new(measure),
            applies: Box::new(|_, _| true),
        }
    }

    /// Leaves out the subjects of a panel for which `applies(panel, subject)` is false.
    #[must_use]
    pub fn where_it(self, applies: impl Fn(usize, usize) -> bool + 'static) -> Study {
        Study {
            applies: Box::new(applies),
            ..self
        }
    }

    /// Describes a study that cannot be run here, and why.
    pub fn absent(name: &str, reason: &str) -> Study {
        let title = format!("Not measured: {name}");
        let plan = results::Study::new([name, &title, reason], vec![], vec![], vec![]);
        Study::new(plan, 0.0, |_| unreachable!("the study has no cells"))
    }
}

/// Returns a flag that Ctrl-C sets. A second Ctrl-C ends the program at once.
///
/// # Errors
///
/// The errors of `sigaction(2)`.
pub fn stop_on_interrupt() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    flag::register_conditional_shutdown(SIGINT, EXIT_INTERRUPTED, Arc::clone(&stop))
        .and_then(|_| flag::register(SIGINT, Arc::clone(&stop)))
        .context("listen to Ctrl-C")?;
    Ok(stop)
}

/// Measures every cell that is not in the journal yet, until all are measured or `stop` is set.
///
/// # Errors
///
/// The errors of writing the journal. A measurement that fails is a result.
pub fn run(
    studies: &mut [Study],
    extent: &Extent,
    journal: &mut Journal,
    stop: &AtomicBool,
) -> Result<Vec<results::Study>> {
    let mut progress = Progress::default();
    let mut found = Vec::new();
    for study in &*studies {
        let mut results = study.plan.clone();
        journal.fill(&mut results, extent.rounds);
        progress.expect(cells(study, extent).len(), study.seconds_each);
        found.push(results);
    }
    for (study, results) in studies.iter_mut().zip(&mut found) {
        let seconds_each = study.seconds_each;
        for cell in cells(study, extent) {
            if stop.load(Ordering::Relaxed) {
                return Ok(found);
            }
            if is_known(results, cell) {
                progress.add(seconds_each, None);
                continue;
            }
            let described = format!("{} {}", progress.show(), name(results, cell));
            let begin = Instant::now();
            let round = match least_disturbed(|| (study.measure)(cell)) {
                Ok(taken) => to_round(taken),
                // A Ctrl-C reaches the servers too: this failure says nothing about them.
                Err(_) if stop.load(Ordering::Relaxed) => {
                    return Ok(found);
                }
                Err(error) => Round::Cannot(reason(&error)),
            };
            progress.add(seconds_each, Some(begin.elapsed()));
            tell!("{described}: {}", show(results, cell, &round));
            if results.facts.is_empty() {
                results.facts = facts::of_today(&extent.facts);
            }
            results.panels[cell.panel].rounds[cell.point][cell.subject].push(round);
            journal.keep(results)?;
        }
    }
    Ok(found)
}

/// Returns the cells in the order of measuring.
fn cells(study: &Study, extent: &Extent) -> Vec<Cell> {
    let subjects = &study.plan.subjects;
    let is_present = |subject: &usize| {
        let subject = &subjects[*subject];
        subject.missing.is_none() && extent.includes(&subject.name)
    };
    let present: Vec<usize> = (0..subjects.len()).filter(is_present).collect();
    let mut cells = Vec::new();
    for round in 0..extent.rounds {
        for (panel, described) in study.plan.panels.iter().enumerate() {
            for point in 0..described.points.len() {
                let further = present.iter().cycle().skip(round % present.len().max(1));
                let of_round = further.take(present.len()).copied();
                let applies = of_round.filter(|&subject| (study.applies)(panel, subject));
                cells.extend(applies.map(|subject| Cell {
                    panel,
                    point,
                    subject,
                    round,
                }));
            }
        }
    }
    cells
}

/// Returns whether the cell has been measured, or has failed too often.
fn is_known(results: &results::Study, cell: Cell) -> bool {
    let rounds = results.panels[cell.panel].rounds(cell.point, cell.subject);
    let failed = |round: &&Round| matches!(round, Round::Cannot(_));
    rounds.len() > cell.round || rounds.iter().filter(failed).count() >= FAILURES_MAX
}

fn to_round(taken: Taken) -> Round {
    let figures = taken.figures.iter();
    Round::Taken {
        figures: figures
            .map(|figure| figure.is_finite().then_some(rounded(*figure)))
            .collect(),
        was_disturbed: taken.usage.is_disturbed(),
    }
}

/// Rounds to six digits: more are noise and make the file long.
fn rounded(figure: f64) -> f64 {
    format!("{figure:.5e}").parse().unwrap_or(figure)
}

/// Returns the error in one line.
fn reason(error: &Error) -> String {
    let text = format!("{error:#}");
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    // The page is XML, which has no control characters.
    let shown = line.chars().filter(|character| !character.is_control());
    shown.take(REASON_CHARS_MAX).collect()
}

fn name(results: &results::Study, cell: Cell) -> String {
    let panel = &results.panels[cell.panel];
    let (point, subject) = (
        panel.place(cell.point),
        &results.subjects[cell.subject].name,
    );
    let words = format!("{} {} {point} {subject}", results.name, panel.title);
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Formats the drawn figures of one measurement for the terminal.
fn show(results: &results::Study, cell: Cell, round: &Round) -> String {
    if let Round::Cannot(reason) = round {
        return format!("cannot: {reason}");
    }
    let mut shown = Vec::new();
    for (index, metric) in results.panels[cell.panel].metrics.iter().enumerate() {
        if let Some(figure) = round.figure(index).filter(|_| metric.is_drawn) {
            shown.push(format!(
                "{} {} {}",
                metric.name,
                significant(figure),
                metric.unit
            ));
        }
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests;

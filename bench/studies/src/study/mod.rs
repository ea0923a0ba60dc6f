//! Runs studies: each cell once a round, whoever begins a round one further each time, and every measurement written down
//! at once, so that a run that was ended goes on where it was.
//!
//! What drifts (temperature, neighbours, page cache) then reaches all subjects alike. A study is finished before the next
//! begins, so that one that was ended still has whole studies to show.

mod alone;
mod facts;
mod journal;
mod progress;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Error, Result};
use signal_hook::consts::SIGINT;
use signal_hook::flag;

pub(crate) use alone::{Alone, Measuring};
pub(crate) use journal::{Journal, Settings};

use crate::measure::rounds::{Taken, least_disturbed};
use crate::results::{self, Round, significant};
use crate::say::{self, tell};
use journal::Entry;
use progress::Progress;

/// A cell that failed in so many rounds is not tried again: each try may take as long as a server is waited for.
pub(crate) const FAILURES_MAX: usize = 2;
/// Of a reason, which has to fit under a table.
const REASON_CHARS_MAX: usize = 300;
/// How a shell names an end by Ctrl-C.
const EXIT_INTERRUPTED: i32 = 130;

/// What is measured in one round: places in the plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cell {
    pub(crate) panel: usize,
    pub(crate) point: usize,
    pub(crate) subject: usize,
    pub(crate) round: usize,
}

pub(crate) trait Study {
    /// All but the rounds.
    fn plan(&self) -> &results::Study;

    fn measure(&mut self, cell: Cell) -> Result<Taken>;

    /// About how long a measurement takes.
    fn seconds_each(&self) -> f64;

    /// Whether the subject has anything to do with the panel.
    fn applies(&self, _panel: usize, _subject: usize) -> bool {
        true
    }
}

/// Set by Ctrl-C; a second one ends the program at once.
pub(crate) fn stop_on_interrupt() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    flag::register_conditional_shutdown(SIGINT, EXIT_INTERRUPTED, Arc::clone(&stop))
        .and_then(|_| flag::register(SIGINT, Arc::clone(&stop)))
        .context("listen to Ctrl-C")?;
    Ok(stop)
}

/// Measures what the journal does not have yet, until all is measured or `stop` is set.
pub(crate) fn run(
    studies: &mut [Box<dyn Study>],
    measuring: &Measuring,
    journal: &mut Journal,
    stop: &AtomicBool,
) -> Result<Vec<results::Study>> {
    let mut progress = Progress::new();
    let mut found = Vec::new();
    let of_run = facts::of_this_run(measuring);
    for study in &*studies {
        let mut results = study.plan().clone();
        prepare(&mut results);
        journal.fill(&mut results, measuring.rounds as usize);
        if let Some(day) = journal.begun(&results.name) {
            results.facts = facts::with_day(day, &of_run);
        }
        progress.expect(cells(&**study, measuring).len(), study.seconds_each());
        found.push(results);
    }
    for (index, (study, results)) in studies.iter_mut().zip(&mut found).enumerate() {
        for cell in cells(&**study, measuring) {
            if stop.load(Ordering::Relaxed) {
                return Ok(found);
            }
            if is_known(results, cell) {
                progress.skip(index);
                continue;
            }
            say::err(format_args!(
                "{} {}: ",
                progress.show(),
                name(results, cell)
            ));
            let begin = Instant::now();
            let round = match least_disturbed(|| study.measure(cell)) {
                Ok(taken) => to_round(taken),
                // A Ctrl-C reaches the servers too: what they fail by says nothing about them.
                Err(_) if stop.load(Ordering::Relaxed) => {
                    tell!("left out");
                    return Ok(found);
                }
                Err(error) => Round::Cannot(reason(&error)),
            };
            progress.add(index, begin.elapsed());
            tell!("{}", show(results, cell, &round));
            if results.facts.is_empty() {
                let day = facts::today();
                journal.begin(&results.name, &day)?;
                results.facts = facts::with_day(&day, &of_run);
            }
            journal.add(Entry::new(results, cell, &round))?;
            results.panels[cell.panel].rounds[cell.point][cell.subject].push(round);
        }
    }
    Ok(found)
}

/// Makes room for the rounds of each cell.
fn prepare(results: &mut results::Study) {
    let subjects = results.subjects.len();
    for panel in &mut results.panels {
        panel.rounds = vec![vec![Vec::new(); subjects]; panel.points.len()];
    }
}

/// In the order of measuring.
fn cells(study: &dyn Study, measuring: &Measuring) -> Vec<Cell> {
    let plan = study.plan();
    let present: Vec<usize> = (0..plan.subjects.len())
        .filter(|&subject| {
            let subject = &plan.subjects[subject];
            subject.missing.is_none() && measuring.includes(&subject.name)
        })
        .collect();
    let mut cells = Vec::new();
    for round in 0..measuring.rounds as usize {
        for (index, panel) in plan.panels.iter().enumerate() {
            for point in 0..panel.points.len() {
                let of_point = present.iter().cycle().skip(round % present.len().max(1));
                let subjects = of_point.take(present.len());
                cells.extend(
                    subjects
                        .filter(|&&subject| study.applies(index, subject))
                        .map(|&subject| Cell {
                            panel: index,
                            point,
                            subject,
                            round,
                        }),
                );
            }
        }
    }
    cells
}

/// Whether the cell has been measured, or need not be as it fails again and again.
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
        usage: taken.usage,
    }
}

/// To six digits: more are noise, and make a long file.
fn rounded(figure: f64) -> f64 {
    format!("{figure:.5e}").parse().unwrap_or(figure)
}

/// In one line.
fn reason(error: &Error) -> String {
    let text = format!("{error:#}");
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(REASON_CHARS_MAX).collect()
}

fn name(results: &results::Study, cell: Cell) -> String {
    let panel = &results.panels[cell.panel];
    let parts = [
        results.name.as_str(),
        &panel.title,
        &panel.points[cell.point].label,
        &panel.axis,
        &results.subjects[cell.subject].name,
    ];
    let said = parts.iter().filter(|part| !part.is_empty());
    said.copied().collect::<Vec<_>>().join(" ")
}

/// The drawn figures of one measurement, for whoever watches.
fn show(results: &results::Study, cell: Cell, round: &Round) -> String {
    let metrics = &results.panels[cell.panel].metrics;
    let figures = metrics.iter().enumerate().filter_map(|(index, metric)| {
        let figure = round.figure(index).filter(|_| metric.is_drawn)?;
        Some(format!(
            "{} {} {}",
            metric.name,
            significant(figure),
            metric.unit
        ))
    });
    match round {
        Round::Taken { .. } => figures.collect::<Vec<_>>().join(", "),
        Round::Cannot(reason) => format!("cannot: {reason}"),
    }
}

#[cfg(test)]
mod tests;

//! The table of behaviours and places: passed, failed, and skipped with the reason.

use std::fmt::{self, Formatter, Write as _};
use std::sync::{Arc, OnceLock};

use super::place::PLACES;
use super::{Behaviour, Module};

const INDENT: &str = "  ";

pub(super) struct Table {
    rows: Vec<Arc<Row>>,
}

/// A behaviour, and what came of it in each place.
pub(super) struct Row {
    pub(super) module: &'static str,
    pub(super) behaviour: &'static Behaviour,
    outcomes: [OnceLock<Outcome>; PLACES.len()],
}

pub(super) enum Outcome {
    Held,
    /// The machine lacks what it takes.
    Lacking(&'static str),
    /// With its report.
    Failed(String),
}

impl Table {
    pub(super) fn new(modules: &[Module]) -> Table {
        let rows = modules.iter().flat_map(|&(module, behaviours)| {
            behaviours.iter().map(move |behaviour| {
                Arc::new(Row {
                    module,
                    behaviour,
                    outcomes: Default::default(),
                })
            })
        });
        Table {
            rows: rows.collect(),
        }
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &Arc<Row>> {
        self.rows.iter()
    }
}

impl Row {
    /// Returns the name of the trial, which is what to filter by.
    pub(super) fn trial(&self, column: usize) -> String {
        let (name, place) = (self.behaviour.name, PLACES[column].name);
        format!("{}::{name} [{place}]", self.module)
    }

    /// Returns the reason not to check the behaviour in this place, if there is one.
    pub(super) fn gap(&self, column: usize) -> Option<&'static str> {
        let gaps = self.behaviour.gaps.iter();
        let mut reasons = gaps.filter(|gap| gap.0(PLACES[column])).map(|gap| gap.1);
        reasons.next()
    }

    /// Returns `true` if the behaviour holds in no place that an unfiltered `cargo test` runs.
    pub(super) fn is_of_variants(&self) -> bool {
        let mut holds = (0..PLACES.len()).filter(|column| self.gap(*column).is_none());
        holds.all(|column| PLACES[column].is_variant)
    }

    pub(super) fn note(&self, column: usize, outcome: Outcome) {
        assert!(self.outcomes[column].set(outcome).is_ok(), "run twice");
    }

    fn has_run(&self, column: usize) -> bool {
        self.outcomes[column].get().is_some()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let ran = |row: &&Arc<Row>| (0..PLACES.len()).any(|column| row.has_run(column));
        let rows: Vec<_> = self.rows().filter(ran).collect();
        let columns: Vec<_> = (0..PLACES.len())
            .filter(|column| rows.iter().any(|row| row.has_run(*column)))
            .collect();
        if rows.is_empty() {
            return Ok(());
        }
        let mut sheet = Sheet::new(&rows, &columns);
        sheet.heading(out)?;
        for same_module in rows.chunk_by(|row, next| row.module == next.module) {
            writeln!(out, "{}", same_module[0].module)?;
            for row in same_module {
                sheet.row(out, row)?;
            }
        }
        sheet.totals(out)
    }
}

/// A table on its way out.
struct Sheet<'a> {
    columns: &'a [usize],
    name_width: usize,
    /// How many held in each column.
    held: Vec<usize>,
    failed: Vec<String>,
    /// Why what was not checked, and how often; marked by letters.
    reasons: Vec<(&'static str, usize)>,
}

impl Sheet<'_> {
    fn new<'a>(rows: &[&Arc<Row>], columns: &'a [usize]) -> Sheet<'a> {
        let names = rows.iter().map(|row| row.behaviour.name.len());
        Sheet {
            columns,
            name_width: INDENT.len() + names.max().unwrap_or(0),
            held: vec![0; columns.len()],
            failed: Vec::new(),
            reasons: Vec::new(),
        }
    }

    /// Writes the words of each place one below the other.
    fn heading(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let words = |column: usize| PLACES[column].name.split(' ');
        let depths = self.columns.iter().map(|&column| words(column).count());
        for depth in 0..depths.max().unwrap_or(0) {
            let word = |&column: &usize| words(column).nth(depth).unwrap_or("").to_owned();
            self.line(out, "", self.columns.iter().map(word))?;
        }
        Ok(())
    }

    fn row(&mut self, out: &mut Formatter<'_>, row: &Row) -> fmt::Result {
        let columns = self.columns.iter().enumerate();
        let cells: Vec<_> = columns
            .map(|(index, &column)| self.cell(index, row, column))
            .collect();
        self.line(out, &format!("{INDENT}{}", row.behaviour.name), cells)
    }

    fn cell(&mut self, index: usize, row: &Row, column: usize) -> String {
        match row.outcomes[column].get() {
            Some(Outcome::Held) => {
                self.held[index] += 1;
                "ok".to_owned()
            }
            Some(Outcome::Failed(_)) => {
                self.failed.push(row.trial(column));
                "FAILED".to_owned()
            }
            Some(Outcome::Lacking(what)) => self.mark(what),
            None => row
                .gap(column)
                .map_or_else(String::new, |reason| self.mark(reason)),
        }
    }

    /// Returns the letter of a reason, and counts that it is given once more.
    fn mark(&mut self, reason: &'static str) -> String {
        let known = self.reasons.iter().position(|(known, _)| *known == reason);
        let index = known.unwrap_or_else(|| {
            self.reasons.push((reason, 0));
            self.reasons.len() - 1
        });
        self.reasons[index].1 += 1;
        letter(index)
    }

    fn line(
        &self,
        out: &mut Formatter<'_>,
        name: &str,
        cells: impl IntoIterator<Item = String>,
    ) -> fmt::Result {
        let mut line = format!("{name:<0$}", self.name_width);
        for (&column, cell) in self.columns.iter().zip(cells) {
            let width = PLACES[column].name.split(' ').map(str::len).max();
            let width = width.unwrap_or(0).max("FAILED".len());
            write!(line, "  {cell:<width$}")?;
        }
        writeln!(out, "{}", line.trim_end())
    }

    fn totals(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.line(out, "ok", self.held.iter().map(usize::to_string))?;
        writeln!(out)?;
        for (index, (reason, count)) in self.reasons.iter().enumerate() {
            writeln!(out, "{}: {reason} ({count})", letter(index))?;
        }
        let held: usize = self.held.iter().sum();
        let gaps: usize = self.reasons.iter().map(|(_, count)| count).sum();
        let failed = self.failed.len();
        writeln!(out, "{held} ok, {failed} FAILED, {gaps} not checked")?;
        for trial in &self.failed {
            writeln!(out, "FAILED: {trial}")?;
        }
        writeln!(out)
    }
}

/// Returns the mark of a reason: `z` is followed by `aa`.
fn letter(index: usize) -> String {
    const LETTERS: usize = 26;
    let last = char::from(b'a' + (index % LETTERS) as u8);
    match index / LETTERS {
        0 => last.to_string(),
        rest => format!("{}{last}", letter(rest - 1)),
    }
}

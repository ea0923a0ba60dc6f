//! The table: the number of passed tests of each crate on each driver, and each failed test with
//! its cause.
//!
//! Stored as lines of fields separated by tabs, so that a change shows as a few lines:
//!
//! ```text
//!   crate  driver  42                                   number of passed tests
//!   crate  driver  lib tests::a    hung     the cause   a failed test
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::plan::{CRATES, DRIVERS, STD};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    Passed,
    Failed,
    /// Ended by a signal.
    Aborted,
    /// Did not end in time.
    Hung,
    /// Sometimes passes and sometimes fails.
    Unsteady,
}

const NAMES: [(&str, Verdict); 5] = [
    ("passed", Verdict::Passed),
    ("failed", Verdict::Failed),
    ("aborted", Verdict::Aborted),
    ("hung", Verdict::Hung),
    ("unsteady", Verdict::Unsteady),
];

impl Verdict {
    pub(super) fn name(self) -> &'static str {
        let found = NAMES.iter().find(|(_, verdict)| *verdict == self);
        found.expect("each has a name").0
    }
}

/// The tests of a crate on a driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) passed: usize,
    /// Failed tests, each with the cause; empty while unknown.
    pub(super) missed: BTreeMap<String, (Verdict, String)>,
}

/// Results by crate and driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) cells: BTreeMap<(String, String), Cell>,
}

const AS_STD: &str = "fails with std, too";

impl Table {
    /// Parses a table.
    ///
    /// # Errors
    ///
    /// The first invalid line.
    pub(super) fn parse(text: &str) -> Result<Table, String> {
        let mut table = Table::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let fields: Vec<_> = line.split('\t').collect();
            let wrong = || format!("not a line of a table: {line}");
            let (&[name, driver], rest) = fields.split_first_chunk().ok_or_else(wrong)?;
            let key = (name.to_owned(), driver.to_owned());
            let cell = table.cells.entry(key).or_default();
            match *rest {
                [passed] => cell.passed = passed.parse().map_err(|_| wrong())?,
                [test, verdict, cause] => {
                    let verdict = NAMES.iter().find(|(name, _)| *name == verdict);
                    let (_, verdict) = verdict.ok_or_else(wrong)?;
                    let missed = (*verdict, cause.to_owned());
                    cell.missed.insert(test.to_owned(), missed);
                }
                _ => return Err(wrong()),
            }
        }
        Ok(table)
    }

    pub(super) fn text(&self) -> String {
        let mut text = "# crate, driver, tests that passed; or test, verdict, cause\n".to_owned();
        for (name, driver, cell) in self.in_order() {
            let _ = writeln!(text, "{name}\t{driver}\t{}", cell.passed);
            for (test, (verdict, cause)) in &cell.missed {
                let verdict = verdict.name();
                let _ = writeln!(text, "{name}\t{driver}\t{test}\t{verdict}\t{cause}");
            }
        }
        text
    }

    /// Returns the cells in the order of the plan.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (&'static str, &'static str, &Cell)> {
        let keys = CRATES.iter().map(|it| it.name);
        let keys = keys.flat_map(|name| DRIVERS.map(|driver| (name, driver)));
        keys.filter_map(|(name, driver)| Some((name, driver, self.cell(name, driver)?)))
    }

    pub(super) fn cell(&self, name: &str, driver: &str) -> Option<&Cell> {
        self.cells.get(&(name.to_owned(), driver.to_owned()))
    }

    /// Records the results of a crate on a driver, with the causes known before.
    pub(super) fn note(&mut self, name: &str, driver: &str, tests: Vec<(String, Verdict)>) {
        let known = self.cell(name, driver).cloned().unwrap_or_default();
        let std = match driver {
            STD => None,
            _ => self.cell(name, STD),
        };
        let mut cell = Cell::default();
        for (test, verdict) in tests {
            if verdict == Verdict::Passed {
                cell.passed += 1;
                continue;
            }
            let same = |(other, _): &(Verdict, String)| *other == verdict;
            let cause = known.missed.get(&test).filter(|it| same(it));
            let cause = cause.map(|(_, cause)| cause.clone());
            let as_std = std.and_then(|std| std.missed.get(&test)).is_some_and(same);
            let cause = cause.filter(|cause| !cause.is_empty());
            let cause = cause.or_else(|| as_std.then(|| AS_STD.to_owned()));
            cell.missed
                .insert(test, (verdict, cause.unwrap_or_default()));
        }
        self.cells
            .insert((name.to_owned(), driver.to_owned()), cell);
    }

    /// Returns the differences from an earlier table, one per line. An unsteady test may also pass.
    pub(super) fn differences(&self, before: &Table) -> Vec<String> {
        let mut found = Vec::new();
        for (name, driver, cell) in self.in_order() {
            let nothing = Cell::default();
            let old = before.cell(name, driver).unwrap_or(&nothing);
            let tests: BTreeSet<_> = cell.missed.keys().chain(old.missed.keys()).collect();
            let verdict = |cell: &Cell, test| cell.missed.get(test).map(|(verdict, _)| *verdict);
            let mut steady = 0;
            for test in tests {
                let (was, is) = (verdict(old, test), verdict(cell, test));
                let [was, is] = [was, is].map(|it| it.unwrap_or(Verdict::Passed));
                if is == Verdict::Passed {
                    steady += 1;
                }
                if was != is && was != Verdict::Unsteady {
                    let (was, is) = (was.name(), is.name());
                    found.push(format!("{name} on {driver}: {test}: was {was}, is {is}"));
                }
            }
            let (was, is) = (
                old.passed + old.missed.len(),
                cell.passed + cell.missed.len(),
            );
            if was != is {
                found.push(format!(
                    "{name} on {driver}: {was} tests before, {is} now, {steady} of them newly passed"
                ));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# crate, driver, tests that passed; or test, verdict, cause\n\
        flume\tstd\t3\n\
        flume\turing\t2\n\
        flume\turing\tlib a::b\thung\tbecause\n";

    #[test]
    fn a_table_is_read_and_written() {
        let table = Table::parse(TEXT).unwrap();
        assert_eq!(table.text(), TEXT);
        for line in ["a", "a\tb\tc", "a\tb\tc\td\te", "a\tb\tc\thung"] {
            assert!(Table::parse(line).unwrap_err().ends_with(line), "{line}");
        }
    }

    #[test]
    fn causes_are_kept_while_the_verdict_is_the_same() {
        let mut table = Table::parse(TEXT).unwrap();
        let test = |name: &str, verdict| (name.to_owned(), verdict);
        let a = test("lib a::b", Verdict::Hung);
        table.note("flume", "uring", vec![a, test("lib c", Verdict::Passed)]);
        assert!(
            table
                .text()
                .contains("flume\turing\t1\nflume\turing\tlib a::b\thung\tbecause\n")
        );
        let a = || vec![test("lib a::b", Verdict::Failed)];
        table.note("flume", "std", a());
        table.note("flume", "uring", a());
        assert!(
            table
                .text()
                .contains("uring\tlib a::b\tfailed\tfails with std, too\n")
        );
    }

    #[test]
    fn differences_are_reported() {
        let before = Table::parse(TEXT).unwrap();
        assert_eq!(before.differences(&before), [""; 0]);
        let mut table = before.clone();
        let passed = |name: &str| (name.to_owned(), Verdict::Passed);
        table.note("flume", "uring", vec![passed("lib a::b"), passed("lib c")]);
        let expected = [
            "flume on uring: lib a::b: was hung, is passed",
            "flume on uring: 3 tests before, 2 now, 1 of them newly passed",
        ];
        assert_eq!(table.differences(&before), expected);
        let unsteady = Table::parse(&TEXT.replace("hung", "unsteady")).unwrap();
        let mut table = unsteady.clone();
        table.note(
            "flume",
            "uring",
            ["lib a::b", "lib c", "lib d"].map(passed).into(),
        );
        assert_eq!(table.differences(&unsteady), [""; 0]);
    }
}

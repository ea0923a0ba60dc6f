//! Draws `docs/results/foreign.md` from the table.

use std::fmt::Write as _;

use super::plan::{CRATES, DEPENDENCIES, DRIVERS, Edit, FIBERS};
use super::table::{Cell, Table};

const OPENING: &str = "\
# Tests of other crates, on fibers

Crates written for blocking `std`, ported with `uthread port --main --tests src tests`. Their published tests run unchanged, each in
its own process and in a fiber. The column `std` is the crate without porting. `cargo xtask foreign` repeats the tests and compares;
`--write` writes this file from the data in [foreign.tsv](foreign.tsv). An *unsteady* test sometimes passes and sometimes fails.

`std-tests` are the tests of the standard library that compile outside of it, from Debian's package `rust-src`. Where noted,
`thread_local!` was replaced, too (`--locals`), or dependencies were ported along. The tests of ripgrep are not ported: they run the program
`rg`, and on a driver `uthread search` in its place.

The column `fibers` is not a port: only the tests and the threads that they start become fibers, on the driver `uring`. Locks,
channels, thread-locals and calls stay those of `std` and of the crate.

The fibers of `std-tests`, `kanal`, `flume`, `crossbeam-channel` and `parking_lot` are those of the default, of 2026-11-28. In the other
rows, the columns `uring` and `epoll` are of before, when fibers were lean.

";

pub(super) fn markdown(table: &Table) -> String {
    let mut text = OPENING.to_owned();
    let _ = writeln!(text, "| crate | {} |", DRIVERS.join(" | "));
    let _ = writeln!(text, "|{}", " --- |".repeat(1 + DRIVERS.len()));
    for of in &CRATES {
        let cells = DRIVERS.map(|driver| table.cell(of.name, driver));
        if cells.iter().all(Option::is_none) {
            continue;
        }
        let cells = cells.map(|cell| cell.map_or_else(String::new, count));
        let mut name = format!("{} {}", of.name, of.version);
        if of.locals {
            name += ", `--locals`";
        }
        for dependency in of.with {
            let _ = write!(name, ", with {dependency}");
        }
        if let Some(behind) = &of.behind {
            let _ = write!(name, ", `uthread {}`", behind.subcommand);
        }
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
    let sums = DRIVERS.map(|driver| {
        if driver == FIBERS {
            return String::new();
        }
        let ported = CRATES.iter().filter(|it| it.ported && it.behind.is_none());
        let cells = ported.filter_map(|it| table.cell(it.name, driver));
        let (mut passed, mut all) = (0, 0);
        for cell in cells {
            passed += cell.passed;
            all += cell.passed + cell.missed.len();
        }
        format!("{passed} of {all}")
    });
    let _ = writeln!(text, "| all ported | {} |", sums.join(" | "));
    text.push_str("\nEdited by hand:\n\n");
    for of in CRATES.iter().chain(&DEPENDENCIES) {
        for Edit { file, reason, .. } in of.edits {
            let _ = writeln!(text, "- {}, `{file}`: {reason}", of.name);
        }
    }
    text.push_str("\n## Failed tests\n\n");
    text.push_str("| crate | driver | test | verdict | cause |\n| --- | --- | --- | --- | --- |\n");
    for (name, driver, cell) in table.in_order() {
        for (test, (verdict, cause)) in &cell.missed {
            let (verdict, cause) = (verdict.name(), cause.as_str());
            let cause = if cause.is_empty() { "unknown" } else { cause };
            let _ = writeln!(
                text,
                "| {name} | {driver} | `{test}` | {verdict} | {cause} |"
            );
        }
    }
    text
}

fn count(cell: &Cell) -> String {
    match cell.missed.len() {
        0 => cell.passed.to_string(),
        missed => format!("{} of {}", cell.passed, cell.passed + missed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_row_per_crate_and_what_does_not_pass_follows() {
        let text = "flume\tstd\t3\nflume\turing\t2\nflume\turing\tlib a::b\thung\t\n";
        let text = markdown(&Table::parse(text).unwrap());
        let parts = [
            "| flume 0.11.1 | 3 | 2 of 3 |  |  |  |\n| all ported | 3 of 3 | 2 of 3 | 0 of 0 | 0 of 0 |  |\n\n",
            "| flume | uring | `lib a::b` | hung | unknown |\n",
        ];
        for part in parts {
            assert!(text.contains(part), "{part}in\n{text}");
        }
    }

    #[test]
    fn the_document_is_that_of_the_data() {
        let [data, document] = [
            include_str!("../../../../docs/results/foreign.tsv"),
            include_str!("../../../../docs/results/foreign.md"),
        ];
        let table = Table::parse(data).unwrap();
        assert_eq!(table.text(), data, "cargo xtask foreign --write orders it");
        assert_eq!(markdown(&table), document);
    }
}

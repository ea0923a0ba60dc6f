//! Draws `docs/results/kernel-patch.md`, and finds what is not as expected.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::RUNS;
use super::results::{Results, Test};

const OPENING: &str = "\
# The kernel patch

Debian's longterm kernel without and with the patches of [kernel](../../dev/kernel/README.md), in an emulated machine. `cargo xtask kernel-patch`
repeats everything and writes this file.
";

const TESTS: &str = "
## Tests

Tests of `urgent` are of the flag: a kernel without it gets the same batches without the flag, and has to fail them. Tests of
`runtime` are of the library's use of the flag, with kernel polling. Tests of `plain` are regressions of everything else; those of `after` are the same on rings that have used the flag before. A batch runs on each kind of ring: with
and without an array of indices, with `SUBMIT_ALL`, with deferred task work, with a polling kernel thread, and with entries of 128 bytes.

| test | without | with |
| --- | --- | --- |
";

const COST: &str = "
## Cost

Instructions of a request that does nothing, in the program and in the kernel, from its entry to its completion. The machine counts them: its
only CPU has a clock that advances by a nanosecond with each. The patches cost a ring that has never used the flag what is between the second
and the third column. The last column is for batches of which every fourth entry is urgent.

| entries in a batch | without | with, never used | with, used before | with, used now |
| --- | --- | --- | --- | --- |
";

/// Groups of tests that the kernel without the patches has to fail.
const OF_THE_FLAG: [&str; 3] = ["urgent::", "runtime::", "after::"];

pub(super) fn markdown(without: &Results, with: &Results) -> String {
    let mut text = OPENING.to_owned();
    let (old, new) = (&without.kernel, &with.kernel);
    let _ = writeln!(text, "\nKernels: {old} without, {new} with the patches.");
    text.push_str(TESTS);
    for name in names(without, with) {
        let (without, with) = (verdict(without.test(name)), verdict(with.test(name)));
        let _ = writeln!(text, "| `{name}` | {without} | {with} |");
    }
    text.push_str(COST);
    let sizes: BTreeSet<usize> = with.costs.keys().map(|(size, _)| *size).collect();
    for size in sizes {
        let columns = [
            (without, "never"),
            (with, "never"),
            (with, "before"),
            (with, "now"),
        ];
        let columns = columns.map(|(results, of)| cost(results.cost(size, of)));
        let _ = writeln!(text, "| {size} | {} |", columns.join(" | "));
    }
    let unexpected = unexpected(without, with);
    if !unexpected.is_empty() {
        text.push_str("\n## Unexpected\n\n");
    }
    for item in unexpected {
        let _ = writeln!(text, "- {item}");
    }
    text
}

fn verdict(test: Option<&Test>) -> String {
    match test {
        Some(test) => {
            let verdict = if test.passed { "passed" } else { "failed" };
            format!("{verdict}: {}", test.details.replace('|', "\\|"))
        }
        None => "did not run".to_owned(),
    }
}

fn cost(cost: Option<f64>) -> String {
    cost.map_or("-".to_owned(), |cost| format!("{cost:.0}"))
}

/// Returns the names of all tests, in the order in which they ran.
fn names<'a>(without: &'a Results, with: &'a Results) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for test in with.tests.iter().chain(&without.tests) {
        if !names.contains(&test.name.as_str()) {
            names.push(&test.name);
        }
    }
    names
}

/// Returns what is not as it should be: a failure with the patches, or a success without them of
/// what only they bring.
pub(super) fn unexpected(without: &Results, with: &Results) -> Vec<String> {
    let mut found = Vec::new();
    for (results, title, has_flag) in [
        (without, "without the patches", false),
        (with, "with the patches", true),
    ] {
        if results.complete != RUNS.len() || results.tests.is_empty() || results.costs.is_empty() {
            found.push(format!("{title}, the program did not come to its end"));
        }
        for test in &results.tests {
            let is_of_flag = OF_THE_FLAG.iter().any(|group| test.name.starts_with(group));
            let should_pass = has_flag || !is_of_flag;
            if test.passed != should_pass {
                let verdict = if test.passed { "passed" } else { "failed" };
                found.push(format!("{title}, `{}` {verdict}", test.name));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHOUT: &str = "\
@@ kernel 6.12.1
@@ failed urgent::a: the order 1 2
@@ passed plain::b: fine
@@ failed after::b: Invalid argument
@@ done
@@ cost 4 never 300.0
@@ done
";

    const WITH: &str = "\
@@ kernel 6.12.1-urgent
@@ passed urgent::a: the order 2 1
@@ passed plain::b: fine
@@ passed after::b: fine
@@ done
@@ cost 4 never 301.2
@@ cost 4 before 310
@@ done
";

    #[test]
    fn the_report_compares_the_kernels() {
        let (without, with) = (Results::parse(WITHOUT), Results::parse(WITH));
        assert_eq!(unexpected(&without, &with), [""; 0]);
        let text = markdown(&without, &with);
        for part in [
            "\nKernels: 6.12.1 without, 6.12.1-urgent with the patches.\n",
            "\n| `urgent::a` | failed: the order 1 2 | passed: the order 2 1 |\n",
            "\n| 4 | 300 | 301 | 310 | - |\n",
        ] {
            assert!(text.contains(part), "{part}in\n{text}");
        }
        assert!(!text.contains("Unexpected"));
    }

    #[test]
    fn a_control_that_passes_is_unexpected() {
        let without = WITHOUT.replace("failed urgent", "passed urgent");
        let with = WITH.replace("passed plain", "failed plain");
        let with = with.replacen("@@ done\n", "", 1);
        let (without, with) = (Results::parse(&without), Results::parse(&with));
        let expected = [
            "without the patches, `urgent::a` passed",
            "with the patches, the program did not come to its end",
            "with the patches, `plain::b` failed",
        ];
        assert_eq!(unexpected(&without, &with), expected);
        assert!(markdown(&without, &with).ends_with("`plain::b` failed\n"));
    }
}

//! Draws `docs/results/kernels.md` from the results of all machines.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::plan::{LEFT_OUT, Machine, UNIT_TESTS};
use super::results::{Results, Verdict};

const OPENING: &str = "\
# The library on other kernels

Debian's kernels, each in an emulated machine with two CPUs. `cargo xtask kernels` repeats the tests and writes this file.

## Detected features

The output of `uthread doctor` on each machine: the chosen driver, and the missing features with their replacements.

| machine | kernel | driver | why not io_uring | missing features (replacement) |
| --- | --- | --- | --- | --- |
";

const TESTS: &str = "
## Test results

A test counts for the driver in its name. Other tests use the chosen driver, or none.
";

/// Columns of the second table.
const GROUPS: [&str; 5] = ["uring", "epoll", "threads", CHOSEN, NONE];
const CHOSEN: &str = "chosen driver";
const NONE: &str = "none";

pub(super) fn markdown(all: &[(&Machine, Results)]) -> String {
    let mut text = OPENING.to_owned();
    for (machine, results) in all {
        let _ = writeln!(text, "{}", found(machine, results));
    }
    let _ = writeln!(text, "{TESTS}\n{}", counts(all));
    text.push_str("Skipped on all machines:\n\n");
    for (test, reason) in LEFT_OUT {
        let _ = writeln!(text, "- `{test}`: {reason}");
    }
    for (machine, results) in all {
        let failures = results.failures();
        if !failures.is_empty() {
            let _ = writeln!(text, "\nFailed on {}:\n", machine.name);
        }
        for failure in failures {
            let _ = writeln!(text, "- {failure}");
        }
    }
    text
}

/// Returns the row of a machine in the first table.
fn found(machine: &Machine, results: &Results) -> String {
    let kernel = version(&results.kernel);
    let diagnosis = results.diagnosis().unwrap_or_default();
    let (driver, lacking) = (diagnosis.driver, diagnosis.lacking.join(", "));
    let cause = diagnosis.cause.unwrap_or_default();
    let cells = [machine.name, kernel, &driver, &cause, &lacking];
    format!("| {} |", cells.join(" | "))
}

/// Returns the second table.
fn counts(all: &[(&Machine, Results)]) -> String {
    let present = all.iter().flat_map(|(_, results)| tests(results));
    let present: BTreeSet<_> = present.map(|(group, _)| group).collect();
    let groups = GROUPS.into_iter().filter(|group| present.contains(group));
    let groups: Vec<_> = groups.collect();
    let mut text = format!("| machine | {} |\n", groups.join(" | "));
    let _ = writeln!(text, "|{}", " --- |".repeat(1 + groups.len()));
    for (machine, results) in all {
        let counts = groups.iter().map(|group| count(results, group));
        let counts: Vec<_> = counts.collect();
        let _ = writeln!(text, "| {} | {} |", machine.name, counts.join(" | "));
    }
    text
}

/// Returns Debian's version of a kernel, from the output of `uname`.
fn version(kernel: &str) -> &str {
    let mut words = kernel.split(' ').skip_while(|word| *word != "Debian");
    words.nth(1).unwrap_or(kernel)
}

/// Counts the tests of a group by verdict.
fn count(results: &Results, group: &str) -> String {
    let (mut passed, mut failed, mut left_out) = (0, 0, 0);
    for (_, verdict) in tests(results).filter(|(of, _)| *of == group) {
        match verdict {
            Verdict::Passed => passed += 1,
            Verdict::Failed | Verdict::Silent => failed += 1,
            Verdict::LeftOut => left_out += 1,
        }
    }
    let mut text = format!("{passed} passed");
    for (count, what) in [(failed, "failed"), (left_out, "skipped")] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    text
}

/// Returns each test's group and verdict.
fn tests(results: &Results) -> impl Iterator<Item = (&'static str, Verdict)> {
    results.runs.iter().flat_map(|run| {
        let tests = run.tests.iter();
        tests.map(|(test, verdict)| (group(&run.name, test), *verdict))
    })
}

/// Returns the group of a test. The name contains the driver as a module, or as the place:
/// `[epoll 2]`, and `[thread]` for an ordinary thread.
fn group(run: &str, test: &str) -> &'static str {
    let place = test.rsplit_once('[').map(|(_, place)| place);
    let place = place.and_then(|place| place.split([' ', ']']).next());
    let module = test
        .strip_prefix("driver::")
        .and_then(|rest| rest.split("::").next());
    let named = |driver: &&str| Some(*driver) == place || Some(*driver) == module;
    let unnamed = match place {
        Some(_) => NONE,
        None if run.starts_with(UNIT_TESTS) => NONE,
        None => CHOSEN,
    };
    GROUPS.into_iter().find(named).unwrap_or(unnamed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_belongs_to_the_driver_it_names() {
        assert_eq!(group("lib", "driver::uring::tests::a"), "uring");
        assert_eq!(group("lib", "driver::native::tests::a"), NONE);
        assert_eq!(group("behaviours", "net::a [epoll 2]"), "epoll");
        assert_eq!(group("behaviours", "net::a [threads]"), "threads");
        assert_eq!(group("behaviours", "net::a [thread]"), NONE);
        assert_eq!(group("net", "a_uring"), CHOSEN);
    }

    #[test]
    fn the_table_has_a_row_per_machine_and_the_failures_follow() {
        let output = r#"
@@ kernel 6.1.0-9 #1 SMP Debian 6.1.2-1 (2026-01-01)
@@ doctor
{"driver": {"name": "uring", "details": "so"}, "healthy": true}
@@ list lib
driver::uring::a: test
stack::b: test
stack::c: test
@@ run lib
test driver::uring::a ... ok
test stack::b ... FAILED
test stack::c ... ignored
@@ end 101
@@ done
"#;
        let machine = Machine {
            name: "6.1",
            suite: "",
            arguments: "",
        };
        let text = markdown(&[(&machine, Results::parse(output))]);
        let parts = [
            "| missing features (replacement) |\n| --- | --- | --- | --- | --- |\n| 6.1 | 6.1.2-1 | uring (so) |  |  |\n\n",
            "\n\n| machine | uring | none |\n| --- | --- | --- |\n\
             | 6.1 | 1 passed | 0 passed, 1 failed, 1 skipped |\n\n",
            "\nFailed on 6.1:\n\n- stack::b\n",
        ];
        for part in parts {
            assert!(text.contains(part), "{part}in\n{text}");
        }
        assert!(text.ends_with(parts[2]), "{text}");
    }
}

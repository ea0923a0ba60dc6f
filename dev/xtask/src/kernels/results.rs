//! Parses the output of a guest: the tests of each program, and their verdicts.
//!
//! A listed test without a verdict has failed. Output of tests appears between the lines about
//! them, so only whole lines of the expected form count.

use std::collections::BTreeMap;

use super::doctor::Diagnosis;

/// Prefix of the marks that the guest's first process prints.
const MARK: &str = "@@ ";

#[derive(Debug, Default)]
pub(super) struct Results {
    /// Kernel release, with Debian's version.
    pub(super) kernel: String,
    /// The doctor's report, as JSON.
    doctor: String,
    pub(super) runs: Vec<Run>,
    /// True if the guest ran to its end.
    pub(super) complete: bool,
}

/// One run of a program.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) name: String,
    pub(super) tests: BTreeMap<String, Verdict>,
    /// Exit status.
    pub(super) status: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    Failed,
    LeftOut,
    /// The program or the guest ended before the test.
    Silent,
}

/// Part of a guest's output.
enum Part {
    Nothing,
    Doctor,
    List,
    Run,
}

impl Results {
    pub(super) fn parse(output: &str) -> Results {
        let mut results = Results::default();
        let mut part = Part::Nothing;
        for line in output.lines().map(str::trim_end) {
            if let Some(mark) = line.strip_prefix(MARK) {
                part = results.mark(mark);
                continue;
            }
            match (&part, results.runs.last_mut()) {
                (Part::Doctor, _) => results.doctor.push_str(line),
                (Part::List, Some(run)) => run.list(line),
                (Part::Run, Some(run)) => run.verdict(line),
                _ => {}
            }
        }
        results
    }

    fn mark(&mut self, mark: &str) -> Part {
        let (kind, rest) = mark.split_once(' ').unwrap_or((mark, ""));
        match (kind, self.runs.last_mut()) {
            ("kernel", _) => self.kernel = rest.to_owned(),
            ("doctor", _) => return Part::Doctor,
            ("list", _) => {
                self.runs.push(Run {
                    name: rest.to_owned(),
                    ..Run::default()
                });
                return Part::List;
            }
            ("run", _) => return Part::Run,
            ("end", Some(run)) => run.status = rest.to_owned(),
            ("done", _) => self.complete = true,
            _ => {}
        }
        Part::Nothing
    }

    /// Returns the doctor's diagnosis, if there is one.
    pub(super) fn diagnosis(&self) -> Option<Diagnosis> {
        Diagnosis::parse(&self.doctor)
    }

    /// Returns the failures by name, with known details.
    pub(super) fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        if !self.diagnosis().is_some_and(|found| found.is_healthy) {
            failures.push("uthread doctor: reports a fault".to_owned());
        }
        for run in &self.runs {
            let known = failures.len();
            for (test, verdict) in &run.tests {
                match verdict {
                    Verdict::Failed => failures.push(test.clone()),
                    Verdict::Silent => failures.push(format!("{test} (never ended)")),
                    Verdict::Passed | Verdict::LeftOut => {}
                }
            }
            if run.tests.is_empty() {
                failures.push(format!("{}: has no tests", run.name));
            } else if run.status != "0" && failures.len() == known {
                failures.push(format!("{}: exit status {:?}", run.name, run.status));
            }
        }
        if !self.complete {
            failures.push("the guest did not run to its end".to_owned());
        }
        failures
    }
}

impl Run {
    /// Parses a line of the list: `name: test`.
    fn list(&mut self, line: &str) {
        if let Some(test) = line.strip_suffix(": test") {
            self.tests.insert(test.to_owned(), Verdict::Silent);
        }
    }

    /// Parses the line of a finished test: `test name ... ok`.
    fn verdict(&mut self, line: &str) {
        let Some((test, word)) = line
            .strip_prefix("test ")
            .and_then(|line| line.split_once(" ... "))
        else {
            return;
        };
        let verdict = match word.split([' ', ',']).next() {
            Some("ok") => Verdict::Passed,
            Some("FAILED") => Verdict::Failed,
            Some("ignored") => Verdict::LeftOut,
            _ => return,
        };
        let test = test.trim_end().trim_end_matches(" - should panic");
        // The output of failed tests comes last, and may contain such lines of a child.
        if let Some(known) = self.tests.get_mut(test)
            && *known == Verdict::Silent
        {
            *known = verdict;
        }
    }
}

/// Returns the programs that have run so far, with their exit status.
pub(super) fn ended_runs(output: &str) -> Vec<String> {
    let results = Results::parse(output);
    let ended = results.runs.iter().filter(|run| !run.status.is_empty());
    ended
        .map(|run| format!("{}: exit status {}", run.name, run.status))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = r#"
@@ kernel 6.1.0 #1 SMP Debian 6.1.2-1 (2026-01-01)
@@ doctor
{"driver": {"name": "uring", "details": "so"},
"healthy": true}

@@ list lib
driver::tests::a: test
driver::tests::b: test
driver::tests::c: test
a::bench: benchmark

@@ run lib
running 3 tests
test driver::tests::a ... ok
test driver::tests::stranger ... ok
test driver::tests::b - should panic ... FAILED
test driver::tests::c has been running for over 60 seconds
---- driver::tests::b stdout ----
test driver::tests::b ... ok

@@ end 137

@@ list net
accept [epoll 2]: test
send [epoll 2]: test

@@ run net
test accept [epoll 2] ... ignored, no reason
test send [epoll 2]   ... ok
"#;

    #[test]
    fn output_of_the_guest_is_parsed() {
        let results = Results::parse(OUTPUT);
        assert_eq!(results.kernel, "6.1.0 #1 SMP Debian 6.1.2-1 (2026-01-01)");
        assert_eq!(results.diagnosis().unwrap().driver, "uring (so)");
        let verdicts: Vec<Vec<_>> = results
            .runs
            .iter()
            .map(|run| run.tests.values().copied().collect())
            .collect();
        let lib = vec![Verdict::Passed, Verdict::Failed, Verdict::Silent];
        assert_eq!(verdicts, [lib, vec![Verdict::LeftOut, Verdict::Passed]]);
        assert_eq!(ended_runs(OUTPUT), ["lib: exit status 137"]);
        let failures = [
            "driver::tests::b",
            "driver::tests::c (never ended)",
            "net: exit status \"\"",
            "the guest did not run to its end",
        ];
        assert_eq!(results.failures(), failures);
    }

    #[test]
    fn nothing_at_all_is_a_failure() {
        let failures = Results::parse("").failures();
        let expected = [
            "uthread doctor: reports a fault",
            "the guest did not run to its end",
        ];
        assert_eq!(failures, expected);
    }

    #[test]
    fn a_run_without_tests_is_a_failure() {
        let failures = Results::parse("@@ list a\n@@ run a\n@@ end 0\n").failures();
        assert!(
            failures.contains(&"a: has no tests".to_owned()),
            "{failures:?}"
        );
    }

    #[test]
    fn all_is_well_where_all_passed() {
        let output = r#"
@@ doctor
{"driver": {"error": "E"}, "healthy": true}
@@ list a
x: test
@@ run a
test x ... ok
@@ end 0
@@ done
"#;
        assert_eq!(Results::parse(output).failures(), [""; 0]);
    }
}

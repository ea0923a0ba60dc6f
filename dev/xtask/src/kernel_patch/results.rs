//! Parses the output of the program that tests a kernel.

use std::collections::BTreeMap;

/// Prefix of the lines to read.
const MARK: &str = "@@ ";

#[derive(Debug, Default)]
pub(super) struct Results {
    pub(super) kernel: String,
    /// Tests by name, in the order in which they ran.
    pub(super) tests: Vec<Test>,
    /// Instructions of a request, by the size of the batch and the ring's use of the flag.
    pub(super) costs: BTreeMap<(usize, String), f64>,
    /// How many runs came to their end.
    pub(super) complete: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) name: String,
    pub(super) passed: bool,
    pub(super) details: String,
}

impl Results {
    pub(super) fn parse(output: &str) -> Results {
        let mut results = Results::default();
        let marks = output.lines().map(str::trim_end);
        for mark in marks.filter_map(|line| line.strip_prefix(MARK)) {
            results.mark(mark);
        }
        results
    }

    fn mark(&mut self, mark: &str) {
        let (kind, rest) = mark.split_once(' ').unwrap_or((mark, ""));
        match kind {
            "kernel" => self.kernel = rest.to_owned(),
            "passed" | "failed" => {
                let (name, details) = rest.split_once(": ").unwrap_or((rest, ""));
                self.tests.push(Test {
                    name: name.to_owned(),
                    passed: kind == "passed",
                    details: details.to_owned(),
                });
            }
            "cost" => {
                if let [size, of, cost] = rest.split(' ').collect::<Vec<_>>()[..]
                    && let (Ok(size), Ok(cost)) = (size.parse(), cost.parse())
                {
                    self.costs.insert((size, of.to_owned()), cost);
                }
            }
            "done" => self.complete += 1,
            _ => {}
        }
    }

    pub(super) fn test(&self, name: &str) -> Option<&Test> {
        self.tests.iter().find(|test| test.name == name)
    }

    pub(super) fn cost(&self, size: usize, of: &str) -> Option<f64> {
        self.costs.get(&(size, of.to_owned())).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
noise
@@ kernel 6.12.1\r
@@ passed urgent::a: the order 1 2
@@ failed plain::b: 3: instead of 4
@@ done
@@ kernel 6.12.1
@@ cost 16 never 300.5
@@ cost 16
@@ done
";

    #[test]
    fn output_of_the_program_is_parsed() {
        let results = Results::parse(OUTPUT);
        assert_eq!(results.kernel, "6.12.1");
        let shown = results.tests.iter();
        let shown: Vec<_> = shown
            .map(|it| (it.name.as_str(), it.passed, it.details.as_str()))
            .collect();
        let expected = [
            ("urgent::a", true, "the order 1 2"),
            ("plain::b", false, "3: instead of 4"),
        ];
        assert_eq!(shown, expected);
        assert_eq!(results.cost(16, "never"), Some(300.5));
        assert_eq!(results.costs.len(), 1);
        assert_eq!(results.complete, 2);
    }
}

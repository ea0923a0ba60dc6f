//! A file holds one idea: it has a limit of lines of code. `clippy::too_many_lines` limits
//! functions.

use super::Finding;
use super::tree::Tree;

/// Lines of code, without comments, blank lines and modules of tests.
const LINES_MAX: usize = 400;

/// Lines of a file of tests, which lists many cases of one subject.
const TEST_LINES_MAX: usize = 600;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let findings = tree.sources().filter_map(|(path, source)| {
        let is_test = path.split('/').any(|part| part == "tests");
        let max = if is_test { TEST_LINES_MAX } else { LINES_MAX };
        let lines = source.code_lines();
        let what = format!("{lines} lines of code, more than {max}");
        (lines > max).then(|| Finding::new(path, 1, what, "split it by idea"))
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    #[test]
    fn files_of_tests_may_be_longer() {
        let lines = |count| "use a::b;\n".repeat(count);
        for (path, max) in [("a/b.rs", LINES_MAX), ("a/tests/b.rs", TEST_LINES_MAX)] {
            let expected = format!("{path}:1: {} lines of code", max + 1);
            let (good, fault) = (lines(max), lines(max + 1));
            plant(check, &[(path, &good)], (path, &fault), &[&expected]);
        }
    }
}

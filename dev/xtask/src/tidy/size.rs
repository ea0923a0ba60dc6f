//! A file holds one idea: it has a limit of lines of code. `clippy::too_many_lines` limits
//! functions.

use super::Finding;
use super::tree::Tree;

/// Lines of code, without comments, blank lines and modules of tests.
const LINES_MAX: usize = 400;

/// Lines of a file of tests, which lists many cases of one subject.
const TEST_LINES_MAX: usize = 600;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let findings = tree.code().filter_map(|(path, code)| {
        let is_test = path.split('/').any(|part| part == "tests");
        let max = if is_test { TEST_LINES_MAX } else { LINES_MAX };
        let lines = code.lines().filter(|line| !line.is_empty()).count();
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
    fn only_files_of_tests_may_be_longer() {
        for (path, max) in [("a/b.rs", LINES_MAX), ("a/tests/b.rs", TEST_LINES_MAX)] {
            let code = "use a::b;\n\n// Why.\n".repeat(max);
            let good = format!("{code}#[cfg(test)]\nmod tests {{\n{code}}}\n");
            let fault = format!("use a::b;\n{code}");
            let expected = format!("{path}:1: {} lines of code", max + 1);
            plant(check, "", &[(path, &good)], &[(path, &fault, &expected)]);
        }
    }
}

//! Checks the size of functions and files: a function fits on a screen, a file holds one idea.

use super::Finding;
use super::list;
use super::tree::Tree;

/// Subjects are `path` for a file and `path:function` for a function.
const EXCEPTIONS: &str = "xtask/tidy-exceptions.txt";

/// Visible without scrolling.
const FUNCTION_LINES_MAX: usize = 70;

/// Lines of code. No code base that this one learned from needed more for a file of one idea.
const FILE_LINES_MAX: usize = 400;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut faults = Vec::new();
    for (path, source) in tree.sources() {
        let lines = source.code_lines();
        if lines > FILE_LINES_MAX {
            let what = format!("{lines} lines of code, more than {FILE_LINES_MAX}");
            faults.push((
                path.to_owned(),
                Finding::new(path, 1, what, "split it by idea"),
            ));
        }
        for function in source
            .functions()
            .filter(|function| function.lines > FUNCTION_LINES_MAX)
        {
            let what = format!(
                "`{}` has {} lines, more than {FUNCTION_LINES_MAX}",
                function.name, function.lines
            );
            let subject = format!("{path}:{}", function.name);
            faults.push((
                subject,
                Finding::new(
                    path,
                    function.line,
                    what,
                    "extract a part with a name of its own",
                ),
            ));
        }
    }
    list::forgive(tree, EXCEPTIONS, faults)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    fn function(lines: usize) -> String {
        format!(
            "//! A.\n\nfn a() {{\n{}}}\n",
            "    b();\n".repeat(lines - 2)
        )
    }

    fn file(lines: usize) -> String {
        let tests = "#[cfg(test)]\nmod tests {\n    const B: u8 = 0;\n    const C: u8 = 0;\n}\n";
        // The two lines that open the module count.
        format!(
            "//! A.\n\n{}// A remark.\n\n{tests}",
            "const A: u8 = 0;\n".repeat(lines - 2)
        )
    }

    #[test]
    fn a_function_of_more_than_a_screen_is_found() {
        let expected = ["a.rs:3: `a` has 71 lines, more than 70"];
        plant(
            check,
            &[("a.rs", &function(70))],
            ("a.rs", &function(71)),
            &expected,
        );
    }

    #[test]
    fn a_file_of_too_much_code_is_found() {
        let expected = ["a.rs:1: 401 lines of code, more than 400"];
        plant(
            check,
            &[("a.rs", &file(400))],
            ("a.rs", &file(401)),
            &expected,
        );
    }

    #[test]
    fn an_exception_forgives_what_it_names_and_must_be_needed() {
        let (long, longer) = (function(71), file(401));
        let good = [
            ("a.rs", &*long),
            ("b.rs", &*longer),
            (EXCEPTIONS, "a.rs:a a table\nb.rs a generated list\n"),
        ];
        plant(
            check,
            &good,
            ("a.rs", &function(70)),
            &["xtask/tidy-exceptions.txt:1: a.rs:a no longer needs"],
        );
        plant(
            check,
            &good,
            ("b.rs", &file(400)),
            &["xtask/tidy-exceptions.txt:2: b.rs no longer needs"],
        );
    }
}

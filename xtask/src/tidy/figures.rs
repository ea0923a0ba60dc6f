//! Checks that the figures of the README equal those of the report: the lines between two marks are
//! the summary in `docs/results/report.json`, word for word.

use super::Finding;
use super::tree::Tree;
use super::width::WIDTH_MAX;

pub(crate) const README: &str = "README.md";
pub(crate) const REPORT: &str = "docs/results/report.json";
const BEGIN: &str = "<!-- figures: begin -->";
const END: &str = "<!-- figures: end -->";
const WRITE: &str = "run `cargo xtask figures --write`";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let report = tree.exists(REPORT).then(|| tree.text(REPORT));
    match compare(tree.text(README), report) {
        Ok(_) => Vec::new(),
        Err(finding) => vec![finding],
    }
}

/// Compares the figures, and returns the number of lines; `None` if there is neither a report nor a
/// place for its figures.
pub(crate) fn compare(readme: &str, report: Option<&str>) -> Result<Option<usize>, Finding> {
    let marked = marked(readme)?;
    let Some(report) = report else {
        return match marked {
            None => Ok(None),
            Some(marked) => {
                let what = format!("figures without {REPORT}, their source");
                let remedy = "measure, or remove the figures and their marks";
                Err(Finding::new(README, marked.line, what, remedy))
            }
        };
    };
    let summary = summary(report)?;
    let Some(marked) = marked else {
        let what = format!("no line `{BEGIN}` and `{END}` for the figures of {REPORT}");
        return Err(Finding::new(
            README,
            1,
            what,
            "put both where the figures belong",
        ));
    };
    let longest = summary.len().max(marked.lines.len());
    let differs = |index: &usize| {
        summary.get(*index).map(String::as_str) != marked.lines.get(*index).copied()
    };
    match (0..longest).find(differs) {
        None => Ok(Some(longest)),
        Some(index) => {
            let shown =
                |line: Option<&str>| line.map_or("nothing".to_owned(), |line| format!("`{line}`"));
            let what = format!(
                "{} stands where {REPORT} has {}",
                shown(marked.lines.get(index).copied()),
                shown(summary.get(index).map(String::as_str))
            );
            Err(Finding::new(README, marked.line + 1 + index, what, WRITE))
        }
    }
}

/// Returns the README with the figures of the report.
pub(crate) fn replaced(readme: &str, report: &str) -> Result<String, Finding> {
    let summary = summary(report)?;
    let Some(marked) = marked(readme)? else {
        let what = format!("no line `{BEGIN}` and `{END}`");
        return Err(Finding::new(
            README,
            1,
            what,
            "put both where the figures belong",
        ));
    };
    let mut lines: Vec<&str> = readme.lines().collect();
    let old = marked.line..marked.line + marked.lines.len();
    lines.splice(old, summary.iter().map(String::as_str));
    Ok(lines.join("\n") + "\n")
}

struct Marked<'a> {
    /// Line of the opening mark, counted from 1, so that it is the index of the next line.
    line: usize,
    lines: Vec<&'a str>,
}

/// Returns the lines between the marks, if there are any.
fn marked(readme: &str) -> Result<Option<Marked<'_>>, Finding> {
    let lines: Vec<&str> = readme.lines().collect();
    let at = |mark: &str| -> Vec<usize> {
        (0..lines.len())
            .filter(|&index| lines[index] == mark)
            .collect()
    };
    match (&at(BEGIN)[..], &at(END)[..]) {
        ([], []) => Ok(None),
        (&[begin], &[end]) if begin < end => Ok(Some(Marked {
            line: begin + 1,
            lines: lines[begin + 1..end].to_vec(),
        })),
        (begins, ends) => {
            let line = begins.iter().chain(ends).min().map_or(1, |line| line + 1);
            let what = format!("not one `{BEGIN}` and then one `{END}`");
            Err(Finding::new(
                README,
                line,
                what,
                "have each once, in this order",
            ))
        }
    }
}

fn summary(report: &str) -> Result<Vec<String>, Finding> {
    let fault =
        |what: String| Finding::new(REPORT, 1, what, "write it with `uthread-bench report`");
    let value: serde_json::Value =
        serde_json::from_str(report).map_err(|error| fault(format!("not JSON ({error})")))?;
    let lines = value["summary"]
        .as_array()
        .filter(|lines| !lines.is_empty());
    let lines = lines.ok_or_else(|| fault("no summary".to_owned()))?;
    let line = |line: &serde_json::Value| {
        line.as_str()
            .filter(|line| !line.contains('\n'))
            .map(str::to_owned)
    };
    let lines: Option<Vec<String>> = lines.iter().map(line).collect();
    let lines = lines.ok_or_else(|| fault("the summary is no list of lines".to_owned()))?;
    Ok(lines.iter().flat_map(|line| wrap(line)).collect())
}

/// Breaks a line of words, but no row of a table, into lines as wide as all others here.
fn wrap(line: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    if line.starts_with('|') {
        return vec![line.to_owned()];
    }
    for word in line.split_whitespace() {
        let last = lines.last_mut().expect("there is a line");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= WIDTH_MAX {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    const JSON: &str = r#"{ "facts": [], "summary": ["| a |", "", "b"] }"#;

    fn readme(lines: &str) -> String {
        format!("# R\n\n{BEGIN}\n{lines}{END}\n\nMore.\n")
    }

    #[test]
    fn the_figures_are_those_of_the_report() {
        let good = readme("| a |\n\nb\n");
        let good = [(README, good.as_str()), (REPORT, JSON)];
        let check = |fault: (&str, &str), expected: &str| plant(check, &good, fault, &[expected]);
        check(
            (README, &readme("| c |\n\nb\n")),
            "README.md:4: `| c |` stands where docs/results/report.json has `| a |`: run `cargo xtask figures --write`",
        );
        check(
            (README, &readme("| a |\n\n")),
            "README.md:6: nothing stands where docs/results/report.json has `b`",
        );
        check(
            (README, &readme("| a |\n\nb\nc\n")),
            "README.md:7: `c` stands where docs/results/report.json has nothing",
        );
        check(
            (README, &readme("")),
            "README.md:4: nothing stands where docs/results/report.json has `| a |`",
        );
        check(
            (README, "# R\n"),
            "README.md:1: no line `<!-- figures: begin -->`",
        );
        check(
            (README, &format!("{END}\n{BEGIN}\n")),
            "README.md:1: not one",
        );
        check((README, &format!("\n{BEGIN}\n")), "README.md:2: not one");
        check(
            (README, &(readme("") + &readme(""))),
            "README.md:3: not one",
        );
        check((REPORT, "{"), "docs/results/report.json:1: not JSON");
        check((REPORT, "{}"), "docs/results/report.json:1: no summary");
        check(
            (REPORT, r#"{ "summary": [] }"#),
            "docs/results/report.json:1: no summary",
        );
        check(
            (REPORT, r#"{ "summary": [1] }"#),
            "docs/results/report.json:1: the summary is no list",
        );
    }

    #[test]
    fn words_are_wrapped_and_rows_are_not() {
        let words = "word ".repeat(25);
        let long = format!("{}word", "word ".repeat(19));
        assert_eq!(wrap(&words), [long.as_str(), "word word word word word"]);
        assert_eq!(wrap(&format!("| {words}|")), [format!("| {words}|")]);
        assert_eq!(wrap(""), [""]);
    }

    #[test]
    fn figures_need_a_report() {
        plant(
            check,
            &[(README, "# R\n")],
            (README, &readme("| a |\n")),
            &["README.md:3: figures without docs/results/report.json"],
        );
        assert!(matches!(compare("# R\n", None), Ok(None)));
        assert!(matches!(
            compare(&readme("| a |\n\nb\n"), Some(JSON)),
            Ok(Some(3))
        ));
    }

    #[test]
    fn checked_figures_are_those_that_were_written() {
        for before in ["", "old\n", "one\ntwo\nthree\nfour\n"] {
            let after = replaced(&readme(before), JSON).unwrap();
            assert_eq!(after, readme("| a |\n\nb\n"));
        }
        assert!(replaced("# R\n", JSON).is_err());
    }
}

//! Checks the width of comments and Markdown. rustfmt keeps that of code.

use super::Finding;
use super::tree::Tree;

/// Maximum width in characters, the `max_width` of rustfmt.
pub(super) const WIDTH_MAX: usize = 100;

/// Written by `cargo xtask foreign`, `kernel-patch` and `kernels`.
const GENERATED: [&str; 3] = [
    "docs/results/foreign.md",
    "docs/results/kernel-patch.md",
    "docs/results/kernels.md",
];

const REMEDY: &str = "break it at a space";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files() {
        let is_markdown = path.ends_with(".md") && !GENERATED.contains(&path);
        if !is_markdown && !path.ends_with(".rs") {
            continue;
        }
        let mut is_code = false;
        for (index, line) in text.lines().enumerate() {
            let Some(words) = (if is_markdown {
                Some(line)
            } else {
                comment(line)
            }) else {
                is_code = false;
                continue;
            };
            if words.trim_start().starts_with("```") {
                is_code = !is_code;
            }
            let width = line.chars().count();
            if width > WIDTH_MAX && !is_code && is_breakable(words) {
                let what = format!("{width} characters, more than {WIDTH_MAX}");
                findings.push(Finding::new(path, index + 1, what, REMEDY));
            }
        }
    }
    findings
}

/// Returns the text of a line that is a comment, without its mark.
fn comment(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("//")?;
    let rest = rest.strip_prefix(['/', '!']).unwrap_or(rest);
    Some(rest.strip_prefix(' ').unwrap_or(rest))
}

/// Returns `true` if the line may be broken: it is no row of a table, no indented code and no
/// target of links, and has a space outside of code.
fn is_breakable(words: &str) -> bool {
    let is_target = words.starts_with('[') && words.contains("]: ");
    if words.starts_with("    ") || words.trim_start().starts_with('|') || is_target {
        return false;
    }
    let item = words.trim_start().trim_start_matches(['-', '*', ' ']);
    let outside_of_code = item.split('`').step_by(2);
    outside_of_code.flat_map(str::chars).any(|char| char == ' ')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    fn words(width: usize) -> String {
        format!("{}{}", "word ".repeat(10), "x".repeat(width - 50))
    }

    #[test]
    fn a_wide_comment_is_found() {
        let good = format!("//! {}\n    // {}\n", words(96), words(93));
        let wide = format!("//! {}\n    // {}\n", words(97), words(94));
        let expected = ["a.rs:1: 101 characters, more than 100", "a.rs:2: 101"];
        plant(check, &[("a.rs", &good)], ("a.rs", &wide), &expected);
    }

    #[test]
    fn a_wide_line_of_markdown_is_found() {
        let good = format!("{}\n\n- {}\n", words(100), words(98));
        let wide = format!("{}\n\n- {}\n", words(101), words(99));
        let expected = ["a.md:1: 101 characters", "a.md:3: 101"];
        plant(check, &[("a.md", &good)], ("a.md", &wide), &expected);
    }

    #[test]
    fn lines_that_cannot_be_broken_may_be_wide() {
        let url = "x".repeat(120);
        let wide = words(120);
        let page = format!(
            "| {wide} |\n\n    {wide}\n\n```text\n{wide}\n```\n\n- {url}\n- `{wide}`\n\n[a b]: {url}\n"
        );
        let code = format!("/// ```\n/// {wide}\n/// ```\nconst A: &str = \"{wide}\";\n");
        let good = [
            ("a.md", page.as_str()),
            ("a.rs", &code),
            ("docs/results/kernels.md", &wide),
        ];
        let expected = ["a.rs:3: 124 characters"];
        let fault = format!("/// ```\n/// ```\n/// {wide}\n");
        plant(check, &good, ("a.rs", &fault), &expected);
    }
}

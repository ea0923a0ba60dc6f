//! The guide can be read from the first to the last chapter: its contents list the chapters in the order of the modules, and each
//! chapter ends with links to the previous and to the next one.

use super::Finding;
use super::tree::Tree;

const GUIDE: &str = "crates/uthread/src/guide/";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let contents = format!("{GUIDE}mod.rs");
    let text = tree.text(&contents);
    let chapters = names(text, "pub mod ", ";");
    let mut findings = Vec::new();
    if names(text, "//! - [`", "`]") != chapters {
        let what = "the contents are not the modules in their order";
        findings.push(Finding::new(&contents, 1, what, "list each chapter once"));
    }
    for (index, name) in chapters.iter().enumerate() {
        let path = format!("{GUIDE}{name}.rs");
        let previous = index.checked_sub(1).and_then(|index| chapters.get(index));
        let links = links(previous.copied(), chapters.get(index + 1).copied());
        let chapter = tree.text(&path);
        if chapter.lines().next_back() != Some(&links) {
            let what = format!("the last line is not `{links}`");
            let line = chapter.lines().count();
            findings.push(Finding::new(&path, line, what, "end the chapter with it"));
        }
    }
    findings
}

/// Returns what is between `start` and `end` in the lines that begin with `start`.
fn names<'a>(text: &'a str, start: &str, end: &str) -> Vec<&'a str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(start));
    lines
        .filter_map(|rest| Some(rest.split_once(end)?.0))
        .collect()
}

/// Returns the last line of the chapter between two others.
fn links(previous: Option<&str>, next: Option<&str>) -> String {
    let link =
        |word: &str, name: &str| format!("[{word}: {}](super::{name})", name.replace('_', " "));
    let previous = previous.map(|name| link("Previous", name));
    let next = next.map(|name| link("Next", name));
    let contents = Some("[Contents](super)".to_owned());
    let links: Vec<String> = [previous, contents, next].into_iter().flatten().collect();
    format!("//! {}", links.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    const CONTENTS: &str =
        "//! - [`first_one`]: a.\n//! - [`last`]: b.\n\npub mod first_one;\n\npub mod last;\n";

    /// Plants a file in a guide of two chapters.
    #[track_caller]
    fn plant_file(path: &str, text: &str, expected: &str) {
        let good = [
            ("crates/uthread/src/guide/mod.rs", CONTENTS),
            (
                "crates/uthread/src/guide/first_one.rs",
                "//! A.\n//!\n//! [Contents](super) | [Next: last](super::last)\n",
            ),
            (
                "crates/uthread/src/guide/last.rs",
                "//! B.\n//!\n//! [Previous: first one](super::first_one) | [Contents](super)\n",
            ),
        ];
        let path = format!("{GUIDE}{path}");
        plant(
            check,
            &good,
            (&path, text),
            &[&format!("{GUIDE}{expected}")],
        );
    }

    #[test]
    fn each_chapter_leads_to_its_neighbours() {
        let expected =
            "last.rs:1: the last line is not `//! [Previous: first one](super::first_one)";
        plant_file("last.rs", "//! B.\n", expected);
        let expected = "first_one.rs:1: the last line is not `//! [Contents](super) | [Next: last]";
        plant_file("first_one.rs", "//! [Contents](super)\n", expected);
    }

    #[test]
    fn the_contents_have_the_order_of_the_modules() {
        let lines: Vec<&str> = CONTENTS.lines().collect();
        let other = [&[lines[1], lines[0]], &lines[2..]].concat().join("\n");
        let expected = "mod.rs:1: the contents are not the modules in their order";
        plant_file("mod.rs", &other, expected);
    }
}

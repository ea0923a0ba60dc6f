//! The guide can be read from the first to the last chapter: its contents list the chapters in the
//! order of the modules, and each chapter ends with links to the previous and to the next one.
//!
//! The text is in Markdown files, which the modules include. A link to a chapter leads to its file;
//! for rustdoc, the module defines the link before the text, and leads to the chapter's page. A
//! link to an item is defined by the module for rustdoc, which checks it, and at the end of the
//! file for readers of the repository.

use super::Finding;
use super::tree::Tree;

pub(super) const GUIDE: &str = "crates/uthread/src/guide/";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let contents = format!("{GUIDE}README.md");
    let modules = format!("{GUIDE}mod.rs");
    let chapters = names(tree.text(&modules), "pub mod ", ";");
    let mut findings = undefined(tree, &contents, &modules);
    if names(tree.text(&contents), "- [`", "`]") != chapters {
        let what = "the contents are not the modules in their order";
        findings.push(Finding::new(&contents, 1, what, "list each chapter once"));
    }
    for (index, name) in chapters.iter().enumerate() {
        let path = format!("{GUIDE}{name}.md");
        let previous = index.checked_sub(1).and_then(|index| chapters.get(index));
        let links = links(previous.copied(), chapters.get(index + 1).copied());
        let chapter = tree.text(&path);
        if chapter.lines().next_back() != Some(&links) {
            let what = format!("the last line is not `{links}`");
            let line = chapter.lines().count();
            findings.push(Finding::new(&path, line, what, "end the chapter with it"));
        }
        let module = format!("{GUIDE}{name}.rs");
        findings.extend(undefined(tree, &path, &module));
        findings.extend(unlinked(tree, &module, chapter));
    }
    findings
}

/// Finds links to files that the module does not define for rustdoc.
fn undefined(tree: &Tree, path: &str, module: &str) -> Vec<Finding> {
    let definitions = tree.text(module);
    let lines = tree.text(path).lines().zip(1..);
    let undefined = lines.filter_map(|(line, number)| {
        let (label, target) = line.strip_prefix('[')?.split_once("]: ")?;
        let is_file = target.split('#').next()?.ends_with(".md");
        let definition = format!("//! [{label}]: ");
        (is_file && !definitions.contains(&definition)).then(|| {
            let what = format!("{module} does not define the link [{label}]");
            Finding::new(path, number, what, "define it there, as `super::CHAPTER`")
        })
    });
    undefined.collect()
}

/// Finds links of a module to items that the text of its chapter does not define.
fn unlinked(tree: &Tree, module: &str, chapter: &str) -> Vec<Finding> {
    let lines = tree.text(module).lines().zip(1..);
    let unlinked = lines.filter_map(|(line, number)| {
        let (label, target) = line.strip_prefix("//! [")?.split_once("]: ")?;
        let is_chapter = target.starts_with("super::") || target.starts_with("crate::guide");
        (!is_chapter && !chapter.contains(&format!("\n[{label}]: "))).then(|| {
            let what = format!("the chapter does not define the link [{label}]");
            Finding::new(
                module,
                number,
                what,
                "define it at its end, as the page on docs.rs",
            )
        })
    });
    unlinked.collect()
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
    let link = |word: &str, name: &str| format!("[{word}: {}][{name}]", name.replace('_', " "));
    let previous = previous.map(|name| link("Previous", name));
    let next = next.map(|name| link("Next", name));
    let contents = Some("[Contents][contents]".to_owned());
    let links: Vec<String> = [previous, contents, next].into_iter().flatten().collect();
    links.join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    const CONTENTS: &str = "- [`first_one`]: a.\n- [`last`]: b.\n";

    /// Plants a file in a guide of two chapters.
    #[track_caller]
    fn plant_file(path: &str, text: &str, expected: &str) {
        let good = [
            (
                "crates/uthread/src/guide/mod.rs",
                "pub mod first_one;\n\npub mod last;\n",
            ),
            ("crates/uthread/src/guide/README.md", CONTENTS),
            (
                "crates/uthread/src/guide/first_one.md",
                "A.\n\n[last]: last.md#a\n\n[Contents][contents] | [Next: last][last]\n",
            ),
            (
                "crates/uthread/src/guide/first_one.rs",
                "//! [last]: super::last#a\n",
            ),
            (
                "crates/uthread/src/guide/last.md",
                "B.\n\n[Previous: first one][first_one] | [Contents][contents]\n",
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
        let expected = "last.md:1: the last line is not `[Previous: first one][first_one]";
        plant_file("last.md", "B.\n", expected);
        let expected = "first_one.md:1: the last line is not `[Contents][contents] | [Next: last]";
        plant_file("first_one.md", "[Contents][contents]\n", expected);
    }

    #[test]
    fn the_contents_have_the_order_of_the_modules() {
        let lines: Vec<&str> = CONTENTS.lines().collect();
        let other = [lines[1], lines[0]].join("\n");
        let expected = "README.md:1: the contents are not the modules in their order";
        plant_file("README.md", &other, expected);
    }

    #[test]
    fn a_link_to_a_file_is_defined_for_rustdoc_too() {
        let expected = "first_one.md:3: crates/uthread/src/guide/first_one.rs does not define";
        plant_file("first_one.rs", "//! [first]: super::last\n", expected);
    }

    #[test]
    fn a_link_to_an_item_is_defined_for_the_repository_too() {
        let text = "//! [last]: super::last#a\n//! [`spawn`]: crate::spawn\n";
        let expected = "first_one.rs:2: the chapter does not define the link [`spawn`]";
        plant_file("first_one.rs", text, expected);
    }
}

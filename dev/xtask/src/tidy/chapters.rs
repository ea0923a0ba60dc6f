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
            let remedy = "define it at its end, as the page on docs.rs";
            Finding::new(module, number, what, remedy)
        })
    });
    unlinked.collect()
}

/// Returns what is between `start` and `end` in the lines that begin with `start`.
fn names<'a>(text: &'a str, start: &str, end: &str) -> Vec<&'a str> {
    let name = |line: &'a str| Some(line.strip_prefix(start)?.split_once(end)?.0);
    text.lines().filter_map(name).collect()
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

    #[test]
    fn each_fault_of_the_guide_is_found() {
        let first = "[last]: last.md#a\n\n[Contents][contents] | [Next: last][last]\n";
        let last = "[Previous: first one][first_one] | [Contents][contents]\n";
        let good = [
            ("mod.rs", "pub mod first_one;\n\npub mod last;\n"),
            ("README.md", "- [`first_one`]: a.\n- [`last`]: b.\n"),
            ("first_one.md", first),
            ("first_one.rs", "//! [last]: super::last#a\n"),
            ("last.md", last),
        ];
        let reversed = "- [`last`]: b.\n- [`first_one`]: a.";
        let more = "//! [last]: super::last\n//! [`spawn`]: crate::spawn\n";
        #[rustfmt::skip]
        let cases = [
            ("README.md", reversed, "README.md:1: the contents are not"),
            ("last.md", "B.\n", "last.md:1: the last line is not `[Previous: first one]["),
            ("first_one.rs", "//! [a]: super::last", "first_one.md:1: crates/uthread/src/guide/f"),
            ("first_one.rs", more, "first_one.rs:2: the chapter does not define the link [`s"),
        ];
        plant(check, GUIDE, &good, &cases);
    }
}

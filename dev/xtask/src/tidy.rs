//! `cargo xtask tidy`: the rules of this repository that no lint covers, one check each.
//!
//! A check is a function from the tree of files to its findings. So a test can pass it a tree of
//! three small files, with a fault planted in one of them.

mod tree;

mod paths;

mod layers;

mod cycles;

mod maps;

mod chapters;

mod size;

mod links;

mod manifests;

mod examples;

use std::fmt;
use std::io;
use std::path::Path;

use tree::Tree;

type Check = fn(&Tree) -> Vec<Finding>;

const CHECKS: [Check; 8] = [
    layers::check,
    cycles::check,
    maps::check,
    chapters::check,
    size::check,
    links::check,
    manifests::check,
    examples::check,
];

/// Returns all findings below `root`, sorted by place.
pub(crate) fn findings(root: &Path) -> io::Result<Vec<Finding>> {
    let tree = Tree::read(root)?;
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    findings.sort();
    Ok(findings)
}

/// One fault: its place, a description, and the remedy.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    what: String,
    remedy: &'static str,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>, remedy: &'static str) -> Self {
        Self {
            path: path.to_owned(),
            line,
            what: what.into(),
            remedy,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            line,
            what,
            remedy,
        } = self;
        write!(out, "{path}:{line}: {what}: {remedy}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expects `check` to accept the files of `good`, and to return findings that start with
    /// `expected` after the file `fault` has been added, or has replaced the file of that name.
    pub(super) fn plant(
        check: Check,
        good: &[(&str, &str)],
        fault: (&str, &str),
        expected: &[&str],
    ) {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        let tree = |files: &[(&str, &str)]| Tree::new(files.iter().map(owned).collect());
        assert_eq!(check(&tree(good)), [], "the good tree has findings");
        let found = check(&tree(&[good, &[fault]].concat()));
        let shown: Vec<String> = found.iter().map(Finding::to_string).collect();
        let matches = |(shown, expected): (&String, &&str)| shown.starts_with(expected);
        assert_eq!(shown.len(), expected.len(), "{shown:#?}");
        assert!(
            shown.iter().zip(expected).all(matches),
            "found {shown:#?}, expected {expected:#?}"
        );
    }

    #[test]
    fn this_repository_is_tidy() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let findings = findings(&root).expect("the repository can be read");
        let shown: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert!(shown.is_empty(), "cargo xtask tidy:\n{}", shown.join("\n"));
    }

    #[test]
    fn a_finding_shows_place_fault_and_remedy() {
        let finding = Finding::new("a/b.rs", 7, "this is wrong", "do that");
        assert_eq!(finding.to_string(), "a/b.rs:7: this is wrong: do that");
    }
}

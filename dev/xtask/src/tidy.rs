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
        write!(
            out,
            "{}:{}: {}: {}",
            self.path, self.line, self.what, self.remedy
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expects `check` to accept the files of `good`, and to return one finding after the file of a
    /// case has been added, or has replaced the file of that name. A case is a path, the text of
    /// the file, and the start of the finding. Paths are from `folder`, or from the root after `/`.
    pub(super) fn plant(
        check: Check,
        folder: &str,
        good: &[(&str, &str)],
        cases: &[(&str, &str, &str)],
    ) {
        let path = |path: &str| match path.strip_prefix('/') {
            Some(path) => path.to_owned(),
            None => format!("{folder}{path}"),
        };
        let file = |(name, text): &(&str, &str)| (path(name), (*text).to_owned());
        let found = |files: &[(&str, &str)]| check(&Tree::new(files.iter().map(file).collect()));
        assert_eq!(found(good), [], "the good tree has findings");
        for (name, text, expected) in cases {
            let found = found(&[good, &[(name, text)]].concat());
            let shown: Vec<String> = found.iter().map(Finding::to_string).collect();
            let is_expected = shown.len() == 1 && shown[0].starts_with(&path(expected));
            assert!(is_expected, "{shown:#?} instead of {expected}");
        }
    }

    #[test]
    fn this_repository_is_tidy() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let findings = findings(&root).expect("the repository can be read");
        let shown: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert!(shown.is_empty(), "cargo xtask tidy:\n{}", shown.join("\n"));
    }
}

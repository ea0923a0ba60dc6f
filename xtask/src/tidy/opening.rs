//! Checks that every Rust file opens with a `//!` comment.

use super::Finding;
use super::tree::Tree;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in tree.sources() {
        if let Some(error) = &source.error {
            findings.push(Finding::new(
                path,
                1,
                format!("not a Rust file ({error})"),
                "make it compile",
            ));
        }
        let opening = tree
            .text(path)
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("//!"));
        if opening.is_none_or(|text| text.trim().is_empty()) {
            let what = "the file does not open with a `//!` comment";
            findings.push(Finding::new(path, 1, what, "open it with a `//!` sentence"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    #[test]
    fn a_file_must_open_with_its_purpose() {
        let good = [
            ("a.rs", "//! The module a.\nfn a() {}\n"),
            ("b.txt", "no Rust"),
        ];
        let expected = ["a.rs:1: the file does not open"];
        for fault in [
            "fn a() {}\n",
            "\n//! Late.\n",
            "//!\nfn a() {}\n",
            "// A plain comment.\n",
            "",
        ] {
            plant(check, &good, ("a.rs", fault), &expected);
        }
    }

    #[test]
    fn a_file_must_be_rust() {
        plant(
            check,
            &[("a.rs", "//! A.\n")],
            ("a.rs", "//! A.\nfn a( {\n"),
            &["a.rs:1: not a Rust file"],
        );
    }
}

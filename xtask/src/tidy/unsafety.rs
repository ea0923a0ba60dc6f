//! Checks that unsafe code is only in the files of one list.

use super::Finding;
use super::list;
use super::tree::Tree;

const LIST: &str = "xtask/unsafe-files.txt";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut faults = Vec::new();
    for (path, source) in tree.sources() {
        if let Some(token) = source.tokens.iter().find(|token| token.text == "unsafe") {
            let remedy = "move it to a file of xtask/unsafe-files.txt, or list this one there";
            faults.push((
                path.to_owned(),
                Finding::new(path, token.line, "unsafe code in a file not listed", remedy),
            ));
        }
    }
    list::forgive(tree, LIST, faults)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    #[test]
    fn unsafe_code_must_be_listed() {
        let good = [("a.rs", "//! No unsafe code.\n#![forbid(unsafe_code)]\n")];
        plant(
            check,
            &good,
            ("a.rs", "\nunsafe fn a() {}"),
            &["a.rs:2: unsafe code in a file not listed"],
        );
        plant(
            check,
            &good,
            ("b.rs", "#[unsafe(no_mangle)]\nfn a() {}"),
            &["b.rs:1: unsafe code in a file not listed"],
        );
    }

    #[test]
    fn a_listed_file_must_have_unsafe_code() {
        let good = [
            ("a.rs", "unsafe fn a() {}"),
            (LIST, "a.rs the stack of a fiber\n"),
        ];
        plant(
            check,
            &good,
            ("a.rs", "fn a() {}"),
            &["xtask/unsafe-files.txt:1: a.rs no longer needs"],
        );
    }
}

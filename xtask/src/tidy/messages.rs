//! The message of a panic names its subject: it is read without the code.

use super::Finding;
use super::language::PRONOUNS;
use super::tree::Tree;

/// Macros and functions, and the number of arguments before the message.
const CALLS: [(&str, usize); 10] = [
    ("assert", 1),
    ("assert_eq", 2),
    ("assert_ne", 2),
    ("debug_assert", 1),
    ("debug_assert_eq", 2),
    ("debug_assert_ne", 2),
    ("expect", 0),
    ("expect_err", 0),
    ("panic", 0),
    ("unreachable", 0),
];

const REMEDY: &str = "name the subject: where a test fails, its message is read without the code";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in tree.sources() {
        for (index, token) in source.tokens.iter().enumerate() {
            let Some((_, before)) = CALLS.iter().find(|(call, _)| *call == token.text) else {
                continue;
            };
            let open = index + 1 + usize::from(source.text(index + 1) == "!");
            if source.text(open) != "(" {
                continue;
            }
            let start = source.elements(open).get(*before).copied();
            let message = start.and_then(|start| source.text(start).strip_prefix('"'));
            if let Some(pronoun) = message.and_then(pronoun) {
                let what = format!("the message of a panic starts with \"{pronoun}\"");
                findings.push(Finding::new(path, token.line, what, REMEDY));
            }
        }
    }
    findings
}

/// Returns the pronoun that a message starts with.
fn pronoun(message: &str) -> Option<&'static str> {
    let (first, _) = message.split_once([' ', '"'])?;
    PRONOUNS.into_iter().find(|pronoun| *pronoun == first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    #[test]
    fn a_message_without_a_subject_is_found() {
        let good = "//! A.\nfn a() { panic!(\"item {b}\"); b.expect(\"thatch\"); b.that(\"it\"); assert_ne!(b, \"it\", \"b\"); }\n";
        for call in [
            "panic!(\"it {b}\")",
            "b.expect(\"nobody sends\")",
            "b.expect_err(\n\"it\",\n)",
            "assert!(b, \"it waits\")",
            "assert_eq!(\"a, b\", [1, 2], \"who {c}\")",
        ] {
            let fault = format!("//! A.\nfn a() {{ {call}; }}\n");
            let expected = ["a.rs:2: the message of a panic starts with"];
            plant(check, &[("a.rs", good)], ("a.rs", &fault), &expected);
        }
    }
}

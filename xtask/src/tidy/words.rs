//! Checks for words that must not stay: paths of one machine, and markers of unfinished work.

use super::Finding;
use super::tree::Tree;

/// Composed of parts, so that this file passes its own check.
const WORDS: [(&str, &str); 8] = [
    (concat!("/wo", "rk/"), MACHINE),
    (concat!("/ro", "ot/"), MACHINE),
    (concat!("/ho", "me/"), MACHINE),
    (concat!("TO", "DO"), UNFINISHED),
    (concat!("FIX", "ME"), UNFINISHED),
    (concat!("to", "do!"), UNFINISHED),
    (concat!("unimple", "mented!"), UNFINISHED),
    (concat!("db", "g!"), "delete it"),
];

const MACHINE: &str = "name the place relative to the repository";

const UNFINISHED: &str = "finish it, or open an issue";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree
        .files()
        .filter(|(path, text)| is_written_here(path, text))
    {
        for (text, line) in text.lines().zip(1..) {
            for (word, remedy) in WORDS.iter().filter(|(word, _)| contains_word(text, word)) {
                findings.push(Finding::new(
                    path,
                    line,
                    format!("`{word}` may not stay"),
                    remedy,
                ));
            }
        }
    }
    findings
}

fn is_written_here(path: &str, text: &str) -> bool {
    [".rs", ".md", ".toml", ".sh"]
        .iter()
        .any(|ending| path.ends_with(ending))
        || text.starts_with("#!/")
}

/// Returns true if `text` contains `word` as a whole: the path `a/b/` does not contain the path
/// `/b/`.
fn contains_word(text: &str, word: &str) -> bool {
    let part = |neighbour: char| neighbour.is_alphanumeric() || neighbour == '_';
    let starts = |before: &str| !before.ends_with(|last| part(last) || last == '-' || last == '.');
    let ends = |after: &str| !word.ends_with(part) || !after.starts_with(part);
    text.match_indices(word)
        .any(|(start, _)| starts(&text[..start]) && ends(&text[start + word.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    #[test]
    fn each_word_is_found_in_each_kind_of_file() {
        for (word, _) in WORDS {
            for path in ["a.rs", "a.md", "a.toml", "a.sh"] {
                let expected = format!("{path}:2: `{word}` may not stay");
                plant(
                    check,
                    &[(path, "fine\n")],
                    (path, &format!("fine\n({word}.)\n")),
                    &[&expected],
                );
            }
            plant(
                check,
                &[],
                ("run", &format!("#!/bin/sh\n# {word} b\n")),
                &["run:2: "],
            );
        }
    }

    #[test]
    fn a_part_of_a_longer_word_is_none_of_them() {
        for (word, _) in WORDS {
            plant(check, &[], ("a.md", &format!("www{word} a_{word}\n")), &[]);
        }
        plant(
            check,
            &[],
            ("a.md", concat!("MASTO", "DON TO", "DOS\n")),
            &[],
        );
    }
}

//! A comment in code names its subject: "The worker sleeps", and not "It sleeps". The code below it
//! has several candidates, and a reader tries each.

use super::Finding;
use super::tree::Tree;

/// First words that leave the subject of a comment to the reader, or refer to a place above.
const OPENINGS: [&str; 11] = [
    "And", "As above", "It", "Nor", "That", "They", "Those", "What", "Who", "Whoever", "Whom",
];

/// First words of a safety comment that do so.
const SAFETY_OPENINGS: [&str; 6] = ["it", "that", "they", "this", "those", "whoever"];

const REMEDY: &str =
    "name the subject, as in \"The worker sleeps\" or \"SAFETY: the buffer lives\"";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, _) in tree.sources() {
        let mut is_inside = false;
        for (text, line) in tree.text(path).lines().zip(1..) {
            let comment = text.trim_start().strip_prefix("// ");
            if let Some(opening) = comment.and_then(|comment| opening(comment, is_inside)) {
                let what = format!("a comment starts with \"{opening}\"");
                findings.push(Finding::new(path, line, what, REMEDY));
            }
            is_inside = comment.is_some();
        }
    }
    findings
}

/// Returns the rejected words that a line of a comment starts with. A line inside a comment may
/// continue a sentence, unless it begins a safety comment.
fn opening(comment: &str, is_inside: bool) -> Option<&'static str> {
    let starts_with = |text: &str, word: &str| {
        let rest = text.strip_prefix(word);
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
    };
    if let Some(text) = comment.strip_prefix("SAFETY: ") {
        let mut openings = SAFETY_OPENINGS.into_iter();
        return openings.find(|word| starts_with(text, word));
    }
    let mut openings = OPENINGS.into_iter().filter(|_| !is_inside);
    openings.find(|word| starts_with(comment, word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    const GOOD: [(&str, &str); 1] = [("a.rs", "//! A.\nfn a() {\n    // The end.\n}\n")];

    #[test]
    fn a_comment_must_name_its_subject() {
        let of_safety = SAFETY_OPENINGS.map(|word| (word, format!("SAFETY: {word} lives.")));
        let others = OPENINGS.map(|words| (words, format!("{words}: ends.")));
        for (words, comment) in of_safety.into_iter().chain(others) {
            let source = format!("//! A.\nfn a() {{\n    // {comment}\n    b();\n}}\n");
            let expected = format!("a.rs:3: a comment starts with \"{words}\"");
            plant(check, &GOOD, ("a.rs", &source), &[&expected]);
        }
    }

    #[test]
    fn longer_words_later_lines_and_documentation_are_accepted() {
        for comment in [
            "Items end.",
            "The worker ends.\n    // It sleeps.",
            "SAFETY: items live.",
            "SAFETY: the buffer lives.\n    // It is long.",
        ] {
            let source = format!("//! A.\n//\n/// It ends.\nfn a() {{\n    // {comment}\n}}\n");
            plant(check, &GOOD, ("a.rs", &source), &[]);
        }
    }
}

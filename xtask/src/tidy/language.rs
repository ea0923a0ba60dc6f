//! Documentation reads as `std`'s does: a summary line starts with a verb or a noun, and an
//! `# Errors` section names kinds of error and their causes. The name of a function, such as a
//! test, starts with its subject or a verb, and that of a predicate is no question.

use std::iter;

use super::Finding;
use super::chapters::GUIDE;
use super::tree::Tree;

/// First words of a summary line that depends on its context: a clause, or a reference to another
/// item.
const OPENINGS: [&str; 13] = [
    "As", "Of", "So", "That", "The same", "Them", "Those", "What", "Whatever", "Whether", "Who",
    "Whoever", "Whom",
];

const SUMMARY_REMEDY: &str =
    "start with a verb or a noun, as in \"Returns `true` if\" or \"Number of bytes\"";

/// First words of a name, or of a message, that leaves its subject to the reader.
pub(super) const PRONOUNS: [&str; 11] = [
    "everybody",
    "everyone",
    "it",
    "nobody",
    "that",
    "they",
    "those",
    "what",
    "who",
    "whoever",
    "whose",
];

const NAME_REMEDY: &str = "name the subject: where a test fails, its name is read without its code";

/// First words of a name that asks a question.
const QUESTIONS: [&str; 6] = ["are", "did", "do", "does", "have", "were"];

const QUESTION_REMEDY: &str =
    "name a predicate as `std` does: `is_empty`, `has_waiters`, `all_ended` or `panics`";

const ERRORS_REMEDY: &str = "name kinds and causes, as in \"`NotFound` if there is no such file\" or \"The errors of [`open`]\"";

/// An `# Errors` section with fewer words has to name a kind or a call.
const ERRORS_WORDS_MIN: usize = 4;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let chapters = tree.files().filter(|(path, _)| path.ends_with(".md"));
    for (path, text) in chapters.filter(|(path, _)| path.starts_with(GUIDE)) {
        if let Some(opening) = opening(text) {
            let what = format!("a summary starts with \"{opening}\"");
            findings.push(Finding::new(path, 1, what, SUMMARY_REMEDY));
        }
    }
    for (path, _) in tree.sources() {
        for (text, line) in tree.text(path).lines().zip(1..) {
            if let Some((opening, remedy)) = opening_of_function(text) {
                let what = format!("the name of a function starts with \"{opening}\"");
                findings.push(Finding::new(path, line, what, remedy));
            }
        }
        for comment in comments(tree.text(path)) {
            if let Some((line, opening)) = comment.summary() {
                let what = format!("a summary starts with \"{opening}\"");
                findings.push(Finding::new(path, line, what, SUMMARY_REMEDY));
            }
            for line in comment.vague_errors() {
                let what = "an `# Errors` section names no errors";
                findings.push(Finding::new(path, line, what, ERRORS_REMEDY));
            }
        }
    }
    findings
}

/// Returns the rejected word that the name of a function starts with, and its remedy, if the line
/// defines one.
fn opening_of_function(line: &str) -> Option<(&'static str, &'static str)> {
    let (before, name) = line.split_once("fn ")?;
    // A visibility may be two words, as in `pub(in crate::sched)`.
    let is_qualifier = |word: &str| {
        matches!(word, "async" | "const" | "extern" | "\"C\"" | "unsafe")
            || word.starts_with("pub")
            || word.starts_with("crate::") && word.ends_with(')')
    };
    let is_definition = before.split_whitespace().all(is_qualifier);
    let (first, _) = name.split_once('_').filter(|_| is_definition)?;
    let pronouns = PRONOUNS.into_iter().zip(iter::repeat(NAME_REMEDY));
    let questions = QUESTIONS.into_iter().zip(iter::repeat(QUESTION_REMEDY));
    pronouns.chain(questions).find(|(word, _)| *word == first)
}

/// A doc comment: the text of its lines, each with its number.
#[derive(Default)]
struct Comment<'a> {
    lines: Vec<(usize, &'a str)>,
}

impl<'a> Comment<'a> {
    /// Returns the line of a faulty summary, and the words that it starts with.
    fn summary(&self) -> Option<(usize, &'static str)> {
        let &(line, text) = self
            .lines
            .iter()
            .find(|(_, text)| !text.trim().is_empty())?;
        opening(text).map(|opening| (line, opening))
    }

    /// Returns the lines of the headings of faulty `# Errors` sections.
    fn vague_errors(&self) -> Vec<usize> {
        let mut lines = self.prose().peekable();
        let mut faults = Vec::new();
        while let Some((heading, text)) = lines.next() {
            if text.trim() != "# Errors" {
                continue;
            }
            let mut words = Vec::new();
            while let Some((_, text)) = lines.next_if(|(_, text)| !text.starts_with("# ")) {
                words.extend(text.split_whitespace());
            }
            if is_vague(&words.join(" ")) {
                faults.push(heading);
            }
        }
        faults
    }

    /// Returns the lines outside of examples.
    fn prose(&self) -> impl Iterator<Item = (usize, &'a str)> {
        let mut is_example = false;
        self.lines.iter().copied().filter(move |(_, text)| {
            let is_fence = text.trim_start().starts_with("```");
            is_example ^= is_fence;
            !is_example && !is_fence
        })
    }
}

/// Returns the doc comments of a file.
fn comments(text: &str) -> Vec<Comment<'_>> {
    let mut comments = Vec::new();
    let mut last_marker = None;
    for (line, number) in text.lines().zip(1..) {
        let doc = doc_line(line);
        let marker = doc.map(|(marker, _)| marker);
        if marker.is_some() && marker != last_marker {
            comments.push(Comment::default());
        }
        if let (Some((_, text)), Some(comment)) = (doc, comments.last_mut()) {
            comment.lines.push((number, text));
        }
        last_marker = marker;
    }
    comments
}

/// Splits a line of a doc comment into its marker and its text.
pub(super) fn doc_line(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let (marker, text) = line.split_at_checked(3)?;
    let is_doc = marker == "//!" || marker == "///" && !text.starts_with('/');
    is_doc.then(|| (marker, text.strip_prefix(' ').unwrap_or(text)))
}

/// Returns the rejected words that the text starts with.
fn opening(text: &str) -> Option<&'static str> {
    let is_word_end = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric());
    let is_opening = |opening: &&str| text.strip_prefix(*opening).is_some_and(is_word_end);
    OPENINGS.into_iter().find(is_opening)
}

/// Returns `true` if the text of an `# Errors` section leaves the errors to the reader.
fn is_vague(text: &str) -> bool {
    let names_one = text.contains('`');
    let is_short = text.split(' ').count() < ERRORS_WORDS_MIN;
    is_short && !names_one || text.starts_with("The kernel's") || opening(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    const GOOD: [(&str, &str); 1] = [("a.rs", "//! A file.\n")];

    #[test]
    fn a_summary_must_stand_alone() {
        for opening in OPENINGS {
            for (source, line) in [
                (format!("//! {opening} it is.\n"), 1),
                (format!("//! A.\n\n/// {opening} it is.\nfn a() {{}}\n"), 3),
                (
                    format!("//! A.\nstruct A {{\n    /// {opening}\n    a: u8,\n}}\n"),
                    3,
                ),
                (format!("//! A.\n///\n/// {opening}: b\nfn a() {{}}\n"), 3),
            ] {
                let expected = format!("a.rs:{line}: a summary starts with \"{opening}\"");
                plant(check, &GOOD, ("a.rs", &source), &[&expected]);
            }
            let chapter = "crates/uthread/src/guide/a.md";
            let expected = format!("{chapter}:1: a summary starts with \"{opening}\"");
            plant(
                check,
                &GOOD,
                (chapter, &format!("{opening} it is.\n")),
                &[&expected],
            );
        }
    }

    #[test]
    fn other_lines_and_longer_words_are_accepted() {
        for source in [
            "//! A.\n//!\n//! As in `b`.\n",
            "//! A.\n\n// What is not documentation.\nfn a() {}\n",
            "//! A.\n\n//// What is not documentation.\nfn a() {}\n",
            "//! A.\n\n/// Assigns.\n/// As it is.\nfn a() {}\n",
            "//! A.\n\n/// Whole bytes.\nfn a() {}\n",
            "//! The sameness.\n",
        ] {
            plant(check, &GOOD, ("a.rs", source), &[]);
        }
    }

    #[test]
    fn the_name_of_a_function_must_have_a_subject_and_ask_nothing() {
        let pronouns = ["what_is_there", "it_ends", "those_who_wait", "who_waits"];
        let questions = QUESTIONS.map(|word| format!("{word}_any_left"));
        for name in pronouns.map(String::from).into_iter().chain(questions) {
            let opening = name.split('_').next().unwrap();
            let expected = format!("a.rs:2: the name of a function starts with \"{opening}\"");
            for before in [
                "",
                "    ",
                "pub(crate) const ",
                "pub(in crate::b) ",
                "pub unsafe extern \"C\" ",
            ] {
                let source = format!("//! A.\n{before}fn {name}() {{}}\n");
                plant(check, &GOOD, ("a.rs", &source), &[&expected]);
            }
        }
        for line in [
            "fn items_end() {}",
            "fn whatever() {}",
            "// The fn what_is.",
            "fn it() {}",
            "fn dot_product() {}",
            "fn are() {}",
            "fn has_waiters() {}",
        ] {
            let source = format!("//! A.\n{line}\n");
            plant(check, &GOOD, ("a.rs", &source), &[]);
        }
    }

    #[test]
    fn an_errors_section_must_name_errors() {
        for errors in [
            "The kernel's.",
            "The kernel's: `EMFILE`.",
            "As there.",
            "As [`b`].",
            "None known here.",
            "",
            "# Panics\n///\n/// Panics if `b` is zero, which it never is.",
            "```\n/// b(\"a long example, and `c` in it\")?;\n/// ```",
        ] {
            let source =
                format!("//! A.\n\n/// B.\n///\n/// # Errors\n///\n/// {errors}\nfn b() {{}}\n");
            let expected = ["a.rs:5: an `# Errors` section names no errors"];
            plant(check, &GOOD, ("a.rs", &source), &expected);
        }
    }

    #[test]
    fn an_errors_section_may_name_a_kind_a_call_or_a_cause() {
        for errors in [
            "`NotFound`.",
            "The errors of\n/// `b`.",
            "Any error that `b` reports.",
            "If the text is\n/// too long.",
        ] {
            let source =
                format!("//! A.\n\n/// B.\n///\n/// # Errors\n///\n/// {errors}\nfn b() {{}}\n");
            plant(check, &GOOD, ("a.rs", &source), &[]);
        }
    }
}

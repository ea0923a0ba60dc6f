//! The documentation of a function starts with a verb in the third person, as that of `std` does;
//! that of a constant with what it is, and not with the reason for its value.

use super::Finding;
use super::language::doc_line;
use super::tree::Tree;

/// First words that end in "s" like a verb, and are none.
const NO_VERBS: [&str; 7] = [
    "Always", "As", "Bytes", "Its", "Previous", "Seconds", "This",
];

/// First words of a reason for a value, which the documentation of a constant does not start with.
const REASONS: [&str; 18] = [
    "Above", "Below", "Beyond", "Enough", "Far", "Few", "Fewer", "Larger", "Less", "Long",
    "Longer", "More", "Short", "Shorter", "Smaller", "Too", "When", "Where",
];

const CONSTANT_REMEDY: &str =
    "start with what it is, as in \"Maximum size\", and then give the reason";

const REMEDY: &str =
    "start with a verb, as in \"Returns\" or \"Waits until\"; in a test, \"Catches\" and the fault";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in tree.sources() {
        let lines: Vec<&str> = tree.text(path).lines().map(str::trim_start).collect();
        for function in source.functions() {
            if let Some((line, text)) = summary(&lines[..function.line - 1])
                && !is_verb(first_word(text))
            {
                let what = fault(function.name, text);
                findings.push(Finding::new(path, line, what, REMEDY));
            }
        }
        for (index, line) in lines.iter().enumerate() {
            if let Some(name) = constant_name(line)
                && let Some((line, text)) = summary(&lines[..index])
                && REASONS.contains(&first_word(text))
            {
                let what = fault(name, text);
                findings.push(Finding::new(path, line, what, CONSTANT_REMEDY));
            }
        }
    }
    findings
}

fn fault(name: &str, text: &str) -> String {
    let word = first_word(text);
    format!("the documentation of `{name}` starts with \"{word}\"")
}

/// Returns the name of the constant or static variable that begins on this line.
fn constant_name(line: &str) -> Option<&str> {
    let item = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let rest = item
        .strip_prefix("const ")
        .or_else(|| item.strip_prefix("static "))?;
    let (name, _) = rest.split_once(':')?;
    name.starts_with(char::is_uppercase).then_some(name)
}

/// Returns the first line of the documentation at the end of these lines, with its number.
fn summary<'a>(lines: &[&'a str]) -> Option<(usize, &'a str)> {
    let lines = without_attributes(lines);
    let others = lines.iter().rposition(|line| !is_doc(line));
    let start = others.map_or(0, |last| last + 1);
    let (_, text) = doc_line(lines.get(start)?)?;
    Some((start + 1, text))
}

fn is_doc(line: &str) -> bool {
    doc_line(line).is_some_and(|(marker, _)| marker == "///") || line.starts_with("#[doc = ")
}

/// Removes the attributes at the end of these lines.
fn without_attributes<'a, 'b>(mut lines: &'b [&'a str]) -> &'b [&'a str] {
    let ends_attribute =
        |line: &&str| line.ends_with(']') && !line.starts_with("//") && !is_doc(line);
    while lines.last().is_some_and(ends_attribute)
        && let Some(start) = lines.iter().rposition(|line| line.starts_with("#["))
    {
        lines = &lines[..start];
    }
    lines
}

fn first_word(text: &str) -> &str {
    let end = text.find(|char: char| !char.is_alphabetic() && char != '-');
    &text[..end.unwrap_or(text.len())]
}

fn is_verb(word: &str) -> bool {
    word.starts_with(char::is_uppercase) && word.ends_with('s') && !NO_VERBS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    const GOOD: [(&str, &str); 1] = [("a.rs", "//! A.\n\n/// Returns it.\nfn a() {}\n")];

    #[test]
    fn a_function_that_starts_with_no_verb_is_found() {
        for (text, word) in [
            ("The text.", "The"),
            ("Otherwise it waits.", "Otherwise"),
            ("`a`: b.", ""),
            ("This returns.", "This"),
            ("returns it.", "returns"),
        ] {
            let expected = format!("a.rs:2: the documentation of `a` starts with \"{word}\"");
            for before in [
                "fn",
                "#[inline]\n    pub(crate) fn",
                "#[inline]\n#[cfg(\n    a\n)]\nunsafe fn",
            ] {
                let source =
                    format!("//! A.\n    /// {text}\n    /// Waits.\n    {before} a() {{}}\n");
                plant(check, &GOOD, ("a.rs", &source), &[&expected]);
            }
        }
    }

    #[test]
    fn a_constant_that_starts_with_a_reason_is_found() {
        let expected = ["a.rs:3: the documentation of `MAX` starts with \"Longer\""];
        for item in ["const", "pub(in a::b) static", "pub const"] {
            let with = |doc: &str| format!("//! A.\n\n/// {doc}\n{item} MAX: u8 = 1;\n");
            let good = with("Maximum length: longer than any.");
            plant(
                check,
                &[("a.rs", &good)],
                ("a.rs", &with("Longer than any.")),
                &expected,
            );
        }
    }

    #[test]
    fn other_items_and_remarks_may_start_otherwise() {
        for source in [
            "//! A.\n\n/// The text.\nstruct A;\n\nfn a() {}\n",
            "//! A.\n\n/// Re-reads, and waits.\nfn a() {}\n",
            "//! A.\n\n// The text.\nfn a() {}\n",
            "//! A.\nfn a() {\n    // The text.\n}\n",
        ] {
            plant(check, &GOOD, ("a.rs", source), &[]);
        }
    }
}

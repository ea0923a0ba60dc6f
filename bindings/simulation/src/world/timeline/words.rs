//! The words in a picture.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use super::story::Note;
use crate::world::links::Pair;

/// Number of links that a note names.
const LINKS_MAX: usize = 3;

/// Returns what is said of a note.
pub(super) fn note_text<'a>(note: &Note, name: &impl Fn(u32) -> &'a str) -> String {
    let fault = note
        .fault
        .map_or_else(String::new, |fault| format!(" ({fault})"));
    let what = &note.text;
    match (note.host, &note.pairs) {
        (Some(host), _) => format!("{}: {what}{fault}", name(host)),
        (None, Some(pairs)) => {
            let pairs = Some(&pairs[..]).filter(|pairs| !pairs.is_empty());
            format!("{}: {what}{fault}", links_text(pairs, name))
        }
        (None, None) => format!("{what}{fault}"),
    }
}

/// Returns the names of the hosts of a link, escaped.
pub(super) fn arrow<'a>((from, to): Pair, name: &impl Fn(u32) -> &'a str) -> String {
    Escaped(&format!("{} -> {}", name(from), name(to))).to_string()
}

/// Returns the names of links, of which two may be those of both directions.
pub(super) fn links_text<'a>(pairs: Option<&[Pair]>, name: &impl Fn(u32) -> &'a str) -> String {
    let Some(pairs) = pairs else {
        return "all links".to_owned();
    };
    let pairs: BTreeSet<_> = pairs.iter().copied().collect();
    let is_both = |pair: &Pair| pairs.contains(&(pair.1, pair.0));
    let first = pairs
        .iter()
        .filter(|pair| pair.0 < pair.1 || !is_both(pair));
    let texts: Vec<_> = first
        .map(|pair| {
            let sign = if is_both(pair) { "-" } else { "->" };
            format!("{} {sign} {}", name(pair.0), name(pair.1))
        })
        .collect();
    let mut text = texts[..texts.len().min(LINKS_MAX)].join(", ");
    if let Some(more @ 1..) = texts.len().checked_sub(LINKS_MAX) {
        text += &format!(", {more} more");
    }
    text
}

/// A text in XML.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '<' => formatter.write_str("&lt;")?,
                '>' => formatter.write_str("&gt;")?,
                '&' => formatter.write_str("&amp;")?,
                // Not in a text of XML, whatever the escape.
                letter if letter.is_control() => formatter.write_char(' ')?,
                letter => formatter.write_char(letter)?,
            }
        }
        Ok(())
    }
}

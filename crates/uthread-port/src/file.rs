//! Ports one file: the edits of its text, and the notes on lines that need attention.

use std::ops::Range;

use super::decision::{Decision, decide};
use super::imports::Tree;
use super::tokens::Tokens;

/// Options besides replacing paths. See the example of the [crate](crate).
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Replace `thread_local!` by `uthread::local!`.
    pub locals: bool,
    /// Add `#[uthread::main]` to `fn main`.
    pub main: bool,
    /// Replace `#[test]` by `#[uthread::test]`.
    pub tests: bool,
}

/// A ported file. See the example of the [crate](crate).
#[derive(Debug, PartialEq, Eq)]
pub struct Ported {
    /// The text after porting.
    pub text: String,
    /// The number of places that differ from the source.
    pub changes: usize,
    /// Paths that stay and need attention, in the order of their lines.
    pub notes: Vec<Note>,
}

/// A path that stays, with the reason or a suggestion.
///
/// ```
/// use uthread_port::{Options, port};
///
/// let ported = port("std::thread::sleep_ms(1);", Options::default());
/// assert_eq!((ported.notes[0].line, ported.notes[0].what.as_str()), (1, "std::thread::sleep_ms"));
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Note {
    /// The line in the source, from 1.
    pub line: usize,
    /// The path or item.
    pub what: String,
    /// The reason why it stays, or what to write instead.
    pub remedy: &'static str,
}

const THREAD_LOCAL: &str =
    "the fibers of a worker share its values: `--locals` gives each fiber its own";

/// Ports the text of a file. Text that is not Rust stays, with a note. See the example of the
/// [crate](crate).
pub fn port(source: &str, options: Options) -> Ported {
    // Tokens do not include a byte order mark, which may only start a file.
    let start = source.len() - source.trim_start_matches('\u{feff}').len();
    let (mark, source) = source.split_at(start);
    let mut port = match Tokens::new(source) {
        Ok(tokens) => Port {
            tokens,
            options,
            edits: Vec::new(),
            notes: Vec::new(),
        },
        Err(error) => return not_rust(mark, source, error.span().start().line),
    };
    let mut at = 0;
    while at < port.tokens.len() {
        at = port.step(at);
    }
    let changes = port.edits.len();
    let mut text = source.to_owned();
    for (range, new) in port.edits.into_iter().rev() {
        text.replace_range(range, &new);
    }
    Ported {
        text: mark.to_owned() + &text,
        changes,
        notes: port.notes,
    }
}

fn not_rust(mark: &str, source: &str, line: usize) -> Ported {
    let note = Note {
        line,
        what: "the file".to_owned(),
        remedy: "it is not Rust",
    };
    Ported {
        text: mark.to_owned() + source,
        changes: 0,
        notes: vec![note],
    }
}

struct Port<'a> {
    tokens: Tokens<'a>,
    options: Options,
    /// In order of position, without overlaps.
    edits: Vec<(Range<usize>, String)>,
    notes: Vec<Note>,
}

impl Port<'_> {
    /// Processes the code that begins at a token, and returns the next token.
    fn step(&mut self, at: usize) -> usize {
        match self.tokens.text(at) {
            "use" => match Tree::parse(&self.tokens, at + 1) {
                Some(tree) if self.tokens.text(tree.end) == ";" => {
                    self.import(at, &tree);
                    tree.end
                }
                _ => at + 1,
            },
            "std" if self.begins_path(at) => self.path(at),
            "thread_local" if self.tokens.text(at + 1) == "!" && !self.follows_colons(at) => {
                self.thread_local(at, at);
                at + 1
            }
            "#" if self.options.tests && self.tokens.starts_with(at, &["#", "[", "test", "]"]) => {
                self.replace(at + 2, at + 2, "uthread::test");
                at + 4
            }
            "fn" if self.options.main && self.is_main(at) => {
                self.main(at);
                at + 1
            }
            _ => at + 1,
        }
    }

    fn import(&mut self, at: usize, tree: &Tree<'_>) {
        for root in tree.roots() {
            let Some((token, "std")) = root.root() else {
                continue;
            };
            let decisions = root.decisions();
            for (token, path, decision) in &decisions {
                if let Decision::Left(remedy) = decision {
                    self.note(*token, format!("std::{path}").trim_end_matches(':'), remedy);
                }
            }
            let ours = decisions
                .iter()
                .filter(|(.., decision)| *decision == Decision::Ours)
                .count();
            if ours == 0 {
                continue;
            }
            if ours == decisions.len() {
                self.replace(token, token, "uthread");
                continue;
            }
            let part = |ours| root.part(ours).expect("a part of both");
            let (stays, ours) = (part(false), part(true).replacen("std", "uthread", 1));
            let between = if root.first == at + 1 {
                format!(";\n{}", self.head(at))
            } else {
                ", ".to_owned()
            };
            self.replace(root.first, root.end - 1, stays + &between + &ours);
        }
    }

    /// Returns the text of an import before its tree: indentation, attributes, visibility, `use`.
    fn head(&self, at: usize) -> String {
        let tokens = &self.tokens;
        let mut first = self.visibility(at);
        while let Some(attribute) = self.attribute_before(first) {
            first = attribute;
        }
        let start = tokens.range(first).start;
        let line = tokens.source[..start].rfind('\n').map_or(0, |end| end + 1);
        let indent = &tokens.source[line..start];
        let indent = &indent[..indent.len() - indent.trim_start().len()];
        format!("{indent}{} ", &tokens.source[start..tokens.range(at).end])
    }

    /// Returns the first token of an item's visibility, given the token after it; the given token
    /// if there is none.
    fn visibility(&self, at: usize) -> usize {
        let mut first = at;
        if self.tokens.before(at) == ")" {
            let open = (0..at).rev().find(|&it| self.tokens.text(it) == "(");
            first = open.expect("a closing token has its partner");
        }
        match self.tokens.before(first) {
            "pub" => first - 1,
            _ => at,
        }
    }

    /// Returns the `#` of the attribute that ends before a token.
    fn attribute_before(&self, at: usize) -> Option<usize> {
        let close = at
            .checked_sub(1)
            .filter(|&it| self.tokens.text(it) == "]")?;
        let depth = self.tokens.depth(close);
        let opens = |it: &usize| self.tokens.text(*it) == "[" && self.tokens.depth(*it) == depth;
        let open = (0..close).rev().find(opens)?;
        (self.tokens.before(open) == "#").then(|| open - 1)
    }

    /// Processes a path that begins with `std`, and returns the next token.
    fn path(&mut self, at: usize) -> usize {
        let mut end = at + 1;
        let mut segments = Vec::new();
        while self.tokens.text(end) == "::" && is_word(self.tokens.text(end + 1)) {
            segments.push(self.tokens.text(end + 1));
            end += 2;
        }
        match (&segments[..], decide(&segments)) {
            (["thread_local"], _) if self.tokens.text(end) == "!" => {
                self.thread_local(at, end - 1);
            }
            (["thread", "LocalKey"], _) if self.options.locals => {
                self.replace(at, end - 1, "uthread::local::Key");
            }
            // `std` alone, as in `extern crate std`.
            ([], _) | (_, Decision::Std) => {}
            (_, Decision::Ours) => self.replace(at, at, "uthread"),
            (_, Decision::Left(remedy)) => {
                self.note(at, &format!("std::{}", segments.join("::")), remedy);
            }
        }
        end
    }

    /// Processes the name of the macro, which spans these tokens.
    fn thread_local(&mut self, first: usize, last: usize) {
        if self.options.locals {
            self.replace(first, last, "uthread::local");
        } else {
            self.note(first, "thread_local!", THREAD_LOCAL);
        }
    }

    /// Returns true if `std` is the crate here, and not a module of that name or a variable of a
    /// macro.
    fn begins_path(&self, at: usize) -> bool {
        if !self.follows_colons(at) {
            return self.tokens.before(at) != "$";
        }
        let before = self.tokens.before(at - 1);
        !is_word(before) || is_keyword_before_path(before)
    }

    fn follows_colons(&self, at: usize) -> bool {
        self.tokens.before(at) == "::"
    }

    fn is_main(&self, at: usize) -> bool {
        let is_plain = !matches!(self.tokens.before(at), "async" | "const" | "unsafe");
        let is_outermost = self.tokens.depth(at) == 0;
        is_plain && is_outermost && self.tokens.starts_with(at, &["fn", "main", "(", ")"])
    }

    fn main(&mut self, at: usize) {
        let first = self.visibility(at);
        let mut attribute = self.attribute_before(first);
        while let Some(start) = attribute {
            // From any crate: a second such attribute would be an error.
            if (start..first).any(|it| self.tokens.text(it) == "main") {
                return;
            }
            attribute = self.attribute_before(start);
        }
        let start = self.tokens.range(first).start;
        self.edits
            .push((start..start, "#[uthread::main]\n".to_owned()));
    }

    fn replace(&mut self, first: usize, last: usize, new: impl Into<String>) {
        let range = self.tokens.range(first).start..self.tokens.range(last).end;
        self.edits.push((range, new.into()));
    }

    fn note(&mut self, token: usize, what: &str, remedy: &'static str) {
        self.notes.push(Note {
            line: self.tokens.line(token),
            what: what.to_owned(),
            remedy,
        });
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Returns true for keywords that can precede `::std` and are not part of a path.
fn is_keyword_before_path(word: &str) -> bool {
    const WORDS: [&str; 16] = [
        "use", "as", "in", "for", "return", "mut", "dyn", "impl", "if", "match", "while", "else",
        "const", "where", "break", "move",
    ];
    WORDS.contains(&word)
}

//! A Rust file as one flat list of tokens: without comments; a string is one token, and so is `::`.
//! Each token knows its lines, its closing partner, and whether it is in a test module.

use std::collections::BTreeSet;
use std::str::FromStr;

use proc_macro2::{Delimiter, Group, Spacing, Span, TokenStream, TokenTree};

#[derive(Default)]
pub(crate) struct Source {
    pub(crate) tokens: Vec<Token>,
    /// The error, if the file is not Rust.
    pub(crate) error: Option<String>,
}

pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
    line_last: usize,
    /// For an opening bracket, the index of the closing token.
    close: usize,
    pub(crate) nesting: Nesting,
}

/// Position of a token in the file.
#[derive(Clone, Copy, Default)]
pub(crate) struct Nesting {
    /// Number of `mod name { .. }` around the token.
    pub(crate) modules: usize,
    /// True if one of them is `#[cfg(test)]`.
    pub(crate) tests: bool,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        let mut source = Self::default();
        match TokenStream::from_str(text) {
            Ok(stream) => source.flatten(stream, Nesting::default()),
            Err(error) => source.error = Some(error.to_string()),
        }
        source
    }

    /// Returns the text of a token; empty after the end.
    pub(crate) fn text(&self, index: usize) -> &str {
        self.tokens.get(index).map_or("", |token| &token.text)
    }

    /// Counts the lines of code: without blank lines, comments and test modules.
    pub(crate) fn code_lines(&self) -> usize {
        let code = self.tokens.iter().filter(|token| !token.nesting.tests);
        code.flat_map(|token| token.line..=token.line_last)
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// Returns the indices where the elements of a list begin: after its opening bracket, and
    /// after each comma that is not in a nested list.
    pub(crate) fn elements(&self, open: usize) -> Vec<usize> {
        let mut starts = vec![open + 1];
        let mut index = open + 1;
        while index < self.tokens[open].close {
            if self.text(index) == "," {
                starts.push(index + 1);
            }
            index = self.after(index);
        }
        starts
    }

    /// Returns the index after a token, or after the partner of an opening bracket.
    pub(crate) fn after(&self, index: usize) -> usize {
        self.tokens[index].close.max(index) + 1
    }

    fn flatten(&mut self, stream: TokenStream, nesting: Nesting) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        let mut doc_comment = None;
        for (index, tree) in trees.iter().enumerate() {
            let start = tree.span().start();
            if doc_comment == Some(start) {
                continue;
            }
            match tree {
                // A doc comment is an attribute whose `#` spans the whole comment.
                TokenTree::Punct(punct)
                    if punct.as_char() == '#' && !is_one_character(punct.span()) =>
                {
                    doc_comment = Some(start);
                }
                TokenTree::Punct(punct)
                    if punct.as_char() == ':' && follows_joint_colon(&trees[..index]) =>
                {
                    self.tokens
                        .last_mut()
                        .expect("the first colon")
                        .text
                        .push(':');
                }
                TokenTree::Group(group) => {
                    self.flatten_group(group, nesting.inside(&trees[..index], group))
                }
                _ => self.push(&tree.to_string(), tree.span(), nesting),
            }
        }
    }

    fn flatten_group(&mut self, group: &Group, nesting: Nesting) {
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::None => return self.flatten(group.stream(), nesting),
        };
        let opened = self.tokens.len();
        self.push(open, group.span_open(), nesting);
        self.flatten(group.stream(), nesting);
        self.tokens[opened].close = self.tokens.len();
        self.push(close, group.span_close(), nesting);
    }

    fn push(&mut self, text: &str, span: Span, nesting: Nesting) {
        let (line, line_last) = (span.start().line, span.end().line);
        self.tokens.push(Token {
            text: text.to_owned(),
            line,
            line_last,
            close: 0,
            nesting,
        });
    }
}

impl Nesting {
    /// Returns the position of the contents of `group`, given the tokens before it.
    fn inside(self, before: &[TokenTree], group: &Group) -> Self {
        let [attributes @ .., TokenTree::Ident(word), TokenTree::Ident(_)] = before else {
            return self;
        };
        if word != "mod" || group.delimiter() != Delimiter::Brace {
            return self;
        }
        let item = attributes.rsplit(ends_item).next().unwrap_or_default();
        let attributes: String = item
            .iter()
            .map(|tree| tree.to_string().replace(' ', ""))
            .collect();
        let tests = attributes.contains("[cfg(test)]") || attributes.contains("[cfg(all(test,");
        Self {
            modules: self.modules + 1,
            tests: self.tests || tests,
        }
    }
}

fn ends_item(tree: &TokenTree) -> bool {
    match tree {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        _ => false,
    }
}

fn is_one_character(span: Span) -> bool {
    span.start().line == span.end().line && span.start().column + 1 == span.end().column
}

fn follows_joint_colon(before: &[TokenTree]) -> bool {
    let Some(TokenTree::Punct(punct)) = before.last() else {
        return false;
    };
    punct.as_char() == ':' && punct.spacing() == Spacing::Joint
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_tests_are_distinguished_from_code() {
        let source = Source::new(
            "//! Doc.\n\n/* a\nb */ use crate::op; // crate::sched\n/// crate::driver\n\
             const A: &str = \"crate::\nfiber\";\n\
             #[cfg(test)]\nmod tests {\n    use super::*;\n}\nmod inner { struct B; }\n",
        );
        let texts: Vec<&str> = source
            .tokens
            .iter()
            .take(5)
            .map(|token| token.text.as_str())
            .collect();
        assert_eq!(texts, ["use", "crate", "::", "op", ";"]);
        let paths = source.tokens.iter().filter(|token| token.text == "crate");
        assert_eq!(paths.count(), 1);
        // The import, the two lines of the string, the two that open the tests, the inner module.
        assert_eq!(source.code_lines(), 6);
        let last = source
            .tokens
            .iter()
            .find(|token| token.text == "B")
            .expect("the inner struct");
        assert_eq!((last.nesting.modules, last.nesting.tests), (1, false));
    }

    #[test]
    fn text_other_than_rust_is_an_error_without_tokens() {
        let source = Source::new("fn a( {");
        assert!(source.error.is_some() && source.tokens.is_empty());
    }
}

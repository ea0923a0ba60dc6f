//! A Rust file as a list of tokens with positions: without comments; a string is one token, and so
//! is `::`.

use std::ops::Range;
use std::str::FromStr;

use proc_macro2::{Delimiter, Group, LexError, Spacing, TokenStream, TokenTree};

pub(super) struct Tokens<'a> {
    pub(super) source: &'a str,
    tokens: Vec<Token>,
}

struct Token {
    range: Range<usize>,
    /// Number of open brackets around it.
    depth: usize,
}

impl<'a> Tokens<'a> {
    /// Splits `source` into tokens.
    ///
    /// # Errors
    ///
    /// `LexError` if `source` is not a list of Rust tokens.
    pub(super) fn new(source: &'a str) -> Result<Self, LexError> {
        let mut tokens = Tokens {
            source,
            tokens: Vec::new(),
        };
        tokens.flatten(TokenStream::from_str(source)?, 0);
        Ok(tokens)
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Returns the text of a token; empty after the end.
    pub(super) fn text(&self, index: usize) -> &'a str {
        &self.source[self.range(index)]
    }

    /// Returns the text of the previous token; empty before the first.
    pub(super) fn before(&self, index: usize) -> &'a str {
        index.checked_sub(1).map_or("", |index| self.text(index))
    }

    /// Returns the byte range of a token; after the end an empty range.
    pub(super) fn range(&self, index: usize) -> Range<usize> {
        let end = self.source.len();
        let token = self.tokens.get(index);
        token.map_or(end..end, |token| token.range.clone())
    }

    pub(super) fn depth(&self, index: usize) -> usize {
        self.tokens.get(index).map_or(0, |token| token.depth)
    }

    /// Returns true if the tokens from `index` on have these texts.
    pub(super) fn starts_with(&self, index: usize, texts: &[&str]) -> bool {
        let found = texts.iter().enumerate();
        found
            .map(|(offset, text)| (self.text(index + offset), text))
            .all(|(found, text)| found == *text)
    }

    /// Returns the line of a token, counted from one.
    pub(super) fn line(&self, index: usize) -> usize {
        let before = &self.source[..self.range(index).start];
        before.matches('\n').count() + 1
    }

    fn flatten(&mut self, stream: TokenStream, depth: usize) {
        let (mut colon, mut comment) = (None, None);
        for tree in stream {
            let range = tree.span().byte_range();
            if comment == Some(range.start) {
                continue;
            }
            match tree {
                // A doc comment is an attribute whose `#` spans the whole comment.
                TokenTree::Punct(punct) if punct.as_char() == '#' && range.len() > 1 => {
                    comment = Some(range.start);
                }
                TokenTree::Group(group) => self.flatten_group(&group, depth),
                // The second token, directly after the first.
                TokenTree::Punct(punct)
                    if punct.as_char() == ':' && colon.take() == Some(range.start) =>
                {
                    let last = self.tokens.last_mut().expect("the first colon");
                    last.range.end = range.end;
                }
                TokenTree::Punct(punct) => {
                    let joint = punct.as_char() == ':' && punct.spacing() == Spacing::Joint;
                    colon = joint.then_some(range.end);
                    self.push(range, depth);
                }
                _ => self.push(range, depth),
            }
        }
    }

    fn flatten_group(&mut self, group: &Group, depth: usize) {
        if group.delimiter() == Delimiter::None {
            return self.flatten(group.stream(), depth);
        }
        self.push(group.span_open().byte_range(), depth);
        self.flatten(group.stream(), depth + 1);
        self.push(group.span_close().byte_range(), depth);
    }

    fn push(&mut self, range: Range<usize>, depth: usize) {
        self.tokens.push(Token { range, depth });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_places_are_those_of_the_source() {
        let source = "//! é std::io\n/* std */ fn a() { b::<'a', \"std::io\">(r#\"x\"#) } // c\n";
        let tokens = Tokens::new(source).unwrap();
        let texts: Vec<_> = (0..tokens.len()).map(|index| tokens.text(index)).collect();
        let code = [
            "fn",
            "a",
            "(",
            ")",
            "{",
            "b",
            "::",
            "<",
            "'a'",
            ",",
            "\"std::io\"",
            ">",
        ];
        let end = ["(", "r#\"x\"#", ")", "}"];
        assert_eq!(texts, [&code[..], &end].concat());
        assert_eq!(tokens.line(0), 2);
        assert_eq!((tokens.depth(0), tokens.depth(5)), (0, 1));
        assert_eq!((tokens.text(99), tokens.before(0)), ("", ""));
        assert!(Tokens::new("fn a( {").is_err());
    }
}

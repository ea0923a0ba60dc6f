//! Errors that the compiler reports at tokens of the program.

use std::fmt;

use proc_macro2::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// A message, and the range of tokens that it is about.
#[derive(Debug)]
pub(crate) struct Error {
    start: Span,
    end: Span,
    message: String,
}

impl Error {
    pub(crate) fn new(span: Span, message: &str) -> Error {
        Error {
            start: span,
            end: span,
            message: message.to_owned(),
        }
    }

    /// Locates an error at these tokens, of which there is at least one.
    pub(crate) fn at(tokens: &[TokenTree], message: &str) -> Error {
        let ends = tokens.first().zip(tokens.last());
        let (start, end) = ends.map_or_else(
            || (Span::call_site(), Span::call_site()),
            |(first, last)| (first.span(), last.span()),
        );
        Error {
            start,
            end,
            message: message.to_owned(),
        }
    }

    /// Returns the error that something else is expected where `found` is: at the opening delimiter
    /// of a group, or at the attribute if the tokens have ended.
    pub(crate) fn expected(what: &str, found: Option<&TokenTree>) -> Error {
        match found {
            Some(TokenTree::Group(group)) => {
                Error::new(group.span_open(), &format!("expected {what}"))
            }
            Some(token) => Error::new(token.span(), &format!("expected {what}")),
            None => {
                let message = format!("unexpected end of input, expected {what}");
                Error::new(Span::call_site(), &message)
            }
        }
    }

    /// Returns an invocation of `compile_error!`. Its first and last token tell the compiler the
    /// range.
    pub(crate) fn into_compile_error(self) -> TokenStream {
        let punct = |character, spacing| {
            let mut punct = Punct::new(character, spacing);
            punct.set_span(self.start);
            TokenTree::from(punct)
        };
        let ident = |name| TokenTree::from(Ident::new(name, self.start));
        let mut message = Literal::string(&self.message);
        message.set_span(self.end);
        let mut braces = Group::new(Delimiter::Brace, TokenTree::from(message).into());
        braces.set_span(self.end);
        TokenStream::from_iter([
            punct(':', Spacing::Joint),
            punct(':', Spacing::Alone),
            ident("core"),
            punct(':', Spacing::Joint),
            punct(':', Spacing::Alone),
            ident("compile_error"),
            punct('!', Spacing::Alone),
            braces.into(),
        ])
    }

    #[cfg(test)]
    pub(crate) fn span(&self) -> Span {
        self.start
            .join(self.end)
            .expect("both spans are of one source")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

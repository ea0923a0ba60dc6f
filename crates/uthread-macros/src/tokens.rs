//! Helpers for slices of tokens. A crate that parses all of Rust would take a tenth of the time
//! that a small program takes to build.

use proc_macro2::{Delimiter, Spacing, Span, TokenStream, TokenTree};

/// Returns the tokens without groups around all of them that have no delimiters, as the fragments
/// of macros have.
pub(crate) fn unwrapped(stream: TokenStream) -> Vec<TokenTree> {
    let mut tokens: Vec<_> = stream.into_iter().collect();
    while let [TokenTree::Group(group)] = tokens.as_slice()
        && group.delimiter() == Delimiter::None
    {
        tokens = group.stream().into_iter().collect();
    }
    tokens
}

pub(crate) fn is_punct(token: Option<&TokenTree>, character: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == character)
}

pub(crate) fn is_ident(token: Option<&TokenTree>, name: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if ident == name)
}

pub(crate) fn is_group(token: Option<&TokenTree>, delimiter: Delimiter) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.delimiter() == delimiter)
}

/// Returns the span of all of the tokens, or of the first one if the compiler cannot join them.
pub(crate) fn span(tokens: &[TokenTree]) -> Span {
    let ends = tokens.first().zip(tokens.last());
    ends.map_or_else(Span::call_site, |(first, last)| {
        first.span().join(last.span()).unwrap_or(first.span())
    })
}

/// Returns how many tokens precede the first one outside of angle brackets for which `is_end`
/// holds. An angle bracket opens where `opens` holds for it and the tokens before it.
pub(crate) fn before(
    tokens: &[TokenTree],
    opens: impl Fn(&[TokenTree]) -> bool,
    is_end: impl Fn(&TokenTree) -> bool,
) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate() {
        if depth == 0 && is_end(token) {
            return index;
        }
        let is_arrow = index > 0 && is_arrow(&tokens[index - 1..]);
        if is_punct(Some(token), '<') && (depth > 0 || opens(&tokens[..index])) {
            depth += 1;
        } else if is_punct(Some(token), '>') && !is_arrow {
            depth = depth.saturating_sub(1);
        }
    }
    tokens.len()
}

/// Returns `true` if the tokens begin with `->`.
pub(crate) fn is_arrow(tokens: &[TokenTree]) -> bool {
    let is_joint = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.spacing() == Spacing::Joint);
    tokens.first().is_some_and(is_joint)
        && is_punct(tokens.first(), '-')
        && is_punct(tokens.get(1), '>')
}

//! The parts of a function that an attribute has to know. All other tokens stay as they are.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};

use crate::error::{Error, Result};
use crate::tokens::{before, is_arrow, is_group, is_ident, is_punct, unwrapped};

/// A function as tokens.
pub(crate) struct Function {
    tokens: Vec<TokenTree>,
    /// Ends of the parts, in their order.
    attributes: usize,
    visibility: usize,
    qualifiers: usize,
    generics: usize,
    parameters: usize,
    output: usize,
    clause: usize,
}

impl Function {
    /// Finds the parts of a function.
    ///
    /// # Errors
    ///
    /// An error located at the first token that does not belong to a function.
    pub(crate) fn parse(item: TokenStream) -> Result<Function> {
        let tokens = unwrapped(item);
        let mut at = 0;
        while is_punct(tokens.get(at), '#') && is_group(tokens.get(at + 1), Delimiter::Bracket) {
            at += 2;
        }
        let attributes = at;
        if is_group(tokens.get(at), Delimiter::None) {
            at += 1; // The fragment `vis` of a macro, maybe empty.
        } else if is_ident(tokens.get(at), "pub") {
            at += 1;
            at += usize::from(is_group(tokens.get(at), Delimiter::Parenthesis));
        }
        let visibility = at;
        let qualifiers = ["const", "async", "safe", "unsafe", "extern"];
        while (qualifiers.iter()).any(|qualifier| is_ident(tokens.get(at), qualifier)) {
            at += 1;
            at += usize::from(matches!(tokens.get(at), Some(TokenTree::Literal(_))));
        }
        let qualifiers = at;
        if !is_ident(tokens.get(at), "fn") {
            return Err(Error::expected("`fn`", tokens.get(at)));
        }
        if !matches!(tokens.get(at + 1), Some(TokenTree::Ident(_))) {
            return Err(Error::expected("identifier", tokens.get(at + 1)));
        }
        at += 2;
        let is_parameters = |token: &TokenTree| is_group(Some(token), Delimiter::Parenthesis);
        at += before(&tokens[at..], |_| true, is_parameters);
        let generics = at;
        if at == tokens.len() {
            return Err(Error::expected("parentheses", None));
        }
        let parameters = at + 1;
        let is_body = |token: &TokenTree| is_group(Some(token), Delimiter::Brace);
        let is_after_output = |token: &TokenTree| is_ident(Some(token), "where") || is_body(token);
        let end = tokens.len() - 1;
        let output = parameters
            + before(
                &tokens[parameters..end.max(parameters)],
                |_| true,
                is_after_output,
            );
        // The fragment `block` of a macro is a group without delimiters.
        let body = tokens.last().map(|last| unwrapped(last.clone().into()));
        if output == tokens.len()
            || !body.is_some_and(|body| is_group(body.first(), Delimiter::Brace))
        {
            return Err(Error::expected("curly braces", tokens.get(output)));
        }
        Ok(Function {
            tokens,
            attributes,
            visibility,
            qualifiers,
            generics,
            parameters,
            output,
            clause: end,
        })
    }

    /// Returns the outer attributes.
    pub(crate) fn attributes(&self) -> &[TokenTree] {
        &self.tokens[..self.attributes]
    }

    pub(crate) fn visibility(&self) -> &[TokenTree] {
        &self.tokens[self.attributes..self.visibility]
    }

    /// Returns the words before `fn`.
    pub(crate) fn qualifiers(&self) -> &[TokenTree] {
        &self.tokens[self.visibility..self.qualifiers]
    }

    pub(crate) fn name(&self) -> &Ident {
        match &self.tokens[self.qualifiers + 1] {
            TokenTree::Ident(name) => name,
            _ => unreachable!("checked by `parse`"),
        }
    }

    /// Returns the generic parameters with their brackets.
    pub(crate) fn generics(&self) -> &[TokenTree] {
        &self.tokens[self.qualifiers + 2..self.generics]
    }

    /// Returns the parameters without their parentheses.
    pub(crate) fn parameters(&self) -> Vec<TokenTree> {
        match &self.tokens[self.generics] {
            TokenTree::Group(group) => group.stream().into_iter().collect(),
            _ => unreachable!("checked by `parse`"),
        }
    }

    /// Returns the type of the result; empty if none is written.
    pub(crate) fn output(&self) -> &[TokenTree] {
        let output = &self.tokens[self.parameters..self.output];
        if is_arrow(output) { &output[2..] } else { &[] }
    }

    /// Returns the `where` clause; empty if there is none.
    pub(crate) fn clause(&self) -> &[TokenTree] {
        &self.tokens[self.output..self.clause]
    }

    /// Returns the function without attributes and visibility.
    pub(crate) fn inner(&self) -> &[TokenTree] {
        &self.tokens[self.visibility..]
    }
}

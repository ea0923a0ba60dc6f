//! The attributes `#[uthread::main]` and `#[uthread::test]`, which run the body of a function in a
//! fiber.
//!
//! Attributes must be in a crate of their own. The crate `uthread` re-exports and documents them;
//! their expansions call its `Builder`.

mod expand;
mod kind;
mod options;

mod function;
mod tokens;

mod error;

use proc_macro::TokenStream;

use expand::{expand, placeholder};
use kind::Kind;

/// Implements `#[uthread::main]`, which the crate `uthread` re-exports and documents.
#[proc_macro_attribute]
pub fn main(options: TokenStream, item: TokenStream) -> TokenStream {
    attribute(Kind::Main, options, item)
}

/// Implements `#[uthread::test]`, which the crate `uthread` re-exports and documents.
#[proc_macro_attribute]
pub fn test(options: TokenStream, item: TokenStream) -> TokenStream {
    attribute(Kind::Test, options, item)
}

fn attribute(kind: Kind, options: TokenStream, item: TokenStream) -> TokenStream {
    let expanded = expand(kind, options.into(), item.clone().into());
    let expanded = expanded.unwrap_or_else(|error| {
        let mut tokens = error.into_compile_error();
        tokens.extend(placeholder(item.into()));
        tokens
    });
    expanded.into()
}

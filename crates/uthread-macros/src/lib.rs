//! The attributes by which a function's body runs in a fiber: `#[uthread::main]` and `#[uthread::test]`.
//!
//! Attributes have to come from a crate of their own. The crate `uthread` exports and documents them; what they
//! expand to calls its `Builder`.

mod expand;
mod options;

use proc_macro::TokenStream;

use expand::{Kind, expand, placeholder};

/// Not to be used by itself: the crate `uthread` exports it.
#[proc_macro_attribute]
pub fn main(options: TokenStream, item: TokenStream) -> TokenStream {
    attribute(Kind::Main, options, item)
}

/// Not to be used by itself: the crate `uthread` exports it.
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

//! The options of an attribute. Each corresponds to a method of `Builder`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Lit, Result, Token};

const NO_OPTION: &str = "no such option: choose workers, driver or stack_size";
const NO_DRIVER: &str = "no driver has this name: choose \"uring\", \"epoll\" or \"threads\"";

/// The code that the options expand to.
#[derive(Default)]
pub(crate) struct Options {
    /// Assertions that fail at compile time if a value is invalid.
    pub(crate) checks: TokenStream,
    /// Calls of the builder's methods.
    pub(crate) calls: TokenStream,
}

/// One option as written: `workers = 2`.
struct Assignment {
    name: Ident,
    value: Expr,
}

impl Parse for Assignment {
    fn parse(input: ParseStream<'_>) -> Result<Assignment> {
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        let value = input.parse()?;
        Ok(Assignment { name, value })
    }
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Options> {
        let assignments = Punctuated::<Assignment, Token![,]>::parse_terminated(input)?;
        let mut options = Options::default();
        let mut seen: Vec<&Ident> = Vec::new();
        for Assignment { name, value } in &assignments {
            if seen.contains(&name) {
                return Err(Error::new(name.span(), "the option is given twice"));
            }
            options.add(name, value)?;
            seen.push(name);
        }
        Ok(options)
    }
}

impl Options {
    fn add(&mut self, name: &Ident, value: &Expr) -> Result<()> {
        match name.to_string().as_str() {
            "workers" => self.add_number(name, value, "assert_workers"),
            "stack_size" => self.add_number(name, value, "assert_stack_size"),
            "driver" => {
                let driver = driver(value)?;
                self.calls
                    .extend(quote!(.driver(::uthread::Driver::#driver)));
            }
            _ => return Err(Error::new(name.span(), NO_OPTION)),
        }
        Ok(())
    }

    /// Adds an option whose value is a constant number. The builder's function `check` validates it at
    /// compile time.
    fn add_number(&mut self, name: &Ident, value: &Expr, check: &str) {
        let check = Ident::new(check, value.span());
        self.checks.extend(quote_spanned! {value.span()=>
            const _: () = ::uthread::Builder::#check(#value);
        });
        self.calls.extend(quote!(.#name(#value)));
    }
}

/// Returns the variant of `Driver` that the value names.
fn driver(value: &Expr) -> Result<Ident> {
    let name = match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(name),
            ..
        }) => name.value(),
        _ => String::new(),
    };
    let variant = match name.as_str() {
        "uring" => "Uring",
        "epoll" => "Epoll",
        "threads" => "Threads",
        _ => return Err(Error::new_spanned(value, NO_DRIVER)),
    };
    Ok(Ident::new(variant, Span::call_site()))
}

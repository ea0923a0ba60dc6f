//! The options of an attribute. Each corresponds to a method of `Builder`.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};

use crate::error::{Error, Result};
use crate::kind::Kind;
use crate::tokens::{self, before, is_punct, unwrapped};

/// The names of options, those of tests last.
const NAMES: [&str; 6] = [
    "workers",
    "driver",
    "stack_size",
    "virtual_time",
    "seeds",
    "limit",
];

const NO_OPTION: &str = "no such option: choose workers, driver or stack_size";
const NO_TEST_OPTION: &str =
    "no such option: choose workers, driver, stack_size, virtual_time, seeds or limit";

/// The variants of the library's `Driver` with their names. A copy: the library depends on this
/// crate.
const DRIVERS: [(&str, &str); 3] = [
    ("Uring", "uring"),
    ("Epoll", "epoll"),
    ("Threads", "threads"),
];

/// The code that the options expand to.
#[derive(Default)]
pub(crate) struct Options {
    /// Assertions that fail at compile time if a value is invalid.
    pub(crate) checks: TokenStream,
    /// Calls of the builder's methods.
    pub(crate) calls: TokenStream,
    /// `true` if the time of a test is virtual.
    pub(crate) has_virtual_time: bool,
    /// With how many seeds a test is repeated.
    pub(crate) seeds: Option<TokenStream>,
}

impl Options {
    /// Parses options: `workers = 2, driver = "uring", virtual_time`.
    ///
    /// # Errors
    ///
    /// An error located at the option that is invalid.
    pub(crate) fn parse(kind: Kind, options: TokenStream) -> Result<Options> {
        let written = unwrapped(options);
        let mut rest = written.as_slice();
        let mut options = Options::default();
        let mut seen: Vec<&Ident> = Vec::new();
        while let Some(first) = rest.first() {
            let TokenTree::Ident(name) = first else {
                return Err(Error::expected("identifier", Some(first)));
            };
            if seen.contains(&name) {
                return Err(Error::new(name.span(), "the option is given twice"));
            }
            check(kind, name)?;
            let others = if kind == Kind::Test && name == "virtual_time" {
                options.has_virtual_time = true;
                &rest[1..]
            } else {
                let (value, others) = value(&rest[1..])?;
                options.add(name, value)?;
                others
            };
            if let Some(other) = others.first().filter(|other| !is_punct(Some(other), ',')) {
                return Err(Error::expected("`,`", Some(other)));
            }
            seen.push(name);
            rest = others.get(1..).unwrap_or_default();
        }
        match seen.into_iter().find(|name| *name == "seeds") {
            Some(seeds) if !options.has_virtual_time => {
                let what = "seeds decide in virtual time only: add `virtual_time`";
                Err(Error::new(seeds.span(), what))
            }
            _ => Ok(options),
        }
    }

    fn add(&mut self, name: &Ident, value: &[TokenTree]) -> Result<()> {
        match name.to_string().as_str() {
            "workers" => self.add_number(name, value, "assert_workers"),
            "stack_size" => self.add_number(name, value, "assert_stack_size"),
            "driver" => {
                let driver = driver(value)?;
                self.calls
                    .extend(quote!(.driver(::uthread::Driver::#driver)));
            }
            "seeds" => self.seeds = Some(value.iter().cloned().collect()),
            _ => self.calls.extend(quote!(.#name(#(#value)*))),
        }
        Ok(())
    }

    /// Adds an option whose value is a constant number. The builder's function `check` validates it
    /// at compile time.
    fn add_number(&mut self, name: &Ident, value: &[TokenTree], check: &str) {
        let span = tokens::span(value);
        let check = Ident::new(check, span);
        self.checks.extend(quote_spanned! {span=>
            const _: () = ::uthread::runtime::Builder::#check(#(#value)*);
        });
        self.calls.extend(quote!(.#name(#(#value)*)));
    }
}

/// Checks that the attribute has an option of this name.
fn check(kind: Kind, name: &Ident) -> Result<()> {
    let (names, message) = match kind {
        Kind::Main => (&NAMES[..3], NO_OPTION),
        Kind::Test => (&NAMES[..], NO_TEST_OPTION),
    };
    if names.iter().any(|known| name == known) {
        return Ok(());
    }
    Err(Error::new(name.span(), message))
}

/// Returns the value of an option that begins with `=`, and what follows it.
fn value(rest: &[TokenTree]) -> Result<(&[TokenTree], &[TokenTree])> {
    if !is_punct(rest.first(), '=') {
        return Err(Error::expected("`=`", rest.first()));
    }
    let is_comma = |token: &TokenTree| is_punct(Some(token), ',');
    let length = before(&rest[1..], opens, is_comma);
    let (value, others) = rest[1..].split_at(length);
    if value.is_empty() {
        return Err(Error::expected("an expression", others.first()));
    }
    Ok((value, others))
}

/// Returns `true` if an angle bracket after these tokens of an expression is not an operator: at
/// its begin, or after `::`.
fn opens(before: &[TokenTree]) -> bool {
    before.last().is_none_or(|last| is_punct(Some(last), ':'))
}

/// Returns the variant of `Driver` that the value names.
fn driver(value: &[TokenTree]) -> Result<Ident> {
    let name = unwrapped(value.iter().cloned().collect());
    let name = match name.as_slice() {
        [TokenTree::Literal(name)] => name.to_string(),
        _ => String::new(),
    };
    let quoted = DRIVERS.map(|(_, name)| format!("{name:?}"));
    if let Some(index) = quoted.iter().position(|quoted| *quoted == name) {
        return Ok(Ident::new(DRIVERS[index].0, Span::call_site()));
    }
    let [others @ .., last] = &quoted;
    let others = others.join(", ");
    let message = format!("no driver has this name: choose {others} or {last}");
    Err(Error::at(value, &message))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::DRIVERS;

    #[test]
    fn the_drivers_are_those_of_the_library() {
        let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../uthread/src/runtime/driver.rs");
        let list = fs::read_to_string(list).expect("the library is beside this crate");
        let names = list.lines().filter_map(|line| {
            let (variant, name) = line.trim().strip_prefix("Driver::")?.split_once(" => \"")?;
            Some((variant, name.strip_suffix("\",")?))
        });
        assert_eq!(names.collect::<Vec<_>>(), DRIVERS);
    }
}

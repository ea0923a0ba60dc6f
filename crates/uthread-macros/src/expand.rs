//! The expansion of the attributes: a function that starts a runtime and passes the annotated
//! function to it.
//!
//! ```text
//!   #[uthread::main(workers = 2)]            fn main() -> ExitCode {
//!   fn main() -> io::Result<()> {                fn main() -> io::Result<()> { body }
//!       body                                     Builder::default().workers(2).run_main(main)
//!   }                                        }
//! ```
//!
//! The inner function has the same name as the outer one, so it shadows no other name that the body
//! uses.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::quote;

use crate::error::{Error, Result};
use crate::function::Function;
use crate::kind::Kind;
use crate::options::Options;
use crate::tokens::{self, is_ident, unwrapped};

/// Returns the replacement of `item`.
///
/// # Errors
///
/// An error located at the option or the part of the item that is invalid.
pub(crate) fn expand(kind: Kind, options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let function = Function::parse(item)?;
    check(&function)?;
    let Options {
        checks,
        calls,
        has_virtual_time,
        seeds,
    } = Options::parse(kind, options)?;
    let outside = function.attributes();
    if let Some(second) = outside.chunks(2).find(|attribute| is_test(attribute)) {
        let what = "remove this attribute: `#[uthread::test]` makes the function a test";
        return Err(Error::at(second, what));
    }
    let name = function.name();
    // The compiler's errors about the result then point to its type.
    let (has_result, place) = match function.output() {
        [] => (false, name.span()),
        result => (true, tokens::span(result)),
    };
    let exit_code = quote!(-> ::std::process::ExitCode);
    let (test, method, output, end) = match kind {
        Kind::Main => (None, "run_main", Some(exit_code), None),
        Kind::Test => {
            let test = quote!(#[::core::prelude::v1::test]);
            // A test with `should_panic` must not return a value.
            let end = (!has_result).then(|| quote!(;));
            (Some(test), "run_test", has_result.then_some(exit_code), end)
        }
    };
    let method = Ident::new(method, place);
    let visibility = function.visibility();
    let inner = function.inner();
    let mut builder = quote!(::uthread::Runtime::builder());
    if has_virtual_time {
        builder = quote!(::uthread_simulation::virtual_time(#builder));
    }
    let builder = quote!(#builder #calls);
    let run = match seeds {
        None => quote!(#builder .#method(#name)),
        Some(count) => {
            let run = quote!(|builder| builder.#method(#name));
            quote!(::uthread_simulation::repeat(#builder, #count, #run))
        }
    };
    Ok(quote! {
        #test
        #(#outside)*
        #(#visibility)* fn #name() #output {
            #checks
            #(#inner)*
            #run #end
        }
    })
}

/// Returns an empty function with the item's name, so that only the error of a faulty item is
/// reported.
pub(crate) fn placeholder(item: TokenStream) -> Option<TokenStream> {
    let function = Function::parse(item).ok()?;
    let (visibility, name) = (function.visibility(), function.name());
    Some(quote!(#(#visibility)* fn #name() {}))
}

/// Returns `true` if an attribute is `#[test]`.
fn is_test(attribute: &[TokenTree]) -> bool {
    let Some(TokenTree::Group(group)) = attribute.last() else {
        return false;
    };
    let path = unwrapped(group.stream());
    path.len() == 1 && is_ident(path.first(), "test")
}

/// Checks that the function can be called without arguments, `unsafe` or `.await`.
fn check(function: &Function) -> Result<()> {
    let refuse = |what: &[TokenTree], why: &str| Err(Error::at(what, why));
    let qualifiers = function.qualifiers();
    if let Some(TokenTree::Ident(first)) = qualifiers.first() {
        // The tokens after `extern` belong to it.
        return match first.to_string().as_str() {
            "async" => refuse(
                &qualifiers[..1],
                "a fiber needs no `async`: write `fn`, and call waiting functions without `.await`",
            ),
            "const" => refuse(
                &qualifiers[..1],
                "a function that starts a runtime cannot be `const`",
            ),
            "extern" => refuse(
                qualifiers,
                "the runtime can only call a function with the Rust ABI",
            ),
            _ => refuse(
                &qualifiers[..1],
                "the runtime can only call a function without `safe` or `unsafe`",
            ),
        };
    }
    // Two tokens are the brackets.
    if function.generics().len() > 2 {
        return refuse(
            function.generics(),
            "the function must not have generic parameters",
        );
    }
    if !function.clause().is_empty() {
        return refuse(
            function.clause(),
            "the function must not have a `where` clause",
        );
    }
    if !function.parameters().is_empty() {
        return refuse(
            &function.parameters(),
            "the function must not have parameters: read arguments from `std::env::args`",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proc_macro2::{Delimiter, Group};

    use super::*;

    /// Expects an error located at the text `place`, with this message.
    fn check(options: &str, item: &str, place: &str, message: &str) {
        for kind in [Kind::Main, Kind::Test] {
            check_of(kind, options, item, place, message);
        }
    }

    fn check_of(kind: Kind, options: &str, item: &str, place: &str, message: &str) {
        let options = options.parse().unwrap();
        let error = expand(kind, options, item.parse().unwrap()).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(error.span().source_text().as_deref(), Some(place));
    }

    /// Expects this expansion, apart from spaces.
    fn check_expansion(kind: Kind, options: &str, item: &str, expected: &str) {
        let options = options.parse().unwrap();
        let expanded = expand(kind, options, item.parse().unwrap()).unwrap();
        let expected: TokenStream = expected.parse().unwrap();
        let text = |tokens: TokenStream| tokens.to_string().replace(' ', "");
        assert_eq!(text(expanded), text(expected));
    }

    #[test]
    fn the_fault_of_a_function_is_pointed_out() {
        let cases = [
            (
                "async fn main() {}",
                "async",
                "a fiber needs no `async`: write `fn`, and call waiting functions without `.await`",
            ),
            (
                "const fn main() {}",
                "const",
                "a function that starts a runtime cannot be `const`",
            ),
            (
                "unsafe fn main() {}",
                "unsafe",
                "the runtime can only call a function without `safe` or `unsafe`",
            ),
            (
                "extern \"C\" fn main() {}",
                "extern \"C\"",
                "the runtime can only call a function with the Rust ABI",
            ),
            (
                "fn main<T: Send>() {}",
                "<T: Send>",
                "the function must not have generic parameters",
            ),
            (
                "fn main() where u8: Copy {}",
                "where u8: Copy",
                "the function must not have a `where` clause",
            ),
            (
                "fn main(count: usize, name: &str) {}",
                "count: usize, name: &str",
                "the function must not have parameters: read arguments from `std::env::args`",
            ),
            (
                "#[test] fn main() {}",
                "#[test]",
                "remove this attribute: `#[uthread::test]` makes the function a test",
            ),
        ];
        for (item, place, message) in cases {
            check("", item, place, message);
        }
    }

    #[test]
    fn the_fault_of_an_option_is_pointed_out() {
        let no_driver = "no driver has this name: choose \"uring\", \"epoll\" or \"threads\"";
        let cases = [
            ("driver = \"kqueue\"", "\"kqueue\"", no_driver),
            ("driver = Driver::Epoll", "Driver::Epoll", no_driver),
            (
                "workers = 2, workers = 3",
                "workers",
                "the option is given twice",
            ),
            ("workers(2)", "(", "expected `=`"),
            ("2", "2", "expected identifier"),
        ];
        for (options, place, message) in cases {
            check(options, "fn main() {}", place, message);
        }
    }

    #[test]
    fn an_option_that_the_attribute_does_not_have_is_pointed_out() {
        let of_both = "no such option: choose workers, driver or stack_size";
        let of_test =
            "no such option: choose workers, driver, stack_size, virtual_time, seeds or limit";
        for (options, place) in [
            ("wrokers = 2", "wrokers"),
            ("workers = 2, name = 1", "name"),
        ] {
            check_of(Kind::Main, options, "fn main() {}", place, of_both);
            check_of(Kind::Test, options, "fn main() {}", place, of_test);
        }
        for options in ["limit = a", "virtual_time"] {
            let place = options.split(' ').next().unwrap();
            check_of(Kind::Main, options, "fn main() {}", place, of_both);
        }
        let real = "seeds decide in virtual time only: add `virtual_time`";
        check_of(Kind::Test, "seeds = 2", "fn main() {}", "seeds", real);
        let valued = "virtual_time = true";
        check_of(Kind::Test, valued, "fn main() {}", "=", "expected `,`");
    }

    #[test]
    fn a_test_may_have_virtual_time_and_a_limit() {
        check_expansion(
            Kind::Test,
            "virtual_time, seeds = 9, limit = Duration::from_secs(1)",
            "fn a() {}",
            "#[::core::prelude::v1::test] fn a() {
                fn a() {}
                ::uthread_simulation::repeat(
                    ::uthread_simulation::virtual_time(::uthread::Runtime::builder())
                        .limit(Duration::from_secs(1)),
                    9,
                    |builder| builder.run_test(a)
                );
            }",
        );
    }

    #[test]
    fn items_other_than_functions_are_refused() {
        let error = expand(
            Kind::Main,
            TokenStream::new(),
            quote!(
                struct Main;
            ),
        )
        .unwrap_err();
        assert_eq!(error.to_string(), "expected `fn`");
        assert!(
            placeholder(quote!(
                struct Main;
            ))
            .is_none()
        );
    }

    #[test]
    fn a_faulty_function_leaves_its_name() {
        let left = placeholder(quote!(
            pub async fn main(a: u8) -> u8 {
                a
            }
        ))
        .unwrap();
        assert_eq!(
            left.to_string(),
            quote!(
                pub fn main() {}
            )
            .to_string()
        );
    }

    #[test]
    fn a_main_function_becomes_one_that_starts_a_runtime() {
        check_expansion(
            Kind::Main,
            "",
            "/// Documented.\n #[inline] pub(crate) fn start() -> Outcome { #![allow(unused)] begin()?; Ok(()) }",
            "/// Documented.\n #[inline] pub(crate) fn start() -> ::std::process::ExitCode {
                fn start() -> Outcome { #![allow(unused)] begin()?; Ok(()) }
                ::uthread::Runtime::builder().run_main(start)
            }",
        );
    }

    #[test]
    fn options_are_checked_and_handed_on() {
        check_expansion(
            Kind::Main,
            "workers = 2, driver = \"uring\", stack_size = 1 << 20,",
            "fn main() {}",
            "fn main() -> ::std::process::ExitCode {
                const _: () = ::uthread::runtime::Builder::assert_workers(2);
                const _: () = ::uthread::runtime::Builder::assert_stack_size(1 << 20);
                fn main() {}
                ::uthread::Runtime::builder()
                    .workers(2).driver(::uthread::Driver::Uring).stack_size(1 << 20).run_main(main)
            }",
        );
    }

    #[test]
    fn brackets_and_fragments_of_macros_are_no_faults() {
        check_expansion(
            Kind::Main,
            "workers = most::<u8, u8>(1, 2), stack_size = 1 << 20",
            "fn main<>() -> Outcome<{ 1 }, fn() -> u8> {}",
            "fn main() -> ::std::process::ExitCode {
                const _: () = ::uthread::runtime::Builder::assert_workers(most::<u8, u8>(1, 2));
                const _: () = ::uthread::runtime::Builder::assert_stack_size(1 << 20);
                fn main<>() -> Outcome<{ 1 }, fn() -> u8> {}
                ::uthread::Runtime::builder()
                    .workers(most::<u8, u8>(1, 2)).stack_size(1 << 20).run_main(main)
            }",
        );
        let fragment = |text: &str| {
            let group = Group::new(Delimiter::None, text.parse().unwrap());
            TokenStream::from(TokenTree::from(group))
        };
        let (visibility, body) = (fragment("pub"), fragment("{ begin() }"));
        let expanded = expand(
            Kind::Main,
            TokenStream::new(),
            quote!(#visibility fn main() #body),
        );
        let text = expanded.unwrap().to_string().replace(' ', "");
        let expected = "pubfnmain()->::std::process::ExitCode{fnmain(){begin()}::uthread";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn a_test_returns_nothing_if_its_body_does() {
        check_expansion(
            Kind::Test,
            "",
            "#[should_panic] fn fails() { panic!() }",
            "#[::core::prelude::v1::test] #[should_panic] fn fails() {
                fn fails() { panic!() }
                ::uthread::Runtime::builder().run_test(fails);
            }",
        );
        check_expansion(
            Kind::Test,
            "driver = \"threads\"",
            "fn fails() -> Result<(), ()> { Err(()) }",
            "#[::core::prelude::v1::test] fn fails() -> ::std::process::ExitCode {
                fn fails() -> Result<(), ()> { Err(()) }
                ::uthread::Runtime::builder().driver(::uthread::Driver::Threads).run_test(fails)
            }",
        );
    }
}

//! Checks that every public item of the library has an example that runs, or refers to an item
//! whose example shows it.
//!
//! A reference is a paragraph with the word "example" and a link, as in
//! `see the example of [scope]`. It counts if the example of that item names this one. For a type
//! or trait, it is enough that the signature of that item names it, or that the item is its method.

use std::collections::BTreeSet;

use pulldown_cmark::{BrokenLink, CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::Finding;
use super::items::{Item, public_items, words};
use super::tree::Tree;

const REMEDY: &str =
    "write one, or say whose example shows it, as in \"see the example of [`scope`]\"";

/// Words for a code block that runs as an example; other words keep it from running.
const RUNS: [&str; 2] = ["rust", "should_panic"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let items = public_items(tree);
    let shown: Vec<Shown> = items.iter().map(|item| Shown::new(&item.docs)).collect();
    let lacks_example = |(item, own): &(&Item<'_>, &Shown)| {
        let mut others = items.iter().zip(&shown).filter(|(other, by)| {
            by.examples.contains(item.name)
                || item.kind != "fn" && by.has_examples() && other.speaks_of(item.name)
        });
        let is_named = |other: &Item<'_>| own.links.iter().any(|link| link.leads(item, other));
        !own.has_examples() && !others.any(|(other, _)| is_named(other))
    };
    let lacking = items.iter().zip(&shown).filter(lacks_example);
    lacking
        .map(|(item, _)| {
            let what = format!("the {} `{}` has no example that runs", item.kind, item.name);
            Finding::new(item.path, item.line, what, REMEDY)
        })
        .collect()
}

/// Examples and references in the documentation of an item.
#[derive(Default)]
struct Shown {
    /// Words of the examples that run.
    examples: BTreeSet<String>,
    /// Links in the paragraphs that mention an example.
    links: Vec<Link>,
}

impl Shown {
    fn new(docs: &str) -> Self {
        let mut shown = Self::default();
        let mut runs = false;
        let mut speaks_of_example = false;
        let mut links = Vec::new();
        // A link to a local item has no address: its name is the target.
        let name = |link: BrokenLink<'_>| Some((link.reference.into_string().into(), "".into()));
        for event in Parser::new_with_broken_link_callback(docs, Options::empty(), Some(name)) {
            match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(kind))) => {
                    runs = words(&kind).all(|word| RUNS.contains(&word));
                }
                Event::End(TagEnd::CodeBlock) => runs = false,
                Event::Text(text) if runs => {
                    shown.examples.extend(words(&text).map(str::to_owned));
                }
                Event::Text(text) => speaks_of_example |= text.contains("example"),
                Event::Start(Tag::Link { dest_url, .. }) => links.push(Link::new(&dest_url)),
                Event::End(TagEnd::Paragraph) => {
                    let links = links.drain(..).filter(|_| speaks_of_example);
                    shown.links.extend(links);
                    speaks_of_example = false;
                }
                _ => {}
            }
        }
        shown
    }

    fn has_examples(&self) -> bool {
        !self.examples.is_empty()
    }
}

/// A link to an item, by the end of its path.
struct Link {
    owner: Option<String>,
    name: String,
}

impl Link {
    fn new(path: &str) -> Self {
        let path = path.split('#').next().unwrap_or_default();
        let mut parts = path
            .rsplit("::")
            .map(|part| words(part).last().unwrap_or_default());
        let name = parts.next().unwrap_or_default().to_owned();
        let is_type = |part: &&str| part.starts_with(char::is_uppercase);
        let owner = parts.next().filter(is_type).map(str::to_owned);
        Self { owner, name }
    }

    /// Returns true if the link leads from one item to the other.
    fn leads(&self, from: &Item<'_>, to: &Item<'_>) -> bool {
        let is_owner = match (self.owner.as_deref(), to.owner) {
            (Some("Self"), to) => to == from.owner,
            (owner, to) => owner == to,
        };
        is_owner && self.name == to.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    const ROOT: &str = "crates/uthread/src/lib.rs";

    /// Plants `code` after a function with an example, and expects one finding per entry: the line
    /// after that function, and the item without an example.
    fn plant_code(code: &str, expected: &[(usize, &str)]) {
        let good = "//! A.\n\n/// ```\n/// uthread::run(|| uthread::Pool::new().size());\n/// ```\npub fn run(options: &Options) {}\n\n";
        let lines = good.lines().count();
        let expected: Vec<String> = expected
            .iter()
            .map(|(line, what)| format!("{ROOT}:{}: the {what} has no", lines + line))
            .collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        plant(
            check,
            &[(ROOT, good)],
            (ROOT, &format!("{good}{code}")),
            &expected,
        );
    }

    #[test]
    fn each_kind_of_item_needs_an_example() {
        let cases = [
            ("pub fn a() {}", "fn `a`"),
            ("pub const fn a() {}", "fn `a`"),
            ("pub unsafe fn a() {}", "fn `a`"),
            ("pub struct A(u8);", "struct `A`"),
            ("pub struct A<T> {\n    pub b: T,\n}", "struct `A`"),
            ("pub enum A {}", "enum `A`"),
            ("pub trait A: B {}", "trait `A`"),
            ("#[macro_export]\nmacro_rules! a {\n}", "macro `a`"),
        ];
        for (code, what) in cases {
            let line = code
                .lines()
                .take_while(|line| line.starts_with('#'))
                .count()
                + 1;
            plant_code(&format!("/// It is.\n{code}\n"), &[(line + 1, what)]);
            plant_code(
                &format!("/// It is.\n///\n/// ```\n/// a();\n/// ```\n{code}\n"),
                &[],
            );
        }
    }

    #[test]
    fn examples_that_do_not_run_do_not_count() {
        for kind in ["text", "no_run", "ignore", "compile_fail,E0277", "sh"] {
            plant_code(
                &format!("/// ```{kind}\n/// a();\n/// ```\npub fn a() {{}}\n"),
                &[(4, "fn `a`")],
            );
        }
        for kind in ["should_panic", "rust"] {
            plant_code(
                &format!("/// ```{kind}\n/// a();\n/// ```\npub fn a() {{}}\n"),
                &[],
            );
        }
    }

    #[test]
    fn an_example_of_another_item_has_to_be_named() {
        let cases = [
            ("see the example of [`run`]", "fn size", true),
            (
                "as in the example of [`run()`](crate::run())",
                "fn size",
                true,
            ),
            ("there is an [example](run#more) above", "fn size", true),
            ("see the\n/// example of [`run`]", "fn size", true),
            // Only types may refer to items that they name in their signature, or belong to.
            ("see the example of [`run`]", "struct Options", true),
            ("see the example of [`run`]", "fn Options", false),
            ("see the example of [`run`]", "fn other", false),
            ("see the example of [`run`]", "struct Other", false),
            ("see the example of [`none`]", "fn size", false),
            ("see the example of [`Pool::run`]", "fn size", false),
            ("see [`run`]", "fn size", false),
            ("see the example of `run`", "fn size", false),
            (
                "see an example.\n///\n/// It is like [`run`]",
                "fn size",
                false,
            ),
        ];
        for (docs, item, is_shown) in cases {
            let (kind, name) = item.split_once(' ').expect("a kind and a name");
            let what = format!("{kind} `{name}`");
            let body = if kind == "fn" { "() {}" } else { ";" };
            let line = docs.lines().count() + 1;
            let expected = [(line, what.as_str())];
            let expected = if is_shown { &[][..] } else { &expected };
            plant_code(&format!("/// It is, {docs}.\npub {item}{body}\n"), expected);
        }
    }

    #[test]
    fn a_method_is_known_by_its_type() {
        let code = |path: &str| {
            format!(
                "/// ```\n/// a.set(a.get());\n/// ```\npub struct A;\n\nimpl A {{\n    \
                 /// ```\n    /// a.set(a.get());\n    /// ```\n    pub fn set(&self) {{}}\n\n    \
                 /// See the example of [`set`]({path}).\n    pub fn get(&self) {{}}\n}}\n"
            )
        };
        for path in ["A::set", "Self::set", "super::A::set"] {
            plant_code(&code(path), &[]);
        }
        for path in ["set", "B::set", "a::set"] {
            plant_code(&code(path), &[(13, "fn `get`")]);
        }
        let of_type = code("A::set").replace(
            "/// ```\n/// a.set(a.get());\n/// ```\npub",
            "/// See the example of [`A::set`].\npub",
        );
        plant_code(&of_type, &[]);
    }
}

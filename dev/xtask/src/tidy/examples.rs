//! Checks that every public item of the library has an example that runs, or refers to an item
//! whose example shows it.
//!
//! A reference is a paragraph with the word "example" and a link, as in
//! `see the example of [scope]`. It counts if the example of that item names this one. For a type
//! or trait, it is enough that the signature or the path of that item names it.
//!
//! An item is public if it is `pub`, as `unreachable_pub` denies others, and users can name it. The
//! check reads lines, as formatted by `cargo fmt`, so it also sees items that macros write.

use std::collections::BTreeSet;

use pulldown_cmark::{BrokenLink, CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::Finding;
use super::tree::{Tree, words};

const LIBRARY: &str = "crates/uthread/src/";

const REMEDY: &str =
    "write one, or say whose example shows it, as in \"see the example of [`scope`]\"";

/// Words for a code block that runs as an example; other words keep it from running.
const RUNS: [&str; 2] = ["rust", "should_panic"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let library = || tree.code().filter(|(path, _)| path.starts_with(LIBRARY));
    let names = library().flat_map(|(_, code)| {
        let statements = code.split("\npub ").skip(1);
        let statements =
            statements.filter(|text| text.starts_with("use ") || text.starts_with("mod "));
        statements.map(|text| words(text.split(';').next().unwrap_or_default()).collect())
    });
    let names: Vec<BTreeSet<&str>> = names.collect();
    let items = library().flat_map(|(path, code)| items(path, code, tree.text(path), &names));
    let items: Vec<Item<'_>> = items.collect();
    let shows = |other: &Item<'_>, path: &[String], item: &Item<'_>| {
        let is_meant = path.last().is_some_and(|last| last == other.name);
        let names = || path.iter().any(|part| part == item.name);
        let speaks_of = || item.kind != "fn" && (names() || other.signature.contains(item.name));
        let has_examples = !other.examples.is_empty();
        is_meant && has_examples && (other.examples.contains(item.name) || speaks_of())
    };
    let lacking = items.iter().filter(|item| {
        let mut links = item.links.iter();
        let is_shown = |path: &Vec<String>| items.iter().any(|other| shows(other, path, item));
        item.examples.is_empty() && !links.any(is_shown)
    });
    let finding = |item: &Item<'_>| {
        let what = format!("the {} `{}` has no example that runs", item.kind, item.name);
        Finding::new(item.path, item.line, what, REMEDY)
    };
    lacking.map(finding).collect()
}

/// A public item with its documentation.
struct Item<'a> {
    path: &'a str,
    line: usize,
    /// `fn`, `struct`, `enum`, `union`, `trait` or `macro_rules`.
    kind: &'a str,
    name: &'a str,
    /// The words before the body.
    signature: BTreeSet<&'a str>,
    /// Words of the examples that run.
    examples: BTreeSet<String>,
    /// The paths of the links in paragraphs that mention an example.
    links: Vec<Vec<String>>,
}

/// Returns the public items of a file, without hidden ones. `names` has the words of every
/// statement that makes names public.
fn items<'a>(
    path: &'a str,
    code: &'a str,
    text: &'a str,
    names: &[BTreeSet<&str>],
) -> Vec<Item<'a>> {
    let module = path.trim_end_matches(".rs").trim_end_matches("/mod");
    let module = module.rsplit('/').next().unwrap_or_default();
    let can_name = |name: &str| {
        let names_it = |words: &BTreeSet<&str>| {
            words.contains(module) && (words.contains("mod") || words.contains(name))
        };
        module == "lib" || names.iter().any(names_it)
    };
    let above: Vec<&str> = text.lines().collect();
    let mut items = Vec::new();
    // The indentation of a public trait, whose functions are public, and of a module in the file,
    // whose items are reached by other ways, if at all.
    let (mut in_trait, mut in_module) = (None, None);
    for (index, line) in code.lines().enumerate() {
        let declared = line.trim_start();
        let depth = line.len() - declared.len();
        if declared.starts_with('}') {
            in_trait.take_if(|outer| *outer == depth);
            in_module.take_if(|outer| *outer == depth);
        }
        if declared.starts_with("mod ") && line.ends_with('{') {
            in_module.get_or_insert(depth);
        }
        let declaration = declaration(declared).filter(|_| in_module.is_none());
        let Some((kind, name)) = declaration else {
            continue;
        };
        let is_visible = declared.starts_with("pub ") && (depth > 0 || can_name(name))
            || in_trait.is_some_and(|outer| depth == outer + 4);
        let (docs, attributes) = documentation(&above[..index]);
        let is_exported = kind == "macro_rules" && attributes.contains(&"#[macro_export]");
        if !(is_visible || is_exported) || attributes.contains(&"#[doc(hidden)]") {
            continue;
        }
        if kind == "trait" && !line.ends_with('}') {
            in_trait = Some(depth);
        }
        let (examples, links) = shown(&docs);
        items.push(Item {
            path,
            line: index + 1,
            kind,
            name,
            signature: signature(code.lines().skip(index)),
            examples,
            links,
        });
    }
    items
}

/// Returns the kind and the name of a declaration, if it is checked.
fn declaration(line: &str) -> Option<(&str, &str)> {
    const BEFORE: [&str; 6] = ["pub", "const", "unsafe", "async", "extern", "C"];
    const KINDS: [&str; 6] = ["fn", "struct", "enum", "union", "trait", "macro_rules"];
    let mut words = words(line).skip_while(|word| BEFORE.contains(word));
    let kind = words.next().filter(|kind| KINDS.contains(kind))?;
    Some((kind, words.next()?))
}

/// Returns the documentation and the attributes of the item below these lines.
fn documentation<'a>(above: &[&'a str]) -> (String, Vec<&'a str>) {
    let ends_other = |line: &&str| {
        let line = line.trim_start();
        let is_above = line.starts_with("//") || line.starts_with("#[");
        line.is_empty() || !is_above && line.ends_with(['{', '}', ';'])
    };
    let start = above
        .iter()
        .rposition(ends_other)
        .map_or(0, |last| last + 1);
    let lines = above[start..].iter().map(|line| line.trim());
    let docs = lines.clone().filter_map(|line| {
        let docs = line.strip_prefix("///")?;
        Some(docs.strip_prefix(' ').unwrap_or(docs))
    });
    let docs = docs.fold(String::new(), |docs, line| docs + line + "\n");
    (docs, lines.filter(|line| line.starts_with("#[")).collect())
}

/// Returns the words of the lines up to the first that ends with a body or without one.
fn signature<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let mut words_before = BTreeSet::new();
    for line in lines {
        words_before.extend(words(line));
        if line.ends_with(['{', '}', ';']) {
            break;
        }
    }
    words_before
}

/// Returns the words of the examples that run, and the paths of the links in paragraphs that
/// mention an example.
fn shown(docs: &str) -> (BTreeSet<String>, Vec<Vec<String>>) {
    let (mut examples, mut links) = (BTreeSet::new(), Vec::new());
    let (mut runs, mut speaks_of_example) = (false, false);
    let mut links_of_paragraph = Vec::new();
    // A link to a local item has no address: its name is the target.
    let name = |link: BrokenLink<'_>| Some((link.reference.into_string().into(), "".into()));
    for event in Parser::new_with_broken_link_callback(docs, Options::empty(), Some(name)) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(kind))) => {
                runs = words(&kind).all(|word| RUNS.contains(&word));
            }
            Event::End(TagEnd::CodeBlock) => runs = false,
            Event::Text(text) if runs => examples.extend(words(&text).map(str::to_owned)),
            Event::Text(text) => speaks_of_example |= text.contains("example"),
            Event::Start(Tag::Link { dest_url, .. }) => {
                let path = dest_url.split('#').next().unwrap_or_default();
                links_of_paragraph.push(words(path).map(str::to_owned).collect());
            }
            Event::End(TagEnd::Paragraph) => {
                let links_of_paragraph = links_of_paragraph.drain(..);
                links.extend(links_of_paragraph.filter(|_| speaks_of_example));
                speaks_of_example = false;
            }
            _ => {}
        }
    }
    (examples, links)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "crates/uthread/src/lib.rs";

    const GOOD: &str = "//! A.

/// ```
/// uthread::run(|| uthread::size());
/// ```
pub fn run(options: &Options) {}
";

    /// Plants `code` after a function with an example; expects a finding about `fault` if it is not
    /// empty.
    #[track_caller]
    fn plant_code(code: &str, fault: &str) {
        let tree = Tree::new([(ROOT.into(), format!("{GOOD}\n{code}\n"))].into());
        let found: Vec<String> = check(&tree).into_iter().map(|found| found.what).collect();
        let expected = match fault {
            "" => Vec::new(),
            fault => vec![format!("the {fault} has no example that runs")],
        };
        assert_eq!(found, expected, "{code}");
    }

    #[test]
    fn each_kind_of_item_needs_an_example_that_runs() {
        for (item, fault) in [
            ("pub const unsafe fn a() {}", "fn `a`"),
            (
                "#[must_use]\npub struct A<T> {\n    pub b: T,\n}",
                "struct `A`",
            ),
            ("pub enum A {}", "enum `A`"),
            ("pub trait A: B {}", "trait `A`"),
            ("#[macro_export]\nmacro_rules! a {\n}", "macro_rules `a`"),
        ] {
            plant_code(&format!("/// It is.\n{item}"), fault);
            plant_code(&format!("/// ```no_run\n/// a();\n/// ```\n{item}"), fault);
            plant_code(
                &format!("/// It is.\n///\n/// ```\n/// a();\n/// ```\n{item}"),
                "",
            );
        }
    }

    #[test]
    fn an_example_of_another_item_has_to_name_it() {
        for (docs, item, fault) in [
            ("see the example of [`run`]", "fn size() {}", ""),
            (
                "there is an [example](crate::run#more) above",
                "fn size() {}",
                "",
            ),
            ("see the example of [`run`]", "struct Options;", ""),
            ("see the example of [`run`]", "fn other() {}", "fn `other`"),
            ("see the example of [`none`]", "fn size() {}", "fn `size`"),
            ("see [`run`]", "fn size() {}", "fn `size`"),
            ("see the example of `run`", "fn size() {}", "fn `size`"),
        ] {
            plant_code(&format!("/// It is, {docs}.\npub {item}"), fault);
        }
    }

    #[test]
    fn only_what_users_see_needs_an_example() {
        plant_code(
            "pub(crate) fn a() {}\nfn b() {}\n#[doc(hidden)]\npub fn c() {}",
            "",
        );
        plant_code(
            "mod sealed {\n    pub trait A {}\n}\n\npub fn d() {}",
            "fn `d`",
        );
        let docs = "/// See the example of [`run`].";
        plant_code(
            &format!(
                "{docs}\npub trait Options {{\n    fn e();\n}}\n\ntrait F {{\n    fn g();\n}}"
            ),
            "fn `e`",
        );
    }
}

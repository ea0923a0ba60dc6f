//! The public API of the library: functions, types, traits and macros, with their documentation,
//! read from the sources.
//!
//! `pub` alone does not decide: an item of a private module is public if a `pub use` names it, and
//! a method if its type is. The reader works on lines, as formatted by `cargo fmt`, so it also sees
//! items that macros write.

use std::collections::BTreeSet;

use super::tree::Tree;

const LIBRARY: &str = "crates/uthread/src/";

pub(crate) struct Item<'a> {
    pub(crate) path: &'a str,
    pub(crate) line: usize,
    /// `fn`, `struct`, `enum`, `union`, `trait` or `macro`.
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
    /// The type or trait of a function; for a macro's type it begins with `$`.
    pub(crate) owner: Option<&'a str>,
    /// Markdown.
    pub(crate) docs: String,
    /// The words before the body.
    signature: BTreeSet<&'a str>,
    is_exported: bool,
}

impl Item<'_> {
    /// Returns true if it belongs to this type, or its signature names it.
    pub(crate) fn speaks_of(&self, name: &str) -> bool {
        self.owner == Some(name) || self.signature.contains(name)
    }
}

/// Returns the items visible to users, without hidden ones.
pub(crate) fn public_items(tree: &Tree) -> Vec<Item<'_>> {
    let files = tree
        .files()
        .filter(|(path, _)| path.starts_with(LIBRARY) && path.ends_with(".rs"));
    let mut reexported = BTreeSet::new();
    let mut public_modules = BTreeSet::from([String::new()]);
    let mut items = Vec::new();
    for (path, text) in files {
        let module = module_of(path);
        reexported.extend(reexports(&module, text));
        public_modules.extend(modules(&module, text));
        items.extend(Reader::new(path, text).items());
    }
    let is_shown = |item: &Item<'_>| {
        let module = module_of(item.path);
        item.is_exported
            || reexported.contains(&inside(&module, item.name))
            || public_modules.contains(&module)
    };
    let types: Vec<(&str, &str, bool)> = items
        .iter()
        .filter(|item| item.owner.is_none())
        .map(|item| (item.name, item.path, is_shown(item)))
        .collect();
    let is_public = |item: &Item<'_>| match item.owner {
        Some(owner) if owner.starts_with('$') => true,
        Some(owner) => {
            let of_name = || types.iter().filter(|(name, ..)| *name == owner);
            let here = of_name().find(|(_, path, _)| *path == item.path);
            here.map_or_else(|| of_name().any(|(.., shown)| *shown), |(.., shown)| *shown)
        }
        None => is_shown(item),
    };
    let public: Vec<bool> = items.iter().map(is_public).collect();
    let public = items.into_iter().zip(public).filter(|(_, public)| *public);
    public.map(|(item, _)| item).collect()
}

/// Returns the module of a file, by its path from the crate root.
fn module_of(path: &str) -> String {
    let path = path.strip_prefix(LIBRARY).unwrap_or(path);
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    match path {
        "lib" => String::new(),
        path => path.replace('/', "::"),
    }
}

/// Returns the path of an item with this name in a module.
fn inside(module: &str, name: &str) -> String {
    match module {
        "" => name.to_owned(),
        module => format!("{module}::{name}"),
    }
}

/// Returns the paths in the `pub use` items of a module.
fn reexports(module: &str, text: &str) -> Vec<String> {
    let statements = text.split("\npub use ").skip(1);
    let statements = statements.filter_map(|statement| statement.split(';').next());
    let paths = statements.flat_map(|statement| {
        let (above, names) = statement.split_once('{').unwrap_or(("", statement));
        let names = names.trim_end_matches('}').split(',').map(str::trim);
        names.map(move |name| format!("{above}{name}"))
    });
    paths.map(|path| resolve(module, &path)).collect()
}

/// Resolves a path in a module. A path into another crate has no meaning here.
fn resolve(module: &str, path: &str) -> String {
    // At most an alias follows.
    let path = path.split(' ').next().unwrap_or_default();
    match path.split_once("::") {
        Some(("crate", rest)) => rest.to_owned(),
        Some(("self", rest)) => inside(module, rest),
        Some(("super", rest)) => {
            let above = module.rsplit_once("::").map_or("", |(above, _)| above);
            resolve(above, rest)
        }
        _ => inside(module, path),
    }
}

/// Returns the public modules inside a module.
fn modules(module: &str, text: &str) -> Vec<String> {
    let lines = text.lines();
    let names = lines.filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    names.map(|name| inside(module, name)).collect()
}

/// Returns the names and words of a text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|part: char| !part.is_alphanumeric() && part != '_')
        .filter(|word| !word.is_empty())
}

/// Reads the lines of a file.
struct Reader<'a> {
    path: &'a str,
    lines: Vec<&'a str>,
    /// The blocks around the line, outermost first: the indentation of the line that opens each,
    /// and its kind.
    around: Vec<(usize, Around<'a>)>,
}

#[derive(Clone, Copy)]
enum Around<'a> {
    /// Its functions are public if marked so.
    Impl(&'a str),
    /// Its functions are as public as the trait.
    Trait(&'a str),
    /// Its items are reached by other ways, if at all.
    Private,
}

/// The lines above an item.
#[derive(Default)]
struct Above<'a> {
    /// From the last to the first.
    docs: Vec<&'a str>,
    is_hidden: bool,
    is_exported: bool,
}

impl<'a> Reader<'a> {
    fn new(path: &'a str, text: &'a str) -> Self {
        Self {
            path,
            lines: text.lines().collect(),
            around: Vec::new(),
        }
    }

    fn items(mut self) -> Vec<Item<'a>> {
        let mut items = Vec::new();
        for index in 0..self.lines.len() {
            let line = self.lines[index].trim_start();
            let depth = self.lines[index].len() - line.len();
            if line.starts_with('}') && self.around.last().is_some_and(|(open, _)| *open == depth) {
                self.around.pop();
            }
            items.extend(self.item(index, line));
            if !line.ends_with(['}', ';']) {
                self.around
                    .extend(opened(line).map(|opened| (depth, opened)));
            }
        }
        items
    }

    fn item(&self, index: usize, line: &'a str) -> Option<Item<'a>> {
        if self
            .around
            .iter()
            .any(|(_, around)| matches!(around, Around::Private))
        {
            return None;
        }
        let around = self.around.last().map(|(_, around)| *around);
        let declared = match (line.strip_prefix("pub "), around) {
            (Some(declared), _) => declared,
            (None, Some(Around::Trait(_))) => line,
            (None, _) if line.starts_with("macro_rules!") => line,
            (None, _) => return None,
        };
        let (kind, name) = declaration(declared)?;
        let above = self.above(index);
        let is_macro = kind == "macro";
        if above.is_hidden || is_macro && !above.is_exported {
            return None;
        }
        let docs = above
            .docs
            .iter()
            .rev()
            .fold(String::new(), |docs, line| docs + line + "\n");
        Some(Item {
            path: self.path,
            line: index + 1,
            kind,
            name,
            owner: match around {
                Some(Around::Impl(owner) | Around::Trait(owner)) => Some(owner),
                _ => None,
            },
            docs,
            signature: self.signature(index),
            is_exported: is_macro,
        })
    }

    /// Returns the documentation and the attributes above a line.
    fn above(&self, index: usize) -> Above<'a> {
        let mut above = Above::default();
        let mut is_in_attribute = false;
        for line in self.lines[..index].iter().rev().map(|line| line.trim()) {
            if let Some(docs) = line.strip_prefix("///") {
                above.docs.push(docs.strip_prefix(' ').unwrap_or(docs));
            } else if line.starts_with("#[") {
                is_in_attribute = false;
                above.is_hidden |= line == "#[doc(hidden)]";
                above.is_exported |= line == "#[macro_export]";
                if line.starts_with("#[doc = ") {
                    above.docs.push(line);
                }
            } else if line == ")]" {
                is_in_attribute = true;
            } else if !is_in_attribute && !line.starts_with("//") {
                break;
            }
        }
        above
    }

    fn signature(&self, index: usize) -> BTreeSet<&'a str> {
        let mut signature = BTreeSet::new();
        for line in &self.lines[index..] {
            signature.extend(words(line));
            if line.ends_with(['{', '}', ';']) {
                break;
            }
        }
        signature
    }
}

/// Returns the block that a line opens, if it can contain items.
fn opened(line: &str) -> Option<Around<'_>> {
    let declared = line.strip_prefix("pub ").unwrap_or(line);
    if declared.starts_with("mod ") {
        return (line == declared).then_some(Around::Private);
    }
    if let Some(("trait", name)) = declaration(declared) {
        return Some(Around::Trait(name));
    }
    let rest = declared.strip_prefix("impl")?;
    let of = match rest.chars().next()? {
        '<' => &rest[end_of_generics(rest)..],
        ' ' => rest,
        _ => return None,
    };
    // A trait implementation has no `pub` inside, so only other implementations matter.
    let path = of.trim_start().split(['<', ' ']).next()?;
    path.rsplit("::").next().map(Around::Impl)
}

/// Returns the end of the generic parameters at the start of a text.
fn end_of_generics(text: &str) -> usize {
    let mut depth = 0;
    let mut before = ' ';
    for (index, character) in text.char_indices() {
        match character {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
        before = character;
    }
    text.len()
}

/// Returns the kind and the name of a declaration, if it is checked.
fn declaration(text: &str) -> Option<(&str, &str)> {
    const KINDS: [&str; 6] = ["fn", "struct", "enum", "union", "trait", "macro_rules!"];
    let mut parts = text.split(' ');
    let kind =
        parts.find(|part| !["const", "unsafe", "async", "extern", "\"C\""].contains(part))?;
    let name = words(parts.next()?).next()?;
    KINDS
        .contains(&kind)
        .then_some((kind.trim_end_matches("_rules!"), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expects exactly these public items in these files of the library, each as
    /// `kind owner::name`.
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let paths = files
            .iter()
            .map(|(path, text)| (format!("{LIBRARY}{path}"), *text));
        let files: Vec<(String, &str)> = paths.collect();
        let tree = Tree::new(files.iter().map(|(path, text)| (path.as_str(), *text)));
        let found = public_items(&tree)
            .into_iter()
            .map(|item| match item.owner {
                Some(owner) => format!("{} {owner}::{}", item.kind, item.name),
                None => format!("{} {}", item.kind, item.name),
            });
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_item_of_a_private_module_is_public_by_name() {
        let private = "pub fn a() {}\npub fn b() {}\npub(crate) fn c() {}\nfn d() {}\n";
        check(&[("lib.rs", "mod m;\n"), ("m.rs", private)], &[]);
        for import in [
            "pub use m::a;",
            "pub use m::{a, x};",
            "pub use m::{\n    a,\n};",
        ] {
            let root = format!("mod m;\n\n{import}\n");
            check(&[("lib.rs", &root), ("m.rs", private)], &["fn a"]);
        }
        let root = "mod m;\n\npub(crate) use m::a;\n";
        check(&[("lib.rs", root), ("m.rs", private)], &[]);
    }

    #[test]
    fn another_item_of_that_name_is_not_meant() {
        let struct_a = "pub struct A;\n\nimpl A {\n    pub fn a() {}\n}\n";
        let of_a = ["struct A", "fn A::a"];
        let cases = [
            ("lib.rs", "pub use m::n::A;"),
            ("lib.rs", "pub use crate::m::n::A as B;"),
            ("o/mod.rs", "pub use super::m::n::{A, C};"),
            ("m/mod.rs", "pub use n::A;"),
            ("m/mod.rs", "pub use self::n::{C, A};"),
            ("m/p/q.rs", "pub use super::super::n::A;"),
        ];
        for (path, import) in cases {
            let import = format!("//! It.\n\n{import}\n");
            check(
                &[(path, &import), ("m/n.rs", struct_a), ("n.rs", struct_a)],
                &of_a,
            );
            check(
                &[(path, &import), ("n.rs", struct_a), ("n/m.rs", struct_a)],
                &[],
            );
        }
        // Its functions may be elsewhere.
        let elsewhere = "use super::A;\n\nimpl A {\n    pub fn b() {}\n}\n";
        let files = [
            ("lib.rs", "pub mod m;\n"),
            ("m.rs", struct_a),
            ("m/n.rs", elsewhere),
        ];
        check(&files, &["struct A", "fn A::a", "fn A::b"]);
    }

    #[test]
    fn a_public_module_shows_all_of_its_items() {
        let inside = "pub enum A {}\npub(crate) enum B {}\n";
        for path in ["m.rs", "m/mod.rs"] {
            check(&[("lib.rs", "pub mod m;\n"), (path, inside)], &["enum A"]);
        }
        let files = [
            ("lib.rs", "pub mod m;\n"),
            ("m/mod.rs", "pub mod n;\n"),
            ("m/n.rs", inside),
        ];
        check(&files, &["enum A"]);
    }

    #[test]
    fn functions_are_as_public_as_their_type_or_trait() {
        let text = "pub struct A;\n\nimpl<T: Fn() -> u8> m::A<T>\nwhere\n    T: Copy,\n{\n    pub fn a(self) {}\n\n    \
                    fn b() {}\n}\n\nimpl B {\n    pub fn c() {}\n}\n\npub trait C<T>: D {\n    fn d();\n}\n\n\
                    trait E {\n    fn e();\n}\n\npub fn f() {}\n";
        check(
            &[("lib.rs", text)],
            &["struct A", "fn A::a", "trait C", "fn C::d", "fn f"],
        );
        check(&[("m.rs", text)], &[]);
    }

    #[test]
    fn items_in_macros_are_public_and_exported_macros_too() {
        let text = "macro_rules! a {\n    ($b:ident) => {\n        impl $b {\n            pub fn c() {}\n        }\n    };\n}\n\n\
                    impl_a!(\n    A,\n);\n\n/// D.\n#[macro_export]\nmacro_rules! d {\n    () => {};\n}\n";
        check(&[("m.rs", text)], &["fn $b::c", "macro d"]);
    }

    #[test]
    fn hidden_and_nested_items_are_left_out() {
        let text = "/// A.\n#[doc(hidden)]\n#[must_use]\npub fn a() {}\n\nmod sealed {\n    pub trait B {}\n}\n\n\
                    #[cfg(test)]\nmod tests {\n    pub fn c() {}\n}\n\npub fn d() {}\n";
        check(&[("lib.rs", text)], &["fn d"]);
    }

    #[test]
    fn documentation_is_found_above_attributes() {
        let text = "/// A\n///\n/// # B\n#[doc = \"C\"]\n// D\n#[allow(\n    e,\n    reason = \"F\"\n)]\npub unsafe fn a() {}\n";
        let tree = Tree::new([("crates/uthread/src/lib.rs", text)].into_iter());
        let items = public_items(&tree);
        assert_eq!(items[0].docs, "A\n\n# B\n#[doc = \"C\"]\n");
        assert_eq!((items[0].line, items[0].name), (10, "a"));
    }
}

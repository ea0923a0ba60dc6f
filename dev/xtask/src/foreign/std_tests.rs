//! Makes a crate of the standard library's tests of what uthread mirrors, from Debian's package of
//! its sources.
//!
//! Inside `std` these tests use `crate`, `super`, and unstable or private items. So paths are
//! replaced, imports are split into one per name, and items that the compiler refuses are removed
//! until it refuses nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::str::FromStr;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use serde_json::Value;

use super::cargo::cargo;
use super::files::write;
use super::plan::{STD_DEPENDENCIES, STD_TESTS};

/// Replacements for `std`'s own test helpers.
const SUPPORT: &str = include_str!("support.rs");

/// Maximum number of compiler runs: it reports errors of imports first, and those of types and
/// borrows later.
const ROUNDS: usize = 12;

/// Paths of these helpers.
const HELPERS: [&str; 3] = [
    "std::sys_common::io::test::",
    "std::test_helpers::",
    "std::net::test::",
];

/// Makes the crate from the sources of the standard library in `library`.
pub(super) fn make(library: &Path, folder: &Path) -> io::Result<()> {
    let mut root = "#![cfg(test)]\n#![allow(warnings)]\nmod support;\n".to_owned();
    for (file, module) in STD_TESTS {
        let name = file.replace('/', "_");
        root += &format!("mod {name};\n");
        let text = fs::read_to_string(library.join(format!("std/src/{file}/tests.rs")))?;
        write(
            &folder.join(format!("src/{name}.rs")),
            &outside(&text, module),
        )?;
    }
    write(&folder.join("src/lib.rs"), &root)?;
    write(&folder.join("src/support.rs"), SUPPORT)?;
    let head = "[package]\nname = \"std-tests\"\nversion = \"0.0.0\"\nedition = \"2021\"\n";
    let manifest = format!("{head}\n[dependencies]\n{STD_DEPENDENCIES}\n[workspace]\n");
    write(&folder.join("Cargo.toml"), &manifest)
}

/// Removes items that the compiler refuses, and returns the names of the removed tests.
pub(super) fn prune(folder: &Path, target: &Path) -> io::Result<Vec<String>> {
    let mut refused = Vec::new();
    for _ in 0..ROUNDS {
        let mut check = cargo(folder, &["check", "--tests", "--quiet"]);
        check
            .args(["--message-format=json", "--target-dir"])
            .arg(target);
        check.env("RUSTFLAGS", "--cap-lints=allow");
        let output = check.stderr(Stdio::null()).output()?;
        if output.status.success() {
            return Ok(refused);
        }
        let mut faults: BTreeMap<PathBuf, BTreeSet<usize>> = BTreeMap::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            if let Some((file, at)) = fault(line) {
                faults.entry(folder.join(file)).or_default().insert(at);
            }
        }
        if faults.is_empty() {
            return Err(io::Error::other(
                "the tests of std: compiler errors without a location",
            ));
        }
        for (file, places) in faults {
            let text = fs::read_to_string(&file)?;
            let module = file.file_stem().unwrap_or_default().to_string_lossy();
            let (text, items) = without(&text, &places);
            let tests = items.iter().filter_map(|item| test_name(item));
            refused.extend(tests.map(|name| format!("lib {module}::{name}")));
            fs::write(file, text)?;
        }
    }
    Err(io::Error::other("the tests of std do not compile"))
}

/// Returns the file and byte of a compiler error, at the use of a macro rather than at its
/// definition.
fn fault(message: &str) -> Option<(String, usize)> {
    let message: Value = serde_json::from_str(message).ok()?;
    let message = &message["message"];
    if message["level"] != "error" {
        return None;
    }
    let spans = message["spans"].as_array()?;
    let mut span = spans.iter().find(|span| span["is_primary"] == true)?;
    while span["expansion"].is_object() {
        span = &span["expansion"]["span"];
    }
    let at = usize::try_from(span["byte_start"].as_u64()?).ok()?;
    Some((span["file_name"].as_str()?.to_owned(), at))
}

/// Returns the text of a file of tests as it must read outside `std`, where `super` was this
/// module.
fn outside(text: &str, module: &str) -> String {
    let stream = TokenStream::from_str(text).expect("the sources of std are Rust");
    let mut edits = Vec::new();
    find_paths(stream, module, false, &mut edits);
    let mut text = text.to_owned();
    for (range, new) in edits.into_iter().rev() {
        text.replace_range(range, &new);
    }
    for helper in HELPERS {
        text = text.replace(helper, "crate::support::");
    }
    text + "\nuse crate::support::common::*;\n"
}

fn find_paths(
    stream: TokenStream,
    module: &str,
    is_inner: bool,
    edits: &mut Vec<(Range<usize>, String)>,
) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut at = 0;
    while let Some(tree) = trees.get(at) {
        let range = tree.span().byte_range();
        match tree {
            TokenTree::Ident(word) if word == "use" => {
                let end = trees[at..].iter().position(is_end).map(|end| at + end);
                let end = end.unwrap_or(trees.len() - 1);
                let parent = if is_inner { "super" } else { module };
                let imports = imports("", &trees[at + 1..end], parent);
                let imports = imports.iter().map(|it| format!("use {it};"));
                let range = range.start..trees[end].span().byte_range().end;
                edits.push((range, imports.collect::<Vec<_>>().join(" ")));
                at = end;
            }
            TokenTree::Ident(word) if word == "crate" && !is_variable(&trees[..at]) => {
                edits.push((range, "std".to_owned()));
            }
            TokenTree::Ident(word) if word == "super" && !is_inner => {
                edits.push((range, module.to_owned()));
            }
            TokenTree::Group(group) => {
                let is_module = at > 1 && trees[at - 2].to_string() == "mod";
                find_paths(group.stream(), module, is_inner || is_module, edits);
            }
            _ => {}
        }
        at += 1;
    }
}

/// Returns one import per name of a tree.
fn imports(prefix: &str, trees: &[TokenTree], parent: &str) -> Vec<String> {
    let mut path = prefix.to_owned();
    for tree in trees {
        match tree {
            TokenTree::Group(group) => {
                let inner: Vec<_> = group.stream().into_iter().collect();
                let parts = inner.split(|tree| tree.to_string() == ",");
                let parts = parts.filter(|part| !part.is_empty());
                return parts
                    .flat_map(|part| imports(&path, part, parent))
                    .collect();
            }
            TokenTree::Ident(word) if path.is_empty() && word == "crate" => path += "std",
            TokenTree::Ident(word) if path.is_empty() && word == "super" => path += parent,
            // A name by itself imports itself.
            TokenTree::Ident(word) if word == "self" && path.ends_with("::") => {
                path.truncate(path.len() - 2);
            }
            TokenTree::Ident(word) if word == "as" => path += " as ",
            other => path += &other.to_string(),
        }
    }
    vec![path]
}

fn is_end(tree: &TokenTree) -> bool {
    tree.to_string() == ";"
}

fn is_variable(before: &[TokenTree]) -> bool {
    before.last().is_some_and(|tree| tree.to_string() == "$")
}

/// Returns the name of a test item.
fn test_name(item: &str) -> Option<&str> {
    let (attributes, rest) = item.split_once("fn ")?;
    let is_test = attributes.contains("test]");
    rest.split('(').next().filter(|_| is_test)
}

/// Removes the items at these bytes, and returns them: imports at any level, other items at the
/// level of modules.
fn without(text: &str, places: &BTreeSet<usize>) -> (String, Vec<String>) {
    let stream = TokenStream::from_str(text).expect("the file was Rust before");
    let mut found = BTreeMap::new();
    for place in places {
        if let Some(range) = item(stream.clone(), *place) {
            found.insert(range.start, range.end);
        }
    }
    let items = found
        .iter()
        .map(|(start, end)| text[*start..*end].to_owned());
    let items = items.collect();
    let mut text = text.to_owned();
    for (start, end) in found.into_iter().rev() {
        text.replace_range(start..end, "");
    }
    (text, items)
}

/// Returns the range of the item that contains a byte, including its attributes.
fn item(stream: TokenStream, place: usize) -> Option<Range<usize>> {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut start = 0;
    for (at, tree) in trees.iter().enumerate() {
        let range = tree.span().byte_range();
        let is_block = match tree {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            _ => false,
        };
        let is_import = trees[start..at]
            .iter()
            .any(|tree| tree.to_string() == "use");
        if range.contains(&place) && is_block && !is_import {
            let TokenTree::Group(group) = tree else {
                return None;
            };
            let is_module = at > 1 && trees[at - 2].to_string() == "mod";
            let inner = if is_module {
                item(group.stream(), place)
            } else {
                import(group.stream(), place)
            };
            if inner.is_some() {
                return inner;
            }
        }
        if is_end(tree) || (is_block && !is_import) {
            let whole = trees[start].span().byte_range().start..range.end;
            if whole.contains(&place) {
                return Some(whole);
            }
            start = at + 1;
        }
    }
    None
}

/// Returns the range of the import that contains a byte, inside a function.
fn import(stream: TokenStream, place: usize) -> Option<Range<usize>> {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    for (at, tree) in trees.iter().enumerate() {
        match tree {
            TokenTree::Ident(word) if word == "use" => {
                let end = trees[at..].iter().find(|tree| is_end(tree))?;
                let range = tree.span().byte_range().start..end.span().byte_range().end;
                if range.contains(&place) {
                    return Some(range);
                }
            }
            TokenTree::Group(group) if group.span().byte_range().contains(&place) => {
                return import(group.stream(), place);
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_from_outside() {
        let check = |text: &str, expected: &str| {
            let found = outside(text, "std::a");
            let end = "\nuse crate::support::common::*;\n";
            assert_eq!(found.strip_suffix(end), Some(expected));
        };
        check(
            "use crate::{b::{self, C}, d};\nuse super::*;",
            "use std::b; use std::b::C; use std::d;\nuse std::a::*;",
        );
        check(
            "fn f() { super::g(crate::h); $crate::i }\nmod m { use super::*; }",
            "fn f() { std::a::g(std::h); $crate::i }\nmod m { use super::*; }",
        );
        check(
            "use crate::net::test::x as y;",
            "use crate::support::x as y;",
        );
    }

    #[test]
    fn refused_tests_are_removed() {
        let text = "use a::b;\n#[test]\nfn c() { use d::e; f() }\nmod g {\n  fn h() { i() }\n  fn j() {}\n}\n";
        let check = |part: &str, expected: &str| {
            let place = text.find(part).expect("a part of the text");
            let (left, items) = without(text, &[place].into());
            assert_eq!(left, expected, "{part}");
            assert!(items[0].contains(part), "{part}");
        };
        check("a::b", &text.replace("use a::b;", ""));
        check("d::e", &text.replace("use d::e;", ""));
        check(
            "f()",
            &text.replace("#[test]\nfn c() { use d::e; f() }", ""),
        );
        check("i()", &text.replace("fn h() { i() }", ""));
    }

    #[test]
    fn tests_are_known_by_their_attribute() {
        assert_eq!(test_name("#[uthread::test]\nfn a() {}"), Some("a"));
        assert_eq!(test_name("fn a() {}"), None);
        assert_eq!(test_name("use a::b;"), None);
    }

    #[test]
    fn an_error_points_to_where_a_macro_is_used() {
        let inner = r#"{"is_primary":true,"file_name":"a","byte_start":1,"expansion":{"span":{"file_name":"b","byte_start":2,"expansion":null}}}"#;
        let message = format!(r#"{{"message":{{"level":"error","spans":[{inner}]}}}}"#);
        assert_eq!(fault(&message), Some(("b".to_owned(), 2)));
        assert_eq!(fault(&message.replace("error", "warning")), None);
        assert_eq!(fault("{}"), None);
    }
}

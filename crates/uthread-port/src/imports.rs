//! Imports: parses the tree of a `use`, and splits an import that names both ported and other
//! items.
//!
//! ```text
//!   use std::{fmt, io::{self, Read}};      ->    use std::fmt; use uthread::io::{self, Read};
//! ```
//!
//! Texts are copied from the source including their comments, so nothing is lost.

use super::decision::{Decision, decide};
use super::tokens::Tokens;

/// A branch of an import: `a::b as c`, `a::b::*`, `a::b::{..}` or `{..}`.
pub(super) struct Tree<'a> {
    /// Tokens of the path, without a leading `::`.
    path: Vec<(usize, &'a str)>,
    kind: Kind<'a>,
    /// The name after `as`.
    alias: Option<&'a str>,
    /// Source text; of a group, up to the braces.
    text: &'a str,
    /// Comments before and after it, if it is inside braces.
    comments: [&'a str; 2],
    /// Token range of the branch.
    pub(super) first: usize,
    pub(super) end: usize,
}

enum Kind<'a> {
    Name,
    Glob,
    Group(Vec<Tree<'a>>),
}

impl<'a> Tree<'a> {
    /// Parses the tree that begins at a token; `None` if there is none.
    pub(super) fn parse(tokens: &Tokens<'a>, first: usize) -> Option<Tree<'a>> {
        let mut at = first + usize::from(tokens.text(first) == "::");
        let (mut open, mut alias) = (None, None);
        let mut path = Vec::new();
        let kind = loop {
            match tokens.text(at) {
                "*" => break Kind::Glob,
                "{" => {
                    open = Some(tokens.range(at).start);
                    break Kind::Group(elements(tokens, &mut at)?);
                }
                name if is_name(name) => path.push((at, name)),
                _ => return None,
            }
            match tokens.text(at + 1) {
                "::" => at += 2,
                "as" => {
                    at += 2;
                    alias = Some(tokens.text(at));
                    break Kind::Name;
                }
                _ => break Kind::Name,
            }
        };
        let end = at + 1;
        Some(Tree {
            path,
            kind,
            alias,
            text: &tokens.source[tokens.range(first).start..open.unwrap_or(tokens.range(at).end)],
            comments: ["", ""],
            first,
            end,
        })
    }

    /// Returns the roots of this tree: itself, or the trees in its braces if it has no path.
    pub(super) fn roots(&self) -> Vec<&Tree<'a>> {
        match &self.kind {
            Kind::Group(elements) if self.path.is_empty() => {
                elements.iter().flat_map(Tree::roots).collect()
            }
            _ => vec![self],
        }
    }

    /// Returns the token and name that the tree begins with.
    pub(super) fn root(&self) -> Option<(usize, &'a str)> {
        self.path.first().copied()
    }

    /// Returns the decision for each imported name, with a token of the name and its path after the
    /// root.
    pub(super) fn decisions(&self) -> Vec<(usize, String, Decision)> {
        let mut found = Vec::new();
        self.visit(&[], &mut |tree, path| {
            found.push((tree.first, path.join("::"), decide(path)));
        });
        found
    }

    /// Returns each imported name, with a token of it and its path, root included.
    pub(super) fn imports(&self) -> Vec<(usize, String, String)> {
        let mut found = Vec::new();
        for tree in self.roots() {
            let is_std = tree.root().is_some_and(|(_, name)| name == "std");
            let root = if is_std { "std::" } else { "" };
            tree.visit(&[], &mut |tree, path| {
                let path = format!("{root}{}", path.join("::"));
                let last = path.rsplit("::").next().unwrap_or_default();
                let name = tree.alias.unwrap_or(last).to_owned();
                found.push((tree.first, name, path.clone()));
            });
        }
        found
    }

    /// Returns the text of the tree, reduced to the ported items or to the others.
    pub(super) fn part(&self, ours: bool) -> Option<String> {
        self.part_after(&[], ours)
    }

    fn part_after(&self, parent: &[&str], ours: bool) -> Option<String> {
        let Kind::Group(elements) = &self.kind else {
            let is_ours = decide(&self.full_path(parent)) == Decision::Ours;
            return (is_ours == ours).then(|| self.text.to_owned());
        };
        let path = self.path_after(parent);
        let parts = elements.iter().filter_map(|element| {
            let part = element.part_after(&path, ours)?;
            let [before, after] = element.comments;
            // `use a::self` is no import.
            let needs_braces = element
                .path
                .first()
                .is_some_and(|(_, name)| *name == "self");
            Some((needs_braces, format!("{before}{part}{after}")))
        });
        let parts: Vec<_> = parts.collect();
        match &parts[..] {
            [] => None,
            [(false, one)] if !one.contains("//") => Some(self.text.to_owned() + one),
            parts => {
                let parts = parts.iter().map(|(_, part)| part.as_str());
                Some(format!("{}{{{}}}", self.text, join(parts)))
            }
        }
    }

    /// Calls `action` for each imported name, with its path.
    fn visit(&self, parent: &[&'a str], action: &mut impl FnMut(&Tree<'a>, &[&str])) {
        match &self.kind {
            Kind::Group(elements) => {
                let path = self.path_after(parent);
                elements
                    .iter()
                    .for_each(|element| element.visit(&path, action));
            }
            _ => action(self, &self.full_path(parent)),
        }
    }

    /// Returns the path of the imported item after the root.
    fn full_path<'b>(&self, parent: &[&'b str]) -> Vec<&'b str>
    where
        'a: 'b,
    {
        let mut path = self.path_after(parent);
        match self.kind {
            Kind::Glob => path.push("*"),
            _ => drop(path.pop_if(|last| *last == "self")),
        }
        path
    }

    /// Appends the path of this branch to that of the braces around it. The root is left out.
    fn path_after<'b>(&self, parent: &[&'b str]) -> Vec<&'b str>
    where
        'a: 'b,
    {
        let is_root = self.path.first().is_some_and(|(_, name)| *name == "std");
        let own = self.path.iter().map(|(_, name)| *name);
        let own = own.skip(usize::from(is_root && parent.is_empty()));
        parent.iter().copied().chain(own).collect()
    }
}

/// Parses the elements of the braces that open at the token `at`, and sets `at` to the closing
/// token.
fn elements<'a>(tokens: &Tokens<'a>, at: &mut usize) -> Option<Vec<Tree<'a>>> {
    let mut found: Vec<Tree<'a>> = Vec::new();
    let between = |from: usize, to: usize| {
        let text = &tokens.source[tokens.range(from).end..tokens.range(to).start];
        // A line comment needs the end of its line.
        if text.contains("//") {
            text
        } else {
            text.trim()
        }
    };
    *at += 1;
    while tokens.text(*at) != "}" {
        let before = between(*at - 1, *at);
        let mut tree = Tree::parse(tokens, *at)?;
        *at = tree.end;
        tree.comments = [before, between(*at - 1, *at)];
        found.push(tree);
        match tokens.text(*at) {
            "," => *at += 1,
            "}" => return Some(found),
            _ => return None,
        }
    }
    let rest = between(*at - 1, *at);
    if let Some(last) = found.last_mut().filter(|_| !rest.is_empty()) {
        last.comments[1] = rest;
    }
    Some(found)
}

/// Joins elements with commas. A line comment ends before the comma.
fn join<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    let ended = parts.map(|part| {
        let last = part.rsplit('\n').next().unwrap_or_default();
        if last.contains("//") {
            format!("{part}\n")
        } else {
            part.to_owned()
        }
    });
    ended.collect::<Vec<_>>().join(", ")
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphabetic() || first == '_') && text != "as"
}

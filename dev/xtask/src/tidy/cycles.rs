//! The modules of a folder import one way: none reaches itself by way of its siblings.
//!
//! This holds in every folder of every crate, those of tests included. An import counts in the
//! folder where the paths of the importing and of the imported module part. So a module and the
//! modules in it may import each other: they are one thing, with a face and parts. The exception is
//! `main.rs`, whose parts are the whole program: nothing imports from it.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::paths::used_paths;
use super::tree::Tree;

const MOVE_DOWN: &str = "move it into a module of its own";

const CUT: &str = "move what both need into a module below them, or the code to where it is used";

/// Imports of one module by another, each with its first place.
pub(super) type Imports = BTreeMap<(String, String), (String, usize)>;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let (imports, mut findings) = imports(tree);
    findings.extend(imports.values().flat_map(cycles));
    findings
}

/// Returns the imports between the modules of each folder, and a finding for each import from
/// `main.rs`.
pub(super) fn imports(tree: &Tree) -> (BTreeMap<String, Imports>, Vec<Finding>) {
    let mut imports: BTreeMap<String, Imports> = BTreeMap::new();
    let mut findings = Vec::new();
    for (path, code) in tree.code() {
        let Some(root) = root_of(tree, path) else {
            continue;
        };
        let inside = path[root.len()..].trim_end_matches(".rs");
        let mut own: Vec<&str> = inside.split('/').collect();
        own.pop_if(|last| ["mod", "lib", "main"].contains(last));
        if own.is_empty() || own.contains(&"tests") {
            continue;
        }
        let program = declared(tree, &format!("{root}main.rs"));
        for (line, used) in used_paths(code, &own) {
            if !program.is_empty() && !program.contains(used[0]) {
                let what = format!("`{}` is imported from main.rs", used[0]);
                findings.push(Finding::new(path, line, what, MOVE_DOWN));
            }
            let shared = own.iter().zip(&used).take_while(|(own, used)| own == used);
            let shared = shared.count();
            let (Some(from), Some(to)) = (own.get(shared), used.get(shared)) else {
                continue;
            };
            let folder = format!("{root}{}", own[..shared].join("/"));
            let edge = ((*from).to_owned(), (*to).to_owned());
            let place = (path.to_owned(), line);
            let folder = imports.entry(folder).or_default();
            folder.entry(edge).or_insert(place);
        }
    }
    (imports, findings)
}

/// Returns the folder of the root module of the crate to which a file belongs, with a `/` at its
/// end.
fn root_of<'a>(tree: &Tree, path: &'a str) -> Option<&'a str> {
    let mut folders = path.match_indices('/').map(|(slash, _)| &path[..=slash]);
    folders.find(|folder| {
        let is_root = |name| tree.exists(&format!("{folder}{name}"));
        is_root("lib.rs") || is_root("main.rs")
    })
}

/// Returns the modules that a file declares; none if it does not exist.
pub(super) fn declared<'a>(tree: &'a Tree, path: &str) -> BTreeSet<&'a str> {
    let names = tree.text(path).lines().filter_map(|line| {
        let declared = line.strip_suffix(';').or(line.strip_suffix(" {"));
        let (visibility, name) = declared?.rsplit_once("mod ")?;
        (visibility.is_empty() || visibility.starts_with("pub")).then_some(name)
    });
    names.collect()
}

/// Returns one finding for each import that lies on a shortest cycle through its module.
fn cycles(imports: &Imports) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut known: BTreeSet<Vec<&str>> = BTreeSet::new();
    for ((from, to), (path, line)) in imports {
        let Some(mut way) = way_back(imports, to, from) else {
            continue;
        };
        let mut members = way.clone();
        members.sort_unstable();
        if known.insert(members) {
            way.insert(0, from);
            let what = format!("the modules {} import each other", way.join(" -> "));
            findings.push(Finding::new(path, *line, what, CUT));
        }
    }
    findings
}

/// Returns the shortest way by imports from `start` to `end`, both included.
fn way_back<'a>(imports: &'a Imports, start: &'a str, end: &str) -> Option<Vec<&'a str>> {
    let mut ways = vec![vec![start]];
    let mut seen = BTreeSet::from([start]);
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let last = *way.last().expect("a way has a start");
            if last == end {
                return Some(way);
            }
            for (_, to) in imports.keys().filter(|(from, _)| from == last) {
                if seen.insert(to) {
                    longer.push([&way[..], &[to]].concat());
                }
            }
        }
        ways = longer;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    #[test]
    fn modules_of_a_folder_import_one_way() {
        let good = [
            ("main.rs", "mod io;\nmod plan;\nmod sched;"),
            ("plan.rs", "use crate::{io::Read, sched::wait};"),
            ("io/deep.rs", "use super::{Pipe, flat};"),
            ("sched/wait.rs", "use super::worker::Worker;"),
            ("sched/worker/mod.rs", "use super::shared::Shared;"),
            ("sched/worker/calls.rs", "use super::Worker;"),
        ];
        #[rustfmt::skip]
        let cases = [
            ("sched/shared.rs", "super::worker::A", "sched/shared.rs:1: the modules shared -> wo"),
            ("sched/worker/a.rs", "use crate::sched::wait;", "sched/wait.rs:1: the modules wait"),
            ("io/pipe.rs", "use crate::plan::A;", "io/pipe.rs:1: the modules io -> plan -> io"),
            ("io/flat.rs", "use super::deep::A;", "io/deep.rs:1: the modules deep -> flat"),
            ("io/flat.rs", "use crate::{io::B, a};", "io/flat.rs:1: `a` is imported from main"),
        ];
        plant(check, "crates/a/src/", &good, &cases);
    }
}

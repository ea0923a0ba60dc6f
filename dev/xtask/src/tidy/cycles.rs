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
    for (path, source) in tree.sources() {
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
        for (line, used) in used_paths(source, &own) {
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
    let source = tree.sources().find(|(other, _)| *other == path);
    let names = source.into_iter().flat_map(|(_, source)| {
        let mods = (0..source.tokens.len()).filter(|&index| source.text(index) == "mod");
        mods.map(|index| source.text(index + 1))
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

    /// Plants a file in a crate whose other files form no cycle, and expects one finding per entry.
    #[track_caller]
    fn plant_code(path: &str, code: &str, expected: &[&str]) {
        let good = [
            (
                "crates/a/src/lib.rs",
                "mod plan; mod sched; pub use sched::Worker;",
            ),
            (
                "crates/a/src/plan.rs",
                "use crate::{io::Read, sched::wait};",
            ),
            (
                "crates/a/src/io/mod.rs",
                "use parts::deep; use crate::Worker;",
            ),
            (
                "crates/a/src/io/parts/deep.rs",
                "use super::super::Pipe; use super::flat;",
            ),
            ("crates/a/src/sched/wait.rs", "use super::worker::Worker;"),
            (
                "crates/a/src/sched/worker/mod.rs",
                "use super::shared::Shared;",
            ),
            ("crates/a/src/sched/worker/calls.rs", "use super::Worker;"),
        ];
        plant(check, &good, (path, code), expected);
    }

    #[test]
    fn siblings_import_one_way() {
        plant_code(
            "crates/a/src/sched/shared.rs",
            "fn a() { super::worker::current::get() }",
            &[
                "crates/a/src/sched/shared.rs:1: the modules shared -> worker -> shared import each other",
            ],
        );
        plant_code(
            "crates/a/src/sched/worker/search.rs",
            "use crate::sched::{idle, wait::{self, now}};",
            &["crates/a/src/sched/wait.rs:1: the modules wait -> worker -> wait import each other"],
        );
        plant_code(
            "crates/a/src/io/pipe.rs",
            "use crate::plan::Shutdown;",
            &["crates/a/src/io/pipe.rs:1: the modules io -> plan -> io import each other"],
        );
    }

    #[test]
    fn a_cycle_is_found_at_any_depth_and_in_any_crate() {
        plant_code(
            "crates/a/src/io/parts/flat.rs",
            "use crate::io::parts::deep::Deep;",
            &[
                "crates/a/src/io/parts/deep.rs:1: the modules deep -> flat -> deep import each other",
            ],
        );
        for root in [
            "crates/b/src/lib.rs",
            "bench/c/src/lib.rs",
            "crates/d/tests/e/main.rs",
        ] {
            let folder = root.rsplit_once('/').expect("a folder").0;
            let tree = [
                (root.to_owned(), "mod one; mod two;"),
                (format!("{folder}/one.rs"), "use crate::two::Two;"),
                (format!("{folder}/two.rs"), "use super::one::One;"),
            ];
            let found = check(&Tree::new(
                tree.iter().map(|(path, code)| (path.as_str(), *code)),
            ));
            assert_eq!(found.len(), 1, "{found:?}");
        }
    }

    #[test]
    fn nothing_imports_from_main() {
        let good = [
            (
                "dev/xtask/src/main.rs",
                "mod exit; mod serve; use serve::run;",
            ),
            ("dev/xtask/src/serve.rs", "use crate::exit::Exit;"),
        ];
        plant(
            check,
            &good,
            ("dev/xtask/src/serve.rs", "use crate::{exit::Exit, tell};"),
            &["dev/xtask/src/serve.rs:1: `tell` is imported from main.rs"],
        );
    }

    #[test]
    fn tests_may_import_anything() {
        plant_code(
            "crates/a/src/sched/worker.rs",
            "#[cfg(test)]\nmod tests { use crate::sched::wait; }",
            &[],
        );
    }
}

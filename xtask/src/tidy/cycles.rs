//! The modules of a layer import one way: none reaches itself by way of its siblings.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::layers::{FACE, LIBRARY};
use super::paths::used_paths;
use super::tree::Tree;

/// The folders whose direct modules form no cycle. The root stands for the public face alone: the other layers have an
/// order of their own.
const FOLDERS: [&str; 7] = ["", "sched", "driver", "resource", "op", "fiber", "stack"];

const CUT: &str = "move what both need into a module below them, or the code to where it is used";

/// Imports of one module by another, each with its first place.
type Imports = BTreeMap<(String, String), (String, usize)>;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut imports: BTreeMap<&str, Imports> = BTreeMap::new();
    for (path, source) in tree.sources() {
        let Some(inside) = path.strip_prefix(LIBRARY) else {
            continue;
        };
        let mut own: Vec<&str> = inside.trim_end_matches(".rs").split('/').collect();
        own.pop_if(|last| *last == "mod" || *last == "lib");
        if own.contains(&"tests") || own.first() == Some(&"simulation") {
            continue;
        }
        for (line, used) in used_paths(source, &own) {
            for folder in FOLDERS {
                let depth = usize::from(!folder.is_empty());
                let is_inside = depth == 0 || own.first() == Some(&folder) && used[0] == folder;
                let (Some(from), Some(to)) = (own.get(depth), used.get(depth)) else {
                    continue;
                };
                let counts = depth == 1 || FACE.contains(from) && FACE.contains(to);
                if is_inside && counts && from != to {
                    let edge = ((*from).to_owned(), (*to).to_owned());
                    let place = (path.to_owned(), line);
                    imports
                        .entry(folder)
                        .or_default()
                        .entry(edge)
                        .or_insert(place);
                }
            }
        }
    }
    let found = imports.values().flat_map(cycles);
    found.collect()
}

/// One finding for each import that lies on a shortest cycle through its module.
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

/// The shortest way by imports from `start` to `end`, both included.
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
    fn siblings_import_one_way() {
        let good = [
            (
                "crates/uthread/src/sched/wait.rs",
                "use super::worker::Worker;",
            ),
            (
                "crates/uthread/src/sched/worker/mod.rs",
                "use super::shared::Shared;",
            ),
            (
                "crates/uthread/src/sched/worker/calls.rs",
                "use super::Worker;",
            ),
            (
                "crates/uthread/src/net/mod.rs",
                "use crate::{io::Read, sched::wait};",
            ),
            ("crates/uthread/src/io/mod.rs", ""),
        ];
        for (fault, code, expected) in [
            (
                "sched/shared.rs",
                "fn a() { super::worker::current::get() }",
                "the modules shared -> worker -> shared import each other",
            ),
            (
                "sched/worker/search.rs",
                "use crate::sched::{idle, wait::{self, now}};",
                "the modules wait -> worker -> wait import each other",
            ),
            (
                "io/pipe.rs",
                "use crate::net::Shutdown;",
                "the modules io -> net -> io import each other",
            ),
        ] {
            let found = check(&Tree::new(
                good.iter()
                    .copied()
                    .chain([(format!("{LIBRARY}{fault}").as_str(), code)]),
            ));
            let found: Vec<_> = found.iter().map(|finding| finding.what.as_str()).collect();
            assert_eq!(found, [expected]);
        }
    }

    #[test]
    fn tests_and_simulations_may_import_anything() {
        plant(
            check,
            &[(
                "crates/uthread/src/sched/wait.rs",
                "use super::worker::Worker;",
            )],
            (
                "crates/uthread/src/sched/worker.rs",
                "#[cfg(test)]\nmod tests { use crate::sched::wait; }",
            ),
            &[],
        );
    }
}

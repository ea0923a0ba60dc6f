//! A folder's map, the table of its modules in the documentation of its `mod.rs`, names each of
//! them, and in the order of the imports: a module uses only modules below it.

use std::collections::BTreeSet;

use super::Finding;
use super::cycles::{declared, imports};
use super::tree::Tree;

const HEAD: &str = "//! | module | contents |";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let (imports, _) = imports(tree);
    let mut findings = Vec::new();
    let folders = tree.code().filter(|(path, _)| path.ends_with("/mod.rs"));
    for (path, _) in folders {
        let rows = rows(tree.text(path));
        if rows.is_empty() {
            continue;
        }
        let declared = declared(tree, path);
        let named: BTreeSet<&str> = rows.iter().map(|(name, _)| *name).collect();
        for name in declared.difference(&named) {
            if *name != "tests" {
                let what = format!("the map lacks the module `{name}`");
                findings.push(Finding::new(path, 1, what, "add a row"));
            }
        }
        for (name, line) in rows.iter().filter(|(name, _)| !declared.contains(name)) {
            let what = format!("the map names `{name}`, which is no module here");
            findings.push(Finding::new(path, *line, what, "delete the row"));
        }
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let row = |module: &str| rows.iter().position(|(name, _)| *name == module);
        for (from, to) in imports
            .get(folder)
            .into_iter()
            .flat_map(|imports| imports.keys())
        {
            if let Some((above, below)) = row(from).zip(row(to))
                && above > below
            {
                let what = format!("`{from}` uses `{to}`, which is above it in the map");
                findings.push(Finding::new(path, rows[above].1, what, "move its row up"));
            }
        }
    }
    findings
}

/// Returns the modules that the map of a file names, with their lines; none if it has no map.
fn rows(text: &str) -> Vec<(&str, usize)> {
    let lines = text.lines().zip(1..).skip_while(|(line, _)| *line != HEAD);
    let rows = lines.skip(2).map_while(|(line, number)| {
        let (name, _) = line.strip_prefix("//! | [`")?.split_once("`]")?;
        Some((name, number))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    const MAP: &str = "//! A folder.
//!
//! | module | contents |
//! | --- | --- |
//! | [`upper`] | one |
//! | [`lower`] | another |

mod lower;
mod upper;
";

    #[test]
    fn a_map_names_every_module_in_the_order_of_the_imports() {
        let good = [
            ("lib.rs", "mod folder;"),
            ("folder/mod.rs", MAP),
            ("folder/upper.rs", "use super::lower::Item;"),
            ("folder/lower.rs", "pub struct Item;"),
        ];
        let more = MAP.replace("mod upper;", "mod tests;\nmod third;\nmod upper;");
        let fewer = MAP.replace("mod lower;", "");
        #[rustfmt::skip]
        let cases = [
            ("folder/mod.rs", &*more, "folder/mod.rs:1: the map lacks the module `third`"),
            ("folder/mod.rs", &*fewer, "folder/mod.rs:6: the map names `lower`"),
            ("folder/lower.rs", "use super::upper::A;", "folder/mod.rs:6: `lower` uses `upper`"),
        ];
        plant(check, "crates/a/src/", &good, &cases);
    }
}

//! The files of a dependency's library that a program on Linux contains.
//!
//! A file that no module declares may still be one, by a macro: only those are left out that are of
//! another target, or of a module that is declared for tests, other systems or other features.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use uthread_port::{Finding, Module};

use super::packages::Dependency;
use crate::rust_files;

/// Returns what may keep a worker from other fibers in each file, with its path within the package.
/// Leaves out files that are not UTF-8.
pub(super) fn scan(dependency: &Dependency) -> anyhow::Result<Vec<(PathBuf, Vec<Finding>)>> {
    let mut files = Vec::new();
    let (mut kept, mut left_out) = (HashSet::new(), HashSet::new());
    for path in rust_files::of(std::slice::from_ref(&dependency.sources))? {
        if is_of_other_target(dependency, &path) {
            continue;
        }
        let Ok(source) = fs::read_to_string(&path) else {
            continue;
        };
        let scanned = uthread_port::scan(&source, &dependency.features);
        for module in scanned.modules {
            let place = place_of(&module, &path, path == dependency.root);
            let of_its_kind = if module.is_left_out {
                &mut left_out
            } else {
                &mut kept
            };
            of_its_kind.extend(place);
        }
        files.push((path, scanned.findings));
    }
    let is_left_out = |path: &Path| {
        let without_ending = path.with_extension("");
        let around = without_ending.ancestors().chain([path]);
        let mut places = around.filter(|place| left_out.contains(*place));
        places.any(|place| !kept.contains(place))
    };
    let own = files.into_iter().filter(|(path, _)| !is_left_out(path));
    let within = own.map(|(path, findings)| {
        let file = path.strip_prefix(&dependency.package).unwrap_or(&path);
        (file.to_owned(), findings)
    });
    Ok(within
        .filter(|(file, _)| !is_named_as_other(file))
        .collect())
}

/// Returns the place of a module that a file declares: its file without the ending, which is its
/// folder as well, or the file that it names.
fn place_of(module: &Module, file: &Path, is_root: bool) -> Option<PathBuf> {
    let folder = file.parent()?;
    if module.is_named {
        return Some(folder.join(&module.path));
    }
    let has_own_folder = !is_root && file.file_name()? != "mod.rs";
    let folder = if has_own_folder {
        file.with_extension("")
    } else {
        folder.to_owned()
    };
    Some(folder.join(&module.path))
}

/// Returns `true` for a file of a binary, a test, an example or the build script.
fn is_of_other_target(dependency: &Dependency, path: &Path) -> bool {
    let binaries = dependency.sources.join("bin");
    let examples = dependency.package.join("examples");
    let mut others = dependency.other_roots.iter();
    path.starts_with(examples)
        || others
            .any(|root| path == root || root.starts_with(&binaries) && path.starts_with(&binaries))
}

/// Returns `true` for a file whose name is that of tests or of another system: a macro may hide the
/// condition of its module.
fn is_named_as_other(file: &Path) -> bool {
    const NAMES: [&str; 8] = [
        "test", "tests", "benches", "windows", "wasm", "macos", "apple", "loom",
    ];
    file.iter().any(|part| {
        let part = part.to_string_lossy();
        NAMES.contains(&part.strip_suffix(".rs").unwrap_or(&part))
    })
}

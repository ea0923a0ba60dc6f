//! Finds Rust files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Returns the Rust files of these paths in order. In directories, skips hidden files and those of
/// cargo.
pub(crate) fn of(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        let context = || format!("cannot read {}", path.display());
        if fs::metadata(path).with_context(context)?.is_dir() {
            walk(path, &mut found).with_context(context)?;
        } else {
            found.push(path.clone());
        }
    }
    Ok(found)
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries = fs::read_dir(folder)?;
    let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (name, path) = (entry.file_name(), entry.path());
        let kind = entry.file_type()?;
        let is_left_out = name == "target" || name.as_encoded_bytes().starts_with(b".");
        if kind.is_dir() && !is_left_out {
            walk(&path, found)?;
        } else if kind.is_file() && path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

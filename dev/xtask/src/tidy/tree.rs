//! The files of the repository in memory, so that every check reads them once and tests can make
//! them up.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use ignore::WalkBuilder;

/// Files by their path from the root, with `/` between the parts.
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
    /// The code of Rust files.
    code: BTreeMap<String, String>,
}

impl Tree {
    /// Reads all files that git would track, including hidden ones, and those that links lead to.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        let walk = WalkBuilder::new(root)
            .hidden(false)
            .parents(false)
            .require_git(false)
            .filter_entry(|entry| entry.file_name() != ".git")
            .build();
        for entry in walk {
            let entry = entry.map_err(io::Error::other)?;
            if entry.path().is_file() {
                let path = entry.path().strip_prefix(root).map_err(io::Error::other)?;
                let text = String::from_utf8_lossy(&fs::read(entry.path())?).into_owned();
                files.insert(path.to_string_lossy().into_owned(), text);
            }
        }
        Ok(Self::new(files))
    }

    pub(crate) fn new(files: BTreeMap<String, String>) -> Self {
        let rust = files.iter().filter(|(path, _)| path.ends_with(".rs"));
        let code = rust.map(|(path, text)| (path.clone(), code_of(text)));
        let code = code.collect();
        Self { files, code }
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (&**path, &**text))
    }

    /// Returns the Rust files with their code: without comments and a module of tests at the end.
    pub(crate) fn code(&self) -> impl Iterator<Item = (&str, &str)> {
        self.code.iter().map(|(path, text)| (&**path, &**text))
    }

    /// Returns the text of a file; empty if it does not exist.
    pub(crate) fn text(&self, path: &str) -> &str {
        self.files.get(path).map_or("", String::as_str)
    }

    /// Returns true if `path` is a file, or a folder with a file in it.
    pub(crate) fn exists(&self, path: &str) -> bool {
        let inside = |file: &String| {
            file.strip_prefix(path)
                .is_some_and(|rest| rest.starts_with('/'))
        };
        path.is_empty() || self.files.contains_key(path) || self.files.keys().any(inside)
    }
}

/// Returns the code of a Rust file, with each piece on its line.
fn code_of(text: &str) -> String {
    let before = text.split("\nmod tests {").next().unwrap_or_default();
    let lines = match before.rsplit_once("\n#[cfg(test)]") {
        Some((code, _)) if before.len() < text.len() => code.lines(),
        _ => before.lines(),
    };
    // A string with `//` in it loses its end, which no check reads.
    let lines = lines.map(|line| line.split("//").next().unwrap_or_default().trim_end());
    lines.fold(String::new(), |code, line| code + line + "\n")
}

/// Returns the number of the line that contains `offset`.
pub(crate) fn line_at(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// Returns the names and words of a text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|part: char| !part.is_alphanumeric() && part != '_');
    words.filter(|word| !word.is_empty())
}

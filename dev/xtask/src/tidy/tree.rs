//! The files of the repository in memory, so that every check reads them once and tests can make
//! them up.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use ignore::WalkBuilder;

use super::source::Source;

/// Files by their path from the root, with `/` between the parts.
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
    sources: BTreeMap<String, Source>,
}

impl Tree {
    /// Reads all files that git would track, including hidden ones, and those that links lead to.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
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
                files.push((path.to_string_lossy().into_owned(), text));
            }
        }
        Ok(Self::new(
            files
                .iter()
                .map(|(path, text)| (path.as_str(), text.as_str())),
        ))
    }

    /// Creates a tree; a later file replaces an earlier one with the same path.
    pub(crate) fn new<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let files: BTreeMap<_, _> = files
            .map(|(path, text)| (path.to_owned(), text.to_owned()))
            .collect();
        let rust = files.iter().filter(|(path, _)| path.ends_with(".rs"));
        let sources = rust
            .map(|(path, text)| (path.clone(), Source::new(text)))
            .collect();
        Self { files, sources }
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = (&str, &Source)> {
        self.sources
            .iter()
            .map(|(path, source)| (path.as_str(), source))
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

/// Returns the number of the line that contains `offset`.
pub(crate) fn line_at(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

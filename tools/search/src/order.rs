//! Walking in the order of the paths, for output in that order.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use crate::directory::{Directory, FileEntry, Root};
use crate::plan::is_stdin;
use crate::readers::READERS_PER_WORKER_MAX;
use crate::search::Search;
use crate::task::{Target, Task};

/// Maximum number of files that are searched while an earlier one is: their results wait in memory.
const AHEAD_MAX: u64 = 4 * READERS_PER_WORKER_MAX as u64;

/// An entry that is still to be walked.
enum Entry {
    File(FileEntry),
    Directory(OsString, Directory),
}

impl Entry {
    fn name(&self) -> &OsStr {
        match self {
            Entry::File(file) => &file.name,
            Entry::Directory(name, _) => name,
        }
    }
}

/// Calls `add` for each file in the order of the paths, as fast as their results are printed.
pub(crate) fn walk(search: &Search<'_>, roots: &[Arc<Root>], mut add: impl FnMut(Task)) {
    let mut position = 0;
    let mut emit = |target| {
        search.output.wait_for_room(position, AHEAD_MAX);
        add(Task::new(target, Some(position)));
        position += 1;
    };
    for root in roots {
        if is_stdin(&root.path) || !root.path.is_dir() {
            emit(Target::Named(Arc::clone(root)));
            continue;
        }
        // What is left of each directory on the way, last entry first.
        let mut left = vec![list(search, Directory::of(root))];
        while let Some(entries) = left.last_mut() {
            if search.is_over() {
                return;
            }
            match entries.pop() {
                None => drop(left.pop()),
                Some(Entry::File(file)) => emit(Target::Found(file)),
                Some(Entry::Directory(_, directory)) => left.push(list(search, directory)),
            }
        }
    }
}

/// Returns the entries of a directory in the reverse order of their names.
fn list(search: &Search<'_>, directory: Directory) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut rest = Some(directory);
    while let Some(directory) = rest {
        let part = search.list(directory);
        entries.extend(part.files.into_iter().map(Entry::File));
        entries.extend(part.directories.into_iter().map(|directory| {
            let name = directory.path.file_name().unwrap_or_default().to_owned();
            Entry::Directory(name, directory)
        }));
        rest = part.rest;
    }
    entries.sort_by(|one, other| other.name().cmp(one.name()));
    entries
}

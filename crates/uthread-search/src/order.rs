//! Walking in the order of the paths or of times, for output in that order.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use crate::directory::{Directory, FileEntry};
use crate::options::Sort;
use crate::plan::{Order, is_stdin};
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

/// Calls `add` for each file in this order, as fast as their results are printed.
pub(crate) fn walk(search: &Search<'_>, order: Order, mut add: impl FnMut(Task)) {
    let mut position = 0;
    let mut emit = |target| {
        search.output.wait_for_room(position, AHEAD_MAX);
        add(Task::new(target, Some(position)));
        position += 1;
    };
    if order.by == Sort::Path && !order.is_reversed {
        return walk_paths(search, emit);
    }
    let mut targets = Vec::new();
    walk_paths(search, |target| targets.push(target));
    // Files of which nothing is known come last.
    let (mut known, unknown) = uthread::blocking(|| {
        let keyed = targets
            .into_iter()
            .map(|target| (key(&target, order.by), target));
        keyed.partition::<Vec<_>, _>(|(key, _)| *key != Key::Unknown)
    });
    known.sort_by(|(one, _), (other, _)| {
        if order.is_reversed {
            other.cmp(one)
        } else {
            one.cmp(other)
        }
    });
    let (first, last) = if order.is_reversed {
        (unknown, known)
    } else {
        (known, unknown)
    };
    for (_, target) in first.into_iter().chain(last) {
        if search.is_over() {
            return;
        }
        emit(target);
    }
}

/// By what a file is sorted.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Path(PathBuf),
    Time(SystemTime),
    Unknown,
}

fn key(target: &Target, by: Sort) -> Key {
    let path = match target {
        Target::Found(file) => file.path(),
        Target::Named(root) => root.path.clone(),
    };
    if by == Sort::Path {
        return Key::Path(path);
    }
    let time = path.metadata().and_then(|metadata| match by {
        Sort::Accessed => metadata.accessed(),
        Sort::Created => metadata.created(),
        _ => metadata.modified(),
    });
    time.map_or(Key::Unknown, Key::Time)
}

/// Calls `emit` for each file in the order of the paths.
fn walk_paths(search: &Search<'_>, mut emit: impl FnMut(Target)) {
    for root in &search.roots {
        if is_stdin(&root.path) || !root.path.is_dir() {
            emit(Target::Named(Arc::clone(root)));
            continue;
        }
        // The entries that are left of each directory on the way, last one first.
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

//! Which entries of a directory are searched: ignore files, globs, types, hidden files.
//!
//! Looking for ignore files takes seven system calls for each directory, which resolve its path
//! each time. So it is left out for *plain* directories: those that no ignore file can have a rule
//! for, as neither they nor the directories above have one, apart from `.gitignore` outside a
//! repository.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use ignore::gitignore::GitignoreBuilder;
use ignore::{IncrementalIgnore, WalkBuilder};
use rustix::fs::{AtFlags, CWD, statat};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::plan::Selection;

/// Entries of a directory that have rules, or make those of git hold.
const WITH_RULES: [&str; 4] = [".git", ".jj", ".ignore", ".rgignore"];
/// An entry that has no rules outside a repository, but errors in it are reported.
const OF_GIT: &str = ".gitignore";

/// The selection for one of the paths that the user names. A matcher collects the ignore files of
/// the directories it has seen and serves one caller at a time, so there are as many as callers.
pub(crate) struct Filter {
    /// `None` if every file is searched. Of a plain path, it is set for the first directory beneath
    /// it that is not plain.
    fresh: OnceLock<Option<IncrementalIgnore>>,
    idle: Mutex<Vec<IncrementalIgnore>>,
    /// `true` if the path is a plain directory, apart from what it contains.
    pub(crate) is_plain: bool,
    path: PathBuf,
    selection: Selection,
}

impl Filter {
    /// Returns the filters of these paths, and the errors in ignore files that the user names.
    pub(crate) fn of_each(
        paths: &[PathBuf],
        selection: &Selection,
    ) -> (Vec<Filter>, Vec<ignore::Error>) {
        // Files that the user names are searched in any case. Reading the configuration of git
        // takes a third of the instructions of a search in one.
        let is_selective = !selection.is_everything()
            && (paths.iter().any(|path| path.is_dir()) || !selection.ignore.named.is_empty());
        let is_plain = is_selective
            && selection.has_only_found_rules()
            && paths.iter().all(|path| is_plain_place(path));
        let (matchers, errors) = if is_selective && !is_plain {
            matchers(paths, selection)
        } else {
            (Vec::new(), Vec::new())
        };
        let mut matchers = matchers.into_iter();
        let filter = |path: &PathBuf| Filter {
            fresh: if is_plain {
                OnceLock::new()
            } else {
                OnceLock::from(matchers.next())
            },
            idle: Mutex::default(),
            is_plain,
            path: path.clone(),
            selection: selection.clone(),
        };
        (paths.iter().map(filter).collect(), errors)
    }

    /// Calls `select` with a test of paths relative to the one that the user names, which returns
    /// `true` for what is searched. Also returns the errors in ignore files that were read
    /// meanwhile. The paths are in one directory, plain or not.
    pub(crate) fn with<R>(
        &self,
        is_plain: bool,
        select: impl FnOnce(&mut dyn FnMut(&Path, bool) -> bool) -> R,
    ) -> (R, Vec<ignore::Error>) {
        if is_plain {
            let hidden = self.selection.hidden;
            return (
                select(&mut |path, _| hidden || !is_hidden(path)),
                Vec::new(),
            );
        }
        let build = || {
            let (matchers, _) = matchers(std::slice::from_ref(&self.path), &self.selection);
            matchers.into_iter().next()
        };
        let Some(fresh) = self.fresh.get_or_init(build) else {
            return (select(&mut |_, _| true), Vec::new());
        };
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut matcher = idle().pop().unwrap_or_else(|| fresh.clone());
        let mut errors = Vec::new();
        let result = select(&mut |path, is_directory| {
            let (matched, error) = matcher.matched_with_errors(path, is_directory);
            errors.extend(error);
            if is_directory {
                matched.should_descend()
            } else {
                !matched.is_ignore()
            }
        });
        idle().push(matcher);
        (result, errors)
    }
}

/// Returns `true` if a directory outside a repository may have rules for what it contains.
/// `contains` tells which entries it may have.
pub(crate) fn has_rules(directory: &Path, mut contains: impl FnMut(&str) -> bool) -> bool {
    WITH_RULES.iter().any(|name| contains(name))
        || contains(OF_GIT) && has_errors(&directory.join(OF_GIT))
}

/// Returns `true` if an ignore file cannot be read, or has a wrong glob.
fn has_errors(file: &Path) -> bool {
    GitignoreBuilder::new("").add(file).is_some()
}

/// Returns `true` if no directory above the path may have rules.
fn is_plain_place(path: &Path) -> bool {
    let Ok(path) = fs::canonicalize(path) else {
        // Nothing is found there.
        return true;
    };
    let has_rules = |place: &Path| has_rules(place, |name| may_exist(CWD, place.join(name)));
    !path.ancestors().skip(1).any(has_rules)
}

/// Returns `false` if the directory has no entry at this path.
pub(crate) fn may_exist(directory: impl AsFd, path: impl Arg) -> bool {
    statat(directory, path, AtFlags::SYMLINK_NOFOLLOW).err() != Some(Errno::NOENT)
}

fn is_hidden(path: &Path) -> bool {
    let name = path.file_name();
    name.is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// Returns the matchers of these paths, and the errors in ignore files that the user names.
fn matchers(
    paths: &[PathBuf],
    selection: &Selection,
) -> (Vec<IncrementalIgnore>, Vec<ignore::Error>) {
    let [first, others @ ..] = paths else {
        return (Vec::new(), Vec::new());
    };
    let mut builder = WalkBuilder::new(first);
    for path in others {
        builder.add(path);
    }
    let reads = &selection.ignore;
    builder
        .current_dir(&selection.current)
        .follow_links(selection.follow)
        .max_depth(selection.max_depth)
        .max_filesize(selection.max_filesize)
        .overrides(selection.globs.clone())
        .types(selection.types.clone())
        .hidden(!selection.hidden)
        .parents(reads.parent)
        .ignore(reads.dot)
        .git_global(reads.global)
        .git_ignore(reads.vcs)
        .git_exclude(reads.exclude)
        .require_git(!reads.outside_git)
        .ignore_case_insensitive(reads.ignores_case);
    if reads.dot {
        builder.add_custom_ignore_filename(".rgignore");
    }
    let named = reads.named.iter();
    let errors = named.filter_map(|path| builder.add_ignore(path)).collect();
    (builder.build_matchers(), errors)
}

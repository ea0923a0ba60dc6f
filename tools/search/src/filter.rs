//! Which entries of a directory are searched: ignore files, globs, types, hidden files.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ignore::{IncrementalIgnore, WalkBuilder};

use crate::plan::Selection;

/// The selection for one of the paths that the user names. A matcher collects the ignore files of the directories it has seen and
/// serves one caller at a time, so there are as many as callers.
pub(crate) struct Filter {
    /// `None` if every file is searched.
    fresh: Option<IncrementalIgnore>,
    idle: Mutex<Vec<IncrementalIgnore>>,
}

impl Filter {
    /// Returns the filters of these paths, and the errors in ignore files that the user names.
    pub(crate) fn of_each(
        paths: &[impl AsRef<Path>],
        selection: &Selection,
    ) -> (Vec<Filter>, Vec<ignore::Error>) {
        let mut matchers = Vec::new();
        let mut errors = Vec::new();
        // Files that the user names are searched in any case. Reading the configuration of git takes a third of the instructions of a
        // search in one.
        let is_selective = !selection.is_everything()
            && (paths.iter().any(|path| path.as_ref().is_dir())
                || !selection.ignore.named.is_empty());
        if let [first, others @ ..] = paths
            && is_selective
        {
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
            errors.extend(named.filter_map(|path| builder.add_ignore(path)));
            matchers = builder.build_matchers();
        }
        let mut matchers = matchers.into_iter();
        let filter = |_| Filter {
            fresh: matchers.next(),
            idle: Mutex::default(),
        };
        (paths.iter().map(filter).collect(), errors)
    }

    /// Calls `select` with a test of paths relative to the one that the user names, which returns `true` for what is searched. Also
    /// returns the errors in ignore files that were read meanwhile.
    pub(crate) fn with<R>(
        &self,
        select: impl FnOnce(&mut dyn FnMut(&Path, bool) -> bool) -> R,
    ) -> (R, Vec<ignore::Error>) {
        let Some(fresh) = &self.fresh else {
            return (select(&mut |_, _| true), Vec::new());
        };
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut matcher = idle().pop().unwrap_or_else(|| fresh.clone());
        let mut errors = Vec::new();
        let result = select(&mut |path, is_directory| {
            let (matched, error) = matcher.matched_with_errors(path, is_directory);
            errors.extend(error);
            match is_directory {
                true => matched.should_descend(),
                false => !matched.is_ignore(),
            }
        });
        idle().push(matcher);
        (result, errors)
    }
}

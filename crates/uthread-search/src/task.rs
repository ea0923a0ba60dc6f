//! A file to be searched, by whichever reader takes it.

use std::sync::Arc;

use crate::directory::{FileEntry, Root};

/// A file to be searched.
pub(crate) struct Task {
    pub(crate) target: Target,
    /// The place of its result in the output, if that is ordered.
    pub(crate) position: Option<u64>,
}

impl Task {
    pub(crate) fn new(target: Target, position: Option<u64>) -> Task {
        Task { target, position }
    }

    /// Returns `true` for a pipe and whatever else may never end.
    pub(crate) fn is_endless(&self) -> bool {
        matches!(&self.target, Target::Named(root) if root.is_endless)
    }
}

pub(crate) enum Target {
    Found(FileEntry),
    /// A path that the user names.
    Named(Arc<Root>),
}

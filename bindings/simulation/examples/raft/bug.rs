//! Mistakes that a node can be told to make. Each is one `if` where a program would make it.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// The vote of a term is not on the disk: after a restart, a node votes again.
    LostVote,
    /// A leader answers a read without asking whether it still leads.
    StaleRead,
    /// A node answers before what it promises is on its disk.
    UnsyncedLog,
    /// A leader goes on when a follower replies that there is a newer term.
    SplitBrain,
    /// A request that a client repeats is applied again.
    RepeatedRetry,
}

impl Bug {
    pub(crate) const ALL: [Bug; 5] = [
        Bug::LostVote,
        Bug::StaleRead,
        Bug::UnsyncedLog,
        Bug::SplitBrain,
        Bug::RepeatedRetry,
    ];
}

/// Returns no bug, and each.
pub(crate) fn variants() -> impl Iterator<Item = Option<Bug>> {
    [None].into_iter().chain(Bug::ALL.map(Some))
}

pub(crate) fn name(bug: Option<Bug>) -> String {
    bug.map_or("no bug".to_owned(), |bug| bug.to_string())
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Bug::LostVote => "a vote lost after a restart",
            Bug::StaleRead => "a stale read",
            Bug::UnsyncedLog => "a log that is not synced",
            Bug::SplitBrain => "a leader that does not step down",
            Bug::RepeatedRetry => "a retry that applies twice",
        })
    }
}

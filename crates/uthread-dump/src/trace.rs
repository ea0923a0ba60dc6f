//! What the workers of a process have done.

mod chrome;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use uthread::root::{EventKind, Leave};

/// What the workers of a process have done for some time.
#[derive(Debug)]
pub struct Trace {
    /// The id of the process.
    pub pid: i32,
    /// When the trace began, by `CLOCK_MONOTONIC`.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// The workers.
    pub workers: Vec<TracedWorker>,
    /// The places where fibers were spawned, by what events have for it.
    pub places: HashMap<u64, String>,
    /// The names of fibers, by id, of those that have one and have not ended.
    pub names: HashMap<u64, String>,
}

/// What a worker has done.
#[derive(Debug)]
pub struct TracedWorker {
    /// A number that tells runtimes apart.
    pub runtime: u64,
    /// Its index in its runtime.
    pub index: u64,
    /// What it has done, by the times of the ends.
    pub events: Vec<Event>,
    /// The gaps, where events were overwritten before they were read: the index of the first event
    /// after it, and the number of those that are lost.
    pub gaps: Vec<(usize, u64)>,
}

/// An event of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// What has happened.
    pub kind: EventKind,
    /// Why a fiber has stopped to run.
    pub leave: Option<Leave>,
    /// When it began, by `CLOCK_MONOTONIC`.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// The id of the fiber, or 0.
    pub fiber: u64,
    /// The other fiber or the number that the [kind](EventKind) describes, or 0.
    pub other: u64,
    /// The key of the place where the fiber was spawned in [`Trace::places`], or 0.
    pub place: u64,
}

impl Trace {
    /// Returns the number of events.
    #[must_use]
    pub fn events(&self) -> usize {
        self.workers.iter().map(|worker| worker.events.len()).sum()
    }

    /// Returns the number of events that were overwritten before they were read.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let gaps = self.workers.iter().flat_map(|worker| &worker.gaps);
        gaps.map(|(_, lost)| lost).sum()
    }
}

//! How many readers run, and on which workers.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::ThreadId;

use grep_regex::RegexMatcher;

/// Number of readers that a worker runs while files are in memory: one searches while the other
/// waits to print. Each more has a page of its own, which is in no cache when its turn comes.
const READERS_PER_WORKER: usize = 2;
/// Maximum number of readers that a worker runs, and so of files in flight: enough to keep a disk
/// busy.
pub(crate) const READERS_PER_WORKER_MAX: usize = 64;

/// The readers that run.
pub(crate) struct Readers {
    count: usize,
    /// Grows up to `limit`.
    count_max: usize,
    /// [`READERS_PER_WORKER_MAX`] for each worker, or fewer if they could not open their files.
    limit: usize,
    on_worker: HashMap<ThreadId, (usize, Arc<RegexMatcher>)>,
    /// A matcher has memory for one search at a time that it reaches without a lock, on the thread
    /// that has first used it. So each worker has its own.
    matcher: Option<RegexMatcher>,
    started: u64,
}

impl Readers {
    /// Returns the count for a search that has not begun, by this number of workers and at most
    /// `limit` readers.
    pub(crate) fn new(workers: usize, limit: usize, matcher: Option<RegexMatcher>) -> Readers {
        Readers {
            count: 0,
            count_max: limit.min(READERS_PER_WORKER * workers),
            limit,
            on_worker: HashMap::new(),
            matcher,
            started: 0,
        }
    }

    /// Adds a reader, and returns `true`, unless there are as many as there may be.
    pub(crate) fn add(&mut self) -> bool {
        let has_room = self.count < self.count_max;
        self.count += usize::from(has_room);
        has_room
    }

    /// Makes room for another reader, and returns `true`, unless that would be too many.
    pub(crate) fn grow(&mut self) -> bool {
        let may_grow = self.count_max < self.limit;
        self.count_max += usize::from(may_grow);
        may_grow
    }

    /// Returns the number and the matcher of an added reader that starts on this one of `workers`.
    /// Removes the reader, and returns `None`, if the worker has enough.
    pub(crate) fn start_on(
        &mut self,
        worker: ThreadId,
        workers: usize,
    ) -> Option<(u64, Arc<RegexMatcher>)> {
        let most = self.count_max.div_ceil(workers);
        let unused = || (0, new_matcher(&self.matcher));
        let (here, matcher) = self.on_worker.entry(worker).or_insert_with(unused);
        if *here >= most {
            self.count -= 1;
            return None;
        }
        *here += 1;
        self.started += 1;
        Some((self.started, Arc::clone(matcher)))
    }

    /// Returns the number and the matcher of a reader that starts beside those that are counted.
    pub(crate) fn start(&mut self) -> (u64, Arc<RegexMatcher>) {
        self.started += 1;
        (self.started, new_matcher(&self.matcher))
    }
}

fn new_matcher(matcher: &Option<RegexMatcher>) -> Arc<RegexMatcher> {
    match matcher {
        Some(matcher) => Arc::new(matcher.clone()),
        None => unreachable!("no reader starts without a matcher"),
    }
}

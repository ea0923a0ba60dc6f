//! The descriptors of a search: bounded by what the process may still open, so that no file is
//! skipped for want of one.
//!
//! ```text
//!   the limit of the process
//!     in use          before the search, and by the workers
//!     SPARE           for what the workers open later
//!     PER_READER      for each reader, which bounds their number; so none waits for a descriptor while it has others
//!     the rest        for directories that stay open until their queued files have been read; others are opened again
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::ensure;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The descriptors of a reader: a directory, a file or an ignore file in it, and a file whose
/// reading ahead has not ended yet.
const PER_READER: usize = 3;
/// The descriptors of a worker: those of a ring, its eventfd and its epoll instance.
const PER_WORKER: usize = 4;
/// Left for what the workers open while they run.
const SPARE: usize = 4;

/// Raises the limit of open files as far as the process may, and returns it. The default is low for
/// the sake of programs that call `select(2)`, and workers and readers are bounded by it.
pub(crate) fn raise_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    current.map_or(usize::MAX, |count| {
        usize::try_from(count).unwrap_or(usize::MAX)
    })
}

/// Returns the number of workers, at most `wanted`, that leave enough for two readers.
pub(crate) fn workers(limit: usize, wanted: usize) -> usize {
    let left = limit.saturating_sub(in_use().unwrap_or(0) + SPARE + 2 * PER_READER);
    (left / PER_WORKER).clamp(1, wanted)
}

/// Returns `true` if an error is due to too many open files of this process or of all.
pub(crate) fn is_shortage(error: &std::io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE)
    )
}

/// The shares of the descriptors that are left once the workers run.
pub(crate) struct Descriptors {
    pub(crate) readers_max: usize,
    /// Number of directories that may still be kept open. Relaxed: nothing else depends on it.
    free: Arc<AtomicUsize>,
}

/// The right to keep a directory open.
pub(crate) struct DirectoryPermit(Arc<AtomicUsize>);

impl Descriptors {
    /// Divides what is left between at most `wanted` readers, `others` that need as much as a
    /// reader, and directories.
    ///
    /// # Errors
    ///
    /// Not enough is left for one reader.
    pub(crate) fn new(
        limit: usize,
        workers: usize,
        wanted: usize,
        others: usize,
    ) -> anyhow::Result<Descriptors> {
        let in_use = in_use().unwrap_or(workers * PER_WORKER);
        let left = limit.saturating_sub(in_use + SPARE);
        let needed = PER_READER * (1 + others);
        ensure!(
            left >= needed,
            "Too many open files: raise the limit by `ulimit -n {}`, as only {left} are left of {limit}",
            in_use + SPARE + needed
        );
        let half = left / 2 / PER_READER;
        let readers_max = half.saturating_sub(others).clamp(1, wanted);
        let kept = left - PER_READER * (readers_max + others);
        Ok(Descriptors {
            readers_max,
            free: Arc::new(AtomicUsize::new(kept)),
        })
    }

    /// Returns the right to keep one more directory open, unless there are enough.
    pub(crate) fn keep(&self) -> Option<DirectoryPermit> {
        let less = |free: usize| free.checked_sub(1);
        let taken = self
            .free
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken
            .is_ok()
            .then(|| DirectoryPermit(Arc::clone(&self.free)))
    }
}

impl Drop for DirectoryPermit {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns the number of open descriptors, or `None` if it is unknown.
fn in_use() -> Option<usize> {
    // One of them is that of the list.
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count() - 1)
}

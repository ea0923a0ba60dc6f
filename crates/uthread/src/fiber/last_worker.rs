//! The worker whose driver may hold a fiber's operation, so that a canceller finds the operation.
//!
//! ```text
//!   the fiber                                 the canceller
//!     stores its worker      (set)              records that the wait is over   (Limits, Region)
//!     checks whether it may wait                loads the fiber's worker        (get)
//!     starts its operation                      asks that worker to cancel the operation
//! ```
//!
//! Both modify the same word, so one of them comes second: either the fiber, which then sees that
//! it may not wait; or the canceller, which finds the worker. The worker stays stored after the
//! operation: the fiber stores nothing anew, and the worker that gets the request may find no
//! operation.

use crate::atomic::{AtomicU32, Ordering};

/// The value before the first operation.
const NONE: u32 = u32::MAX;

pub(crate) struct LastWorker(AtomicU32);

impl Default for LastWorker {
    fn default() -> LastWorker {
        LastWorker::new()
    }
}

impl LastWorker {
    pub(crate) fn new() -> LastWorker {
        LastWorker(AtomicU32::new(NONE))
    }

    /// Stores the worker. Called by the fiber before it checks whether it may start an operation
    /// there.
    pub(crate) fn set(&self, worker: u32) {
        // Relaxed: the fiber wrote it itself. If nothing changes, the worker's inbox orders the
        // two: it is not emptied between the check and the operation.
        if self.0.load(Ordering::Relaxed) != worker {
            // AcqRel pairs with the one in `get`, either way.
            self.0.swap(worker, Ordering::AcqRel);
        }
    }

    /// Returns the worker that may hold the fiber's operation, if there was one yet. Called after
    /// the end of the fiber's wait was recorded.
    pub(crate) fn get(&self) -> Option<u32> {
        // A change that changes nothing: AcqRel pairs with the one in `set`, either way.
        let worker = self.0.fetch_or(0, Ordering::AcqRel);
        (worker != NONE).then_some(worker)
    }
}

//! Which worker's driver has a fiber's operation, so that whoever cancels the fiber can turn to it.
//!
//! ```text
//!   the fiber                                 whoever ends its wait
//!     says where it is       (move_to)          says what has ended     (Limits, Region)
//!     looks whether it may wait                 asks where the fiber is (find)
//!     hands its operation over                  writes to that worker, which looks after the operation
//! ```
//!
//! Both change the same word, so one of them comes second: the fiber, which then sees that it may not wait;
//! or the other, which finds the place. The place stays noted after the operation: while the fiber does
//! not move, it says nothing anew, and the worker that gets the message may find no operation.

use crate::atomic::{AtomicU32, Ordering};

/// Before the first operation.
const NOWHERE: u32 = u32::MAX;

pub(crate) struct Whereabouts(AtomicU32);

impl Whereabouts {
    pub(crate) fn new() -> Whereabouts {
        Whereabouts(AtomicU32::new(NOWHERE))
    }

    /// Called by the fiber before it looks whether it may hand an operation to this worker's driver.
    #[inline(always)]
    pub(crate) fn move_to(&self, worker: u32) {
        // Relaxed: the fiber wrote it itself. Where nothing changes the worker's mailbox orders the two: it
        // is not emptied between the look and the operation.
        if self.0.load(Ordering::Relaxed) != worker {
            // AcqRel pairs with the one in `find`, either way.
            self.0.swap(worker, Ordering::AcqRel);
        }
    }

    /// The worker that may have the fiber's operation, if there was one yet. Called after the end of the
    /// fiber's wait was noted.
    pub(crate) fn find(&self) -> Option<u32> {
        // A change that changes nothing: AcqRel pairs with the one in `move_to`, either way.
        let worker = self.0.fetch_or(0, Ordering::AcqRel);
        (worker != NOWHERE).then_some(worker)
    }
}

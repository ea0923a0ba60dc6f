//! Gives back the parts of stacks that waiting fibers do not use.
//!
//! A fiber that has once called deep functions keeps the pages that they touched, although it may
//! wait for an hour in a shallow one. The monitor sends [`Mail::Trim`] to a worker about once per
//! second. The worker then visits its suspended fibers, and discards the pages below the frames of
//! each that has not run since the previous visit. A fiber that is never suspended for that long
//! pays nothing but the two instructions by which each suspension finds an address below its
//! frames.

use super::Worker;
use crate::sched::shared::Mail;

/// Maximum number of fibers visited before the worker looks at its other work.
const VISITED_MAX: usize = 128;

/// Maximum number of stacks trimmed before the worker looks at its other work.
const TRIMMED_MAX: usize = 32;

impl Worker {
    /// Trims stacks of fibers from index `first` on. The rest follows in later iterations of the
    /// loop.
    #[cold]
    #[allow(unsafe_code, reason = "discarding what no suspended fiber uses")]
    pub(super) fn trim_stacks(&self, first: usize) {
        let mut unused = Vec::with_capacity(TRIMMED_MAX);
        let reactor = self.io.reactor.borrow();
        let is_quiescent = reactor.has_nothing_to_come();
        self.queues.remote.record_quiescence(is_quiescent);
        let fibers = reactor.fibers();
        let mut next = first;
        while next < fibers.len().min(first + VISITED_MAX) && unused.len() < TRIMMED_MAX {
            let fiber = fibers[next].control();
            if !fiber.runs_alone() {
                // SAFETY: the caller is the loop, so no other fiber of this worker runs.
                let pages = unsafe { fiber.unused_stack() };
                unused.extend(pages.filter(|pages| !pages.is_empty()));
            }
            next += 1;
        }
        // SAFETY: none of these fibers is resumed meanwhile.
        unsafe { self.queues.shared.stacks.trim(&unused) };
        if next < fibers.len() {
            self.queues.remote.inbox().put(Mail::Trim(next));
        }
    }
}

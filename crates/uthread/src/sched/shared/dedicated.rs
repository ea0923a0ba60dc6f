//! The dedicated fibers of a runtime, each of which runs on a thread of its own beside the workers.
//!
//! ```text
//!   shut down   they are cancelled with the other fibers
//!   abandon     each stops in its next wait; its joiner waits until no worker and no dedicated fiber runs
//!   spawn       of an ordinary fiber: queued for the workers. The last worker that ends refuses those that come too late.
//! ```
//!
//! While a dedicated fiber lives, a fiber of the workers waits for it: its *keeper*
//! (`features::dedicated`). So a runtime that is joined, or has shut down, waits for dedicated
//! fibers without another rule.

use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::Shared;
use super::abandonment::Abandonment;
use crate::fiber::{Cancelled, FiberRef, Outcome};
use crate::priorities::Priority;

/// The dedicated fibers of one runtime. A trait, as fibers that are threads are a floor above.
pub(in crate::sched) trait DedicatedFibers: Send + Sync {
    /// Starts a fiber on a thread with a stack of `stack_size` bytes. Abandons the fiber on an
    /// error.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if the system has no thread or no memory for it; any other error
    /// `pthread_create(3)` reports.
    fn spawn(
        self: Arc<Self>,
        fiber: FiberRef,
        stack_size: usize,
        membership: Membership,
    ) -> io::Result<()>;

    /// Cancels the fibers, and those that are spawned later.
    fn cancel(self: Arc<Self>);

    /// Cancels the fibers, and stops each in its next wait.
    fn abandon(self: Arc<Self>, abandonment: Abandonment);

    /// Cancels the fibers and waits until they have ended.
    fn end(self: Arc<Self>);

    /// Returns `true` if all fibers have ended.
    fn is_empty(&self) -> bool;

    /// Returns the number of waits so far if all fibers wait for wake-ups. While it stays the same,
    /// none makes progress.
    fn count_if_still(&self) -> Option<u64>;
}

/// A dedicated fiber's place in its runtime. Completes `ended` when it is dropped, after the
/// fiber's end.
pub(in crate::sched) struct Membership {
    pub(in crate::sched) runtime: Arc<Shared>,
    pub(in crate::sched) ended: Arc<Outcome<()>>,
    /// The id of its thread, for a debugger; zero before that has begun.
    pub(in crate::sched) thread: Arc<AtomicU32>,
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.ended.complete(());
    }
}

impl Shared {
    /// Returns the dedicated fibers. The first caller makes what holds them.
    pub(in crate::sched) fn dedicated_or_init(
        &self,
        make: impl FnOnce() -> Arc<dyn DedicatedFibers>,
    ) -> &Arc<dyn DedicatedFibers> {
        let dedicated = self.dedicated.get_or_init(make);
        // Pairs with the fences in `shut_down` and `abandon`, which may have missed the value.
        fence(Ordering::SeqCst);
        if self.is_shut_down() {
            Arc::clone(dedicated).cancel();
        }
        if self.is_abandoned() {
            Arc::clone(dedicated).abandon(self.abandonment());
        }
        dedicated
    }

    /// Cancels the dedicated fibers, if there are any.
    pub(super) fn cancel_dedicated(&self) {
        if let Some(dedicated) = self.dedicated.get() {
            Arc::clone(dedicated).cancel();
        }
    }

    /// Abandons the dedicated fibers, if there are any.
    pub(super) fn abandon_dedicated(&self, abandonment: Abandonment) {
        if let Some(dedicated) = self.dedicated.get() {
            Arc::clone(dedicated).abandon(abandonment);
        }
    }

    /// Waits for dedicated fibers whose keepers never started, after the workers have ended.
    pub(crate) fn end_dedicated(&self) {
        if let Some(dedicated) = self.dedicated.get() {
            Arc::clone(dedicated).end();
        }
    }

    /// Returns `true` if each dedicated fiber waits for a wake-up.
    pub(super) fn all_dedicated_wait(&self) -> bool {
        let dedicated = self.dedicated.get();
        dedicated.is_none_or(|dedicated| dedicated.count_if_still().is_some())
    }

    /// Returns the number of switches to fibers and of waits of dedicated ones. While it does not
    /// change, the runtime makes no progress, unless a dedicated fiber runs.
    pub(in crate::sched) fn progress(&self) -> u64 {
        let dedicated = self.dedicated.get();
        let waits = dedicated.and_then(|dedicated| dedicated.count_if_still());
        self.switches().wrapping_add(waits.unwrap_or(0))
    }

    /// Queues a new fiber from a thread that does not keep the workers from ending.
    pub(in crate::sched) fn inject_late(&self, fiber: FiberRef) {
        self.inject(fiber);
        // Pairs with the fence in `refuse_late`: the last worker sees the fiber, or this sees that
        // the worker has ended.
        fence(Ordering::SeqCst);
        if self.all_workers_ended() {
            self.refuse_late();
            self.complete_abandoned();
        }
    }

    /// Ends the new fibers that no worker will start. Called after the last worker was counted as
    /// ended.
    pub(super) fn refuse_late(&self) {
        fence(Ordering::SeqCst);
        let take_prioritized = || {
            let queues = self.prioritized()?;
            let mut priorities = [Priority::Urgent, Priority::Background].into_iter();
            priorities.find_map(|priority| queues.take_new(priority))
        };
        while let Some(fiber) = self.take_injected().or_else(take_prioritized) {
            if self.is_abandoned() {
                self.keep_abandoned(fiber);
            } else {
                fiber.abandon(Box::new(Cancelled));
            }
        }
    }

    /// Completes the abandoned fibers for their joiners if no worker and no dedicated fiber is
    /// left: nothing uses any more what they have lent or borrowed. The fibers are leaked with
    /// their stacks. Called when the last worker has ended, and when no dedicated fiber is left;
    /// the later of the two sees both.
    pub(in crate::sched) fn complete_abandoned(&self) {
        let dedicated = self.dedicated.get();
        if !self.all_workers_ended() || dedicated.is_some_and(|dedicated| !dedicated.is_empty()) {
            return;
        }
        for fiber in self.life.take_abandoned() {
            fiber.give_up();
            mem::forget(fiber);
        }
    }

    fn all_workers_ended(&self) -> bool {
        self.life.ended_workers() == self.workers()
    }
}

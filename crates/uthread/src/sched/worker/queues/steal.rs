//! Taking fibers from others into the queues of a worker: new ones and, if fibers migrate, ready
//! ones.

use super::Queues;
use crate::fiber::{FiberRef, Started};
use crate::sched::shared::Remote;

impl Queues {
    /// Takes fibers that were woken from outside the workers.
    pub(in crate::sched) fn take_in_woken(&self) {
        if let Some(queue) = self.ready.stealable_queue()
            && let Some(fiber) = self.shared.take_woken(queue)
        {
            self.ready.push(fiber);
        }
    }

    /// Takes a new fiber from outside the workers.
    pub(in crate::sched) fn take_in_injected(&self) {
        if let Some(fiber) = self.shared.take_injected() {
            self.remote.counters.injected.add(1);
            // The worker that was woken for it may have missed it while it moved.
            self.push_new(fiber);
        }
    }

    /// Takes new fibers from outside the workers, or those of another worker. Returns one, and may
    /// queue others.
    pub(in crate::sched) fn take_new(&self) -> Option<FiberRef> {
        let injected = self.shared.take_many_injected(&self.new);
        let injected = injected.inspect(|_| self.remote.counters.injected.add(1));
        injected.or_else(|| {
            let stolen = self.shared.steal(self.index, &self.new);
            stolen.inspect(|_| self.count_steal())
        })
    }

    /// Takes some of another worker's new fibers.
    pub(in crate::sched) fn take_new_of(&self, victim: &Remote) {
        if victim.share_new(&self.new) {
            self.count_steal();
            // A searching worker may have missed the fibers while they moved.
            self.wake_one();
        }
    }

    /// Takes ready fibers that were woken from outside the workers, or those that another worker
    /// offers, if fibers migrate. Returns one, and may queue others.
    pub(in crate::sched) fn take_ready(&self) -> Option<Started> {
        let queue = self.ready.stealable_queue()?;
        self.shared.take_woken(queue).or_else(|| {
            let stolen = self.shared.steal_started(self.index, queue);
            stolen.inspect(|_| self.count_steal())
        })
    }

    /// Takes some of another worker's ready fibers, if fibers migrate, and if `is_worth_it` for the
    /// lengths of that worker's queue and of this one's.
    pub(in crate::sched) fn take_ready_of(
        &self,
        victim: &Remote,
        is_worth_it: impl FnOnce(usize, usize) -> bool,
    ) {
        if let (Some(queue), Some(steal_handle)) =
            (self.ready.stealable_queue(), &victim.steal_handle)
            && is_worth_it(steal_handle.queue.len(), queue.len())
            && steal_handle.queue.steal_batch(queue).is_success()
        {
            self.count_steal();
        }
    }

    /// Returns `true` if fibers were handed to other workers, from which they may have to be taken
    /// over.
    pub(in crate::sched) fn others_have_handed(&self) -> bool {
        self.shared.workers() > 1 && self.shared.victims(self.index).any(Remote::has_handed)
    }

    pub(in crate::sched) fn count_steal(&self) {
        self.remote.counters.steals.add(1);
    }
}

//! Taking new fibers from others into the queues of a worker.

use super::Queues;
use crate::fiber::FiberRef;
use crate::root::EventKind;
use crate::sched::shared::Remote;

impl Queues {
    /// Takes a new fiber from outside the workers.
    pub(in crate::sched) fn take_injected(&self) {
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

    /// Returns `true` if fibers were handed to other workers, from which they may have to be taken
    /// over.
    pub(in crate::sched) fn others_have_handed(&self) -> bool {
        self.shared.workers() > 1 && self.shared.victims(self.index).any(Remote::has_handed)
    }

    pub(in crate::sched) fn count_steal(&self) {
        self.remote.counters.steals.add(1);
        if self.is_traced() {
            self.trace_moment(EventKind::Steal, 0, 0);
        }
    }
}

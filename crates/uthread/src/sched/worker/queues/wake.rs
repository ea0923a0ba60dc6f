//! Where a fiber goes that becomes ready.

use super::Queues;
use crate::fiber::Started;
use crate::sched::shared::{Mail, Remote};

impl Queues {
    /// Appends a fiber that has left its stack to the ready fibers.
    #[inline]
    pub(in crate::sched) fn make_ready(&self, fiber: Started) {
        if self.ready.is_plain() {
            self.ready.push_staying(fiber);
        } else {
            self.make_ready_by_kind(fiber);
        }
    }

    #[cold]
    fn make_ready_by_kind(&self, fiber: Started) {
        if self.is_traced() {
            self.trace_ready(fiber);
        }
        self.ready.push(fiber);
    }

    /// Appends a fiber that has used up its turn to the ready fibers, behind those that have not if
    /// fibers are not ordered.
    pub(in crate::sched) fn make_spent(&self, fiber: Started) {
        if self.ready.is_ordered() {
            self.make_ready(fiber);
        } else {
            self.ready.push_spent(fiber);
        }
    }

    /// Makes a fiber run next that the running one has woken.
    #[inline]
    fn make_next(&self, fiber: Started, switches: u64) {
        if self.ready.is_plain() {
            self.ready.push_next_plain(fiber, switches);
        } else {
            self.make_next_by_kind(fiber, switches);
        }
    }

    #[cold]
    fn make_next_by_kind(&self, fiber: Started, switches: u64) {
        if self.is_traced() {
            self.trace_ready(fiber);
        }
        self.ready.push_next_by_kind(fiber, switches);
    }

    /// Queues a fiber before the other ready ones if it is to resume `first`, and behind them
    /// otherwise.
    pub(in crate::sched) fn make_ready_as(&self, fiber: Started, first: bool) {
        let switches = self.remote.counters.switches.get();
        if first && self.ready.has_no_next(switches) {
            self.make_next(fiber, switches);
        } else {
            self.make_ready(fiber);
        }
    }

    /// Queues a fiber whose park an event of this worker has ended, like
    /// [`make_ready_as`](Queues::make_ready_as). If it has moved to another worker, it is sent there
    /// when this one takes its mail: the caller is in the reactor.
    pub(in crate::sched) fn make_unparked_ready(&self, fiber: Started, first: bool) {
        if self.is_home_of(fiber) {
            self.make_ready_as(fiber, first);
        } else {
            self.remote.inbox().put(Mail::Ready(fiber));
        }
    }

    /// Queues a fiber, or sends it to the worker to which it has moved.
    pub(in crate::sched) fn make_ready_at_home(&self, fiber: Started) {
        if self.is_home_of(fiber) {
            self.make_ready(fiber);
        } else {
            let home = fiber.control().home.get() as usize;
            self.shared.remote(home).mail(Mail::Ready(fiber));
        }
    }

    fn is_home_of(&self, fiber: Started) -> bool {
        fiber.control().home.get() as usize == self.index
    }

    /// Queues a woken fiber if its worker is this one.
    pub(in crate::sched) fn wake_own(&self, owner: &Remote, fiber: Started) -> bool {
        let own = self.belong_to(owner);
        if own {
            self.make_next(fiber, self.remote.counters.switches.get());
        } else if self.is_traced() {
            self.trace_wake(fiber);
        }
        own
    }
}

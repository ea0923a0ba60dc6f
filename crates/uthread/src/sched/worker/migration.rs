//! What a worker takes from others, but for the new fibers that it finds when it is idle.
//!
//! A busy worker takes its share of new fibers, of which another has many more. The rest is for fibers that
//! have started, where those migrate: the queue of those that can go on is offered to thieves as the deque of
//! new ones is, and a thief also serves the reactor of a worker that is busy.

use super::super::shared::Mail;
use super::Worker;
use crate::fiber::Started;

/// Queues that differ by so little are as good as equal: it is gone before it has moved.
const BALANCED: usize = 16;

impl Worker {
    /// Puts a fiber that has left its stack behind the others that can go on.
    #[inline]
    pub(super) fn make_ready(&self, fiber: Started) {
        if self.migrating
            && let Some(index) = fiber.control().stays_on.get()
        {
            return self.shared.remote(index as usize).mail(Mail::Ready(fiber));
        }
        self.ready.push(fiber);
    }

    /// The same for one that goes before the others, if it is `urgent` and may leave its worker.
    pub(super) fn make_ready_as(&self, fiber: Started, urgent: bool) {
        if urgent && fiber.control().stays_on.get().is_none() && self.ready.has_no_next() {
            self.ready.push_next(fiber);
        } else {
            self.make_ready(fiber);
        }
    }

    /// Wakes another worker if there is something for it beside what runs here.
    #[inline]
    pub(super) fn announce_rest(&self) {
        if let Some(queue) = self.ready.stealable_queue()
            && !queue.is_empty()
        {
            self.wake_one();
        }
    }

    /// Takes in fibers that were woken from outside the workers.
    pub(super) fn take_in_woken(&self) {
        if let Some(queue) = self.ready.stealable_queue()
            && let Some(fiber) = self.shared.take_woken(queue)
        {
            self.ready.push(fiber);
        }
    }

    /// Takes some from another worker whose queue is much longer: no idle one may come by.
    pub(super) fn balance(&self) {
        let victims = self.shared.workers() - 1;
        let turn = self.balancing.get().wrapping_add(1);
        self.balancing.set(turn);
        // One of them at a time: there may be many.
        let victim = turn.checked_rem(victims);
        let Some(victim) = victim.and_then(|turn| self.shared.victims(self.index).nth(turn)) else {
            return;
        };
        if self.deque.is_empty() && victim.new_fibers() > BALANCED && victim.share_new(&self.deque)
        {
            self.count_steal();
            // Whoever looked for work may have missed them on their way.
            self.wake_one();
        }
        if let (Some(queue), Some(steal_handle)) =
            (self.ready.stealable_queue(), &victim.steal_handle)
            && 2 * steal_handle.queue.len() > 3 * queue.len() + BALANCED
            && steal_handle.queue.steal_batch(queue).is_success()
        {
            self.count_steal();
        }
    }

    pub(super) fn count_steal(&self) {
        self.remote.counters.steals.add(1);
    }

    /// Takes fibers that can go on from elsewhere. One is returned, others may be put into the queue.
    pub(super) fn take_started(&self) -> Option<Started> {
        let queue = self.ready.stealable_queue()?;
        self.shared
            .take_woken(queue)
            .or_else(|| {
                let stolen = self.shared.steal_started(self.index, queue);
                stolen.inspect(|_| self.count_steal())
            })
            .or_else(|| self.serve_others())
            .or_else(|| self.take_next_of_others())
    }

    /// Serves the reactors of those that are busy, but for one that is just being served.
    fn serve_others(&self) -> Option<Started> {
        let mut served = 0;
        for victim in self.shared.victims(self.index) {
            if let Some(reactor) = victim.reactor.get()
                && let Ok(mut reactor) = reactor.try_lock()
            {
                let count = reactor.serve(self.now(), |fiber, urgent| {
                    self.make_ready_as(fiber, urgent)
                });
                served += count;
                let deserted = reactor.is_deserted();
                drop(reactor);
                if count > 0 && deserted {
                    self.record_deserted();
                }
            }
        }
        self.remote.counters.completions.add(served);
        self.remote.counters.served.add(served);
        self.ready.pop()
    }

    /// Takes what another worker would run next, if that one has not got to it since the last look.
    fn take_next_of_others(&self) -> Option<Started> {
        let mut seen = self.switches_seen.borrow_mut();
        let victims = self.shared.victims(self.index);
        for (index, victim) in victims.enumerate() {
            let switches = victim.counters.switches.get();
            if seen.len() == index {
                seen.push(switches);
            } else if std::mem::replace(&mut seen[index], switches) == switches
                && let Some(steal_handle) = &victim.steal_handle
                && let Some(fiber) = steal_handle.next.take()
            {
                self.count_steal();
                return Some(fiber);
            }
        }
        None
    }
}

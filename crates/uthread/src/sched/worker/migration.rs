//! What a worker takes from others of the fibers that have started, where those migrate.
//!
//! The queue of those that can go on is offered to thieves as the deque of new ones is, and a thief also
//! serves the desk of a worker that is busy. Where fibers stay, nothing here does anything.

use super::Worker;
use crate::fiber::Started;

impl Worker {
    /// Puts a fiber that has left its stack behind the others that can go on.
    #[inline]
    pub(super) fn make_ready(&self, fiber: Started) {
        if self.migrating
            && let Some(index) = fiber.control().stays_on.get()
        {
            return self.shared.remote(index as usize).mail(fiber);
        }
        self.ready.push(fiber);
    }

    /// Wakes another worker if there is something for it beside what runs here.
    #[inline]
    pub(super) fn offer_rest(&self) {
        if let Some(queue) = self.ready.offered_queue()
            && !queue.is_empty()
        {
            self.wake_one();
        }
    }

    /// Takes in fibers that were woken from outside the workers.
    pub(super) fn take_in_woken(&self) {
        if let Some(queue) = self.ready.offered_queue()
            && let Some(fiber) = self.shared.take_woken(queue)
        {
            self.ready.push(fiber);
        }
    }

    /// Takes fibers that can go on from elsewhere. One is returned, others may be put into the queue.
    pub(super) fn take_started(&self) -> Option<Started> {
        let queue = self.ready.offered_queue()?;
        self.shared
            .take_woken(queue)
            .or_else(|| {
                let stolen = self.shared.steal_started(self.index, queue);
                stolen.inspect(|_| self.remote.counters.steals.add(1))
            })
            .or_else(|| self.serve_others())
            .or_else(|| self.take_next_of_others())
    }

    /// Serves the desks of those that are busy, but for one that is just being served.
    fn serve_others(&self) -> Option<Started> {
        let mut served = 0;
        for victim in self.shared.victims(self.index) {
            if let Some(desk) = victim.desk.get()
                && let Ok(mut desk) = desk.try_lock()
            {
                served += desk.serve(self.now(), |fiber| self.make_ready(fiber));
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
                && let Some(offer) = &victim.offer
                && let Some(fiber) = offer.next.take()
            {
                self.remote.counters.steals.add(1);
                return Some(fiber);
            }
        }
        None
    }
}

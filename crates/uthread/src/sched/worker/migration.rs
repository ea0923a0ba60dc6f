//! Work that a busy worker takes from others, and work that it offers to them.
//!
//! A busy worker takes its share of new fibers if another one has many more. The rest concerns started
//! fibers, if these migrate: the queue of ready fibers is offered to thieves like the deque of new ones, and
//! a thief also serves the reactor of a busy worker.

use std::cell::{Cell, RefCell};

use super::super::shared::{Mail, Remote};
use super::Worker;
use crate::fiber::Started;

/// Difference of queue lengths below which balancing is not worth it: such a queue is empty before fibers
/// have moved.
const BALANCED: usize = 16;

/// The state of the comparison with other workers.
#[derive(Default)]
pub(super) struct Balance {
    /// Number of checks of other workers' queues.
    checks: Cell<usize>,
    /// Number of switches of each worker at the last check of its next fiber.
    switches_seen: RefCell<Vec<u64>>,
}

impl Worker {
    /// Appends a fiber that has left its stack to the ready fibers.
    #[inline]
    pub(super) fn make_ready(&self, fiber: Started) {
        if self.migrating
            && let Some(index) = fiber.control().stays_on()
        {
            self.shared.remote(index as usize).mail(Mail::Ready(fiber));
            return;
        }
        self.ready.push(fiber);
    }

    /// Appends a fiber that only this worker may run to the ready fibers.
    pub(super) fn make_ready_here(&self, fiber: Started) {
        match self.migrating {
            false => self.ready.push(fiber),
            true => self.ready.push_staying(fiber),
        }
    }

    /// Appends a fiber that has used up its turn to the ready fibers, behind those that have not if it stays and has no priority.
    #[inline(never)]
    pub(super) fn make_spent(&self, fiber: Started) {
        if self.migrating || self.ready.is_ordered() {
            self.make_ready(fiber);
        } else {
            self.ready.push_spent(fiber);
        }
    }

    /// Makes a fiber run next that the running one has woken.
    #[inline]
    pub(super) fn make_next(&self, fiber: Started) {
        let switches = self.remote.counters.switches.get();
        self.ready.push_next(fiber, switches);
    }

    /// Queues a fiber before the other ready ones if it is to resume `first` and may leave its worker, and behind them
    /// otherwise.
    pub(super) fn make_ready_as(&self, fiber: Started, first: bool) {
        let switches = self.remote.counters.switches.get();
        if first && fiber.control().stays_on().is_none() && self.ready.has_no_next(switches) {
            self.ready.push_next(fiber, switches);
        } else {
            self.make_ready(fiber);
        }
    }

    /// Wakes another worker if there are ready fibers besides the running one.
    #[inline]
    pub(super) fn announce_rest(&self) {
        if let Some(queue) = self.ready.stealable_queue()
            && (!queue.is_empty() || self.ready.offers_classed())
        {
            self.wake_one();
        }
    }

    /// Takes fibers that were woken from outside the workers.
    pub(super) fn take_in_woken(&self) {
        if let Some(queue) = self.ready.stealable_queue()
            && let Some(fiber) = self.shared.take_woken(queue)
        {
            self.ready.push(fiber);
        }
    }

    /// Takes some fibers from another worker whose queue is much longer, as there may be no idle worker to do
    /// so.
    pub(super) fn balance(&self) {
        let victims = self.shared.workers() - 1;
        let turn = self.balance.checks.get().wrapping_add(1);
        self.balance.checks.set(turn);
        // One victim at a time, as there may be many.
        let victim = turn.checked_rem(victims);
        let Some((distance, victim)) = victim.and_then(|turn| {
            let victim = self.shared.victims(self.index).nth(turn);
            victim.map(|victim| (turn, victim))
        }) else {
            return;
        };
        self.relieve(distance, victim);
        if self.new.is_empty() && victim.new_fibers() > BALANCED {
            self.take_new_of(victim);
        }
        self.take_ready_of(victim, |theirs, own| 2 * theirs > 3 * own + BALANCED);
    }

    /// Takes some of another worker's new fibers.
    pub(super) fn take_new_of(&self, victim: &Remote) {
        if victim.share_new(&self.new) {
            self.count_steal();
            // A searching worker may have missed the fibers while they moved.
            self.wake_one();
        }
    }

    /// Takes some of another worker's ready fibers, if fibers migrate, and if `is_worth_it` for the lengths of that worker's
    /// queue and of this one's.
    pub(super) fn take_ready_of(
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

    pub(super) fn count_steal(&self) {
        self.remote.counters.steals.add(1);
    }

    /// Takes ready fibers from elsewhere. Returns one, and may put others into the queue.
    pub(super) fn take_started(&self) -> Option<Started> {
        match self.ready.is_plain() {
            true => None,
            false => self.next_ordered().or_else(|| self.take_migrating()),
        }
    }

    #[inline(never)]
    fn take_migrating(&self) -> Option<Started> {
        let queue = self.ready.stealable_queue()?;
        self.shared
            .take_woken(queue)
            .or_else(|| {
                let stolen = self.shared.steal_started(self.index, queue);
                stolen.inspect(|_| self.count_steal())
            })
            .or_else(|| self.serve_others())
            .or_else(|| self.next_ordered())
            .or_else(|| self.take_next_of_others())
    }

    /// Serves the reactors of busy workers, except for those that are being served.
    fn serve_others(&self) -> Option<Started> {
        let mut served = 0;
        for victim in self.shared.victims(self.index) {
            if let Some(reactor) = victim.reactor.get()
                && let Ok(mut reactor) = reactor.try_lock()
            {
                let count =
                    reactor.serve(self.now(), |fiber, first| self.make_ready_as(fiber, first));
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
        self.ready.pop_stealable()
    }

    /// Takes the fiber that another worker would run next, if that worker has made no progress since the last
    /// check.
    fn take_next_of_others(&self) -> Option<Started> {
        let mut seen = self.balance.switches_seen.borrow_mut();
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

//! Deques and the injector, after crossbeam-deque, and the epochs of crossbeam-epoch.

use std::collections::VecDeque;

use super::calls::Calls;
use super::layout::Worker;
use crate::machine::{Epoch, Step};

/// `PINNINGS_BETWEEN_COLLECT` of crossbeam-epoch.
const PINS_PER_COLLECT: u64 = 128;

/// `MAX_BATCH` of crossbeam-deque.
pub(super) const STOLEN_MAX: usize = 32;

impl Calls<'_> {
    /// Models `Queues::has_work`, without the queue of ready fibers, which is the worker's own.
    pub(crate) fn has_new(&mut self) -> bool {
        let ends = self.own().ends;
        self.load(ends);
        !self.own().deque.is_empty()
    }

    /// Models `Queues::push_new`: `Worker::push` of crossbeam-deque, and a wake-up. A new id is
    /// taken from a block of 64.
    pub(crate) fn push_new(&mut self, fiber: u64) {
        let Worker { ends, slots, .. } = *self.own();
        self.load(ends);
        self.store(slots);
        self.store(ends);
        if self.runtime.remedy.has_hint && self.own().deque.is_empty() {
            let hint = self.runtime.common.hint;
            self.modify(hint);
        }
        self.own().deque.push_back(fiber);
        self.wake_one();
    }

    /// Models `Worker::pop` of crossbeam-deque.
    pub(crate) fn pop_newest(&mut self) -> Option<u64> {
        let Worker { ends, slots, .. } = *self.own();
        self.load(ends);
        let fiber = self.own().deque.pop_back()?;
        self.store(ends);
        self.load(slots);
        if self.own().deque.is_empty() {
            self.modify(ends);
            if self.runtime.remedy.has_hint {
                let hint = self.runtime.common.hint;
                self.modify(hint);
            }
        }
        Some(fiber)
    }

    /// Models `Stealer::is_empty` of crossbeam-deque, and `steal_batch_and_pop` if it is not: a
    /// pin, a buffer and an exchange of the front. Moves half of the fibers, or a batch.
    pub(super) fn steal(&mut self, victim: usize) -> bool {
        let count = self.runtime.workers[victim].deque.len();
        self.look_at_deque(victim);
        if count == 0 && !self.runtime.remedy.pins_empty {
            return false;
        }
        self.pin();
        if count > 0 {
            let Worker { ends, slots, .. } = self.runtime.workers[victim];
            self.load(slots);
            self.modify(ends);
            let taken = count.div_ceil(2).min(STOLEN_MAX);
            let stolen: Vec<u64> = self.runtime.workers[victim].deque.drain(..taken).collect();
            self.own().deque.extend(stolen);
            let Worker { ends, slots, .. } = *self.own();
            self.store(slots);
            self.store(ends);
            if self.runtime.remedy.has_hint {
                let hint = self.runtime.common.hint;
                self.modify(hint);
            }
        }
        let epoch = self.own().epoch;
        self.steps.push_back(Step::Epoch(Epoch::Unpin));
        self.store(epoch);
        count > 0
    }

    /// Models `Local::pin` of crossbeam-epoch, and now and then `Global::try_advance`, which reads
    /// the epoch of each thread until it finds another one pinned.
    pub(super) fn pin(&mut self) {
        let Worker { epoch, pins, .. } = *self.own();
        let global = self.runtime.common.global_epoch;
        self.load(global);
        self.steps.push_back(Step::Epoch(Epoch::Pin));
        self.modify(epoch);
        if pins.is_multiple_of(PINS_PER_COLLECT) {
            let count = self.runtime.workers.len();
            for worker in 0..count {
                let epoch = self.runtime.workers[worker].epoch;
                self.load(epoch);
                // Two steps for each worker that is left, and the two below.
                let left = 2 * (count - worker);
                let compare = Epoch::Compare(worker, left);
                self.steps.push_back(Step::Epoch(compare));
            }
            self.store(global);
            self.steps.push_back(Step::Epoch(Epoch::Advance));
        }
        self.own().pins = pins + 1;
    }

    /// Models `Queues::take_in_injected`: takes in one fiber, which then counts as new.
    pub(super) fn take_in_injected(&mut self) {
        if let Some(fiber) = self.steal_injected(1) {
            self.push_new(fiber);
        }
    }

    /// Models `Injector::steal` and `steal_batch_and_pop` of crossbeam-deque: head and tail; a
    /// block and an exchange of the head if there is something. Returns one fiber.
    pub(super) fn steal_injected(&mut self, max: usize) -> Option<u64> {
        let common = &self.runtime.common;
        let (head, tail, slots) = (
            common.injector_head,
            common.injector_tail,
            common.injector_slots,
        );
        self.load(head);
        self.load(tail);
        let count = self.runtime.injected.len();
        if count == 0 {
            return None;
        }
        self.modify(head);
        self.load(slots);
        self.modify(slots);
        let taken = count.div_ceil(2).min(max);
        let mut fibers: VecDeque<u64> = self.runtime.injected.drain(..taken).collect();
        let first = fibers.pop_front();
        if !fibers.is_empty() {
            self.own().deque.extend(fibers);
            let Worker { ends, slots, .. } = *self.own();
            self.store(slots);
            self.store(ends);
        }
        first
    }

    /// Models `Shared::inject`, called by a thread outside of the workers: `Injector::push` of
    /// crossbeam-deque, and a wake-up.
    pub(crate) fn inject(&mut self, fiber: u64) {
        let (tail, slots) = (
            self.runtime.common.injector_tail,
            self.runtime.common.injector_slots,
        );
        self.load(tail);
        self.modify(tail);
        self.store(slots);
        self.modify(slots);
        self.runtime.injected.push_back(fiber);
        self.wake_one();
    }

    /// Returns the number of fibers in the injector.
    pub(crate) fn injected(&self) -> usize {
        self.runtime.injected.len()
    }

    /// Models `NewFibersHandle::is_empty`: the handle, then the ends of the deque.
    pub(super) fn look_at_deque(&mut self, worker: usize) {
        let Worker { handle, ends, .. } = self.runtime.workers[worker];
        self.load(handle);
        self.load(ends);
    }

    /// Takes a block of ids: `next_id` of fiber/control.rs.
    pub(crate) fn take_ids(&mut self) {
        let ids = self.runtime.common.ids;
        self.modify(ids);
    }
}

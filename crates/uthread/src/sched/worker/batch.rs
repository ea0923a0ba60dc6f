//! A batch: the fibers that a worker runs between two looks at its driver, inbox and timers.

use std::time::Duration;

use super::poll_schedule::BATCH_TIME_MAX;
use super::{Worker, current};
use crate::fiber::Started;

/// Number of fibers that run before the worker checks timers, inbox and ring: few enough that none waits
/// long, enough that one system call serves many. Up to three more after a batch that has ended early.
pub(super) const BATCH_FIBERS: u64 = 64;

/// Time after which a batch ends early where fibers are ordered, as an event may make a more urgent one ready; or while fibers use
/// up their turns, as others wait for a whole turn otherwise. With twice this time, bulk transfers gain some 4 %, and the 99th
/// percentile of a message beside them rises by a fifth or more.
const SHORT_TIME_MAX: Duration = BATCH_TIME_MAX;

/// Every fourth fiber to run is the oldest new one, so that neither fibers that never wait nor newer ones can
/// keep it from starting.
pub(super) const NEW_FIBER_TURN: u64 = 4;

/// Every eighth fiber to run is one that has used up its last turn, so that neither new fibers nor those that use little
/// time can keep it from running.
const SPENT_TURN: u64 = 8;

impl Worker {
    pub(super) fn run_batch(&self) {
        match self.queues.ready.is_plain() {
            true => self.run_batch_of(Worker::next_fiber, Worker::run_plain_fiber),
            false if self.queues.ready.is_ordered() => {
                self.run_short_batch(Worker::next_by_priority)
            }
            false if self.queues.ready.has_spent() => {
                self.run_short_batch(Worker::next_beside_spent)
            }
            false => self.run_batch_of(Worker::next_migrating, Worker::run_fiber),
        }
    }

    /// A function of its own, so that the values of the loop stay in registers.
    #[inline(never)]
    fn run_batch_of(
        &self,
        next: impl Fn(&Worker, Option<Started>) -> Option<Started>,
        run: impl Fn(&Worker, Started, u64) -> bool,
    ) {
        let end = self.queues.remote.counters.switches.get();
        let end = end.wrapping_add(BATCH_FIBERS);
        loop {
            let switch = self.queues.remote.counters.switches.get().wrapping_add(1);
            let mut oldest = None;
            // The other turns do without the check for the end.
            if switch.is_multiple_of(NEW_FIBER_TURN) {
                if switch > end {
                    break;
                }
                // Checked first: a steal costs a fence, even if there is nothing.
                if !self.queues.new.is_empty() {
                    oldest = self.start_oldest();
                }
            }
            let Some(fiber) = next(self, oldest) else {
                break;
            };
            if run(self, fiber, switch) && self.io.is_flush_due(&self.queues) {
                break;
            }
        }
        self.record_no_fiber();
    }

    /// Runs a batch that ends after [`SHORT_TIME_MAX`], of the fibers that `next` takes for the switch of this number.
    #[inline(never)]
    fn run_short_batch(&self, next: impl Fn(&Worker, u64) -> Option<Started>) {
        // Polling has forgotten whether fibers still wait for events.
        self.io.look_within(&self.queues, SHORT_TIME_MAX);
        for _ in 0..BATCH_FIBERS {
            let switch = self.queues.remote.counters.switches.get().wrapping_add(1);
            let Some(fiber) = next(self, switch) else {
                break;
            };
            if self.run_fiber(fiber, switch) && self.io.is_flush_due(&self.queues) {
                break;
            }
        }
        self.record_no_fiber();
    }

    /// Takes the fiber to run next while fibers have used up their last turns.
    fn next_beside_spent(&self, switch: u64) -> Option<Started> {
        let is_new_turn = switch.is_multiple_of(NEW_FIBER_TURN) && !self.queues.new.is_empty();
        let oldest = is_new_turn.then(|| self.start_oldest()).flatten();
        let is_spent_turn = switch % SPENT_TURN == 1;
        let spent = is_spent_turn
            .then(|| self.queues.ready.pop_spent())
            .flatten();
        spent
            .or_else(|| self.next_fiber(oldest))
            .or_else(|| self.queues.ready.pop_spent())
    }

    #[inline(always)]
    pub(super) fn next_fiber(&self, oldest: Option<Started>) -> Option<Started> {
        oldest
            .or_else(|| self.queues.ready.pop_staying())
            .or_else(|| self.start_newest())
    }

    #[inline(never)]
    fn next_migrating(&self, oldest: Option<Started>) -> Option<Started> {
        let fiber = oldest.or_else(|| self.next_stealable());
        self.queues.announce_rest();
        fiber
    }

    /// Takes the fiber to run next, if fibers migrate and none is to start first.
    pub(super) fn next_stealable(&self) -> Option<Started> {
        self.queues
            .ready
            .pop_stealable()
            .or_else(|| self.start_newest())
    }

    #[inline(never)]
    pub(super) fn start_newest(&self) -> Option<Started> {
        current::set_running(None);
        self.queues
            .new
            .pop_newest()
            .and_then(|fiber| self.fibers.start(fiber, &self.queues, &self.io))
    }

    #[inline(never)]
    pub(super) fn start_oldest(&self) -> Option<Started> {
        current::set_running(None);
        let oldest = self.queues.new.pop_oldest();
        oldest.and_then(|fiber| self.fibers.start(fiber, &self.queues, &self.io))
    }
}

//! A batch: the fibers that a worker runs between two looks at its driver, inbox and timers.

use std::ops::ControlFlow;
use std::time::Duration;

use super::Worker;
use super::queues::pick::{NEW_FIBER_TURN, Starter};
use super::running::Ran;
use crate::driver::FLUSH_TIME_MAX;
use crate::fiber::host::State;
use crate::fiber::{FiberRef, Started};
use crate::sched::budget::CALLS_MAX;

/// Number of fibers that run before the worker checks timers, inbox and ring: few enough that none
/// waits long, enough that one system call serves many. Up to three more after a batch that has
/// ended early.
pub(super) const BATCH_FIBERS: u64 = 64;

/// Time after which a batch ends early where fibers are ordered, as an event may make a more urgent
/// one ready; or while fibers use up their turns, as others wait for a whole turn otherwise. With
/// twice this time, bulk transfers gain some 4 %, and the 99th percentile of a message beside them
/// rises by a fifth or more.
const SHORT_TIME_MAX: Duration = FLUSH_TIME_MAX;

impl Worker {
    /// Runs a batch. Returns the fiber that this thread ran when its worker was taken.
    pub(super) fn run_batch(&self) -> ControlFlow<Started> {
        let next_staying = |worker: &Worker, new| worker.queues.next_staying(new, worker);
        let ready = &self.queues.ready;
        if ready.is_plain()
            && let Some(tls) = &self.tls
        {
            let run = |worker: &Worker, fiber, switch| {
                worker.run_fiber_with_storage(tls, fiber, switch, CALLS_MAX)
            };
            self.run_batch_of(next_staying, run)
        } else if ready.is_plain() && self.context.is_none() {
            self.run_batch_of(next_staying, Worker::run_plain_fiber)
        } else if ready.is_plain() {
            self.run_batch_of(next_staying, |worker, fiber, switch| {
                worker.run_fiber(fiber, switch, CALLS_MAX)
            })
        } else if ready.is_probed() {
            self.run_probed_batch()
        } else if ready.is_ordered() {
            debug_assert!(
                !self.sleep.is_searching(),
                "a worker must end its search before it runs what any worker may take"
            );
            self.run_short_batch(|_| self.queues.next_by_priority(self))
        } else if ready.is_random() {
            self.run_in_turn(|_| self.queues.next_at_random(self))
        } else if ready.has_spent() {
            self.run_short_batch(|switch| self.queues.next_beside_spent(switch, self))
        } else {
            debug_assert!(
                self.queues.is_traced() || self.queues.has_hosts(),
                "nothing else is left"
            );
            self.run_in_turn(|switch| self.queues.next_beside_spent(switch, self))
        }
    }

    /// Runs fibers that `next` returns, until there is none or the batch is over. A function of its
    /// own, so that the values of the loop stay in registers.
    #[inline(never)]
    fn run_batch_of(
        &self,
        next: impl Fn(&Worker, Option<Started>) -> Option<Started>,
        run: impl Fn(&Worker, Started, u64) -> Ran,
    ) -> ControlFlow<Started> {
        let end = self.queues.remote.counters.switches.get();
        let end = end.wrapping_add(BATCH_FIBERS);
        loop {
            let switch = self.queues.remote.counters.switches.get().wrapping_add(1);
            let mut new = None;
            // The other turns do without the check for the end.
            if switch.is_multiple_of(NEW_FIBER_TURN) {
                if switch > end {
                    break;
                }
                // Checked first: a steal costs a fence, even if there is nothing.
                if !self.queues.new.is_empty() {
                    // A steal has a thread-local of its own, which is to be the thread's.
                    self.restore_thread_pointer();
                    new = self.queues.start_new(switch, self);
                }
            }
            let Some(fiber) = next(self, new) else {
                break;
            };
            match run(self, fiber, switch) {
                Ran::Quiet => {}
                Ran::Alerted if self.io.is_flush_due(&self.queues) => break,
                Ran::Alerted => {}
                Ran::Alone(fiber) => return ControlFlow::Break(fiber),
            }
        }
        self.record_no_fiber();
        ControlFlow::Continue(())
    }

    /// Runs a batch that ends after [`SHORT_TIME_MAX`], of the fibers that `next` takes for the
    /// switch of this number.
    fn run_short_batch(&self, next: impl Fn(u64) -> Option<Started>) -> ControlFlow<Started> {
        self.shorten_batch();
        self.run_in_turn(next)
    }

    /// Ends the batch after [`SHORT_TIME_MAX`].
    pub(super) fn shorten_batch(&self) {
        // Polling has forgotten whether fibers still wait for events.
        self.io.look_within(&self.queues, SHORT_TIME_MAX);
    }

    /// Runs the fibers that `next` takes for the switch of each number.
    pub(super) fn run_in_turn(
        &self,
        next: impl Fn(u64) -> Option<Started>,
    ) -> ControlFlow<Started> {
        for _ in 0..BATCH_FIBERS {
            self.restore_thread_pointer();
            let switch = self.queues.remote.counters.switches.get().wrapping_add(1);
            let Some(fiber) = next(switch) else {
                break;
            };
            match self.queues.pass_or_hold(fiber) {
                State::Running => {}
                State::Paused => continue,
                State::Halted => {
                    self.fibers.abandon(fiber, &self.queues, &self.io);
                    continue;
                }
            }
            match self.run_recorded(fiber, switch) {
                Ran::Quiet => {}
                Ran::Alerted if self.io.is_flush_due(&self.queues) => break,
                Ran::Alerted => {}
                Ran::Alone(fiber) => return ControlFlow::Break(fiber),
            }
        }
        self.record_no_fiber();
        ControlFlow::Continue(())
    }
}

impl Starter for Worker {
    #[inline]
    fn start(&self, fiber: FiberRef) -> Option<Started> {
        match self.fibers.start_at_once(fiber, &self.queues, &self.io) {
            Ok(started) => Some(started),
            Err(fiber) => {
                self.restore_thread_pointer();
                self.fibers.start_slowly(fiber, &self.queues, &self.io)
            }
        }
    }
}

//! Running a fiber on a worker: the switch to its stack, and what follows when it has left that.
#![allow(
    clippy::inline_always,
    reason = "hot paths, whose instructions are counted"
)]

use super::alerts::Alerts;
use super::{Worker, budget, current};
use crate::fiber::{AnyContext, Pause, Started};
use crate::tls::Tls;

impl Worker {
    /// Runs a fiber until it pauses or ends, in the switch of this number. The caller then
    /// [records](Worker::record_no_fiber) that none runs. Returns `true` if there may be
    /// [`Alerts`].
    #[inline(always)]
    pub(super) fn run_fiber(&self, fiber: Started, switch: u64) -> bool {
        self.run_fiber_by(Worker::resume, fiber, switch)
    }

    /// Runs a fiber like [`run_fiber`](Worker::run_fiber), where fibers have neither thread-local
    /// storage of their own nor a context.
    pub(super) fn run_plain_fiber(&self, fiber: Started, switch: u64) -> bool {
        self.run_fiber_by(|_, fiber| resume(fiber), fiber, switch)
    }

    #[inline(always)]
    fn run_fiber_by(
        &self,
        resume: impl Fn(&Worker, Started) -> (Started, Option<Pause>),
        fiber: Started,
        switch: u64,
    ) -> bool {
        let control = fiber.control();
        let counters = &self.queues.remote.counters;
        counters.switches.set(switch);
        counters.running.set(control.id().get());
        counters.spawn_site.store(Some(control.spawn_site()));
        current::set_running(Some(fiber));
        budget::renew();
        let (fiber, pause) = resume(self, fiber);
        if pause == Some(Pause::Yielded) && self.queues.alerts.is_empty() {
            self.queues.ready.push_staying(fiber);
            return false;
        }
        self.leave_fiber(fiber, pause);
        true
    }

    /// Runs a fiber until it pauses, or returns `None` when it has ended; and the fiber.
    #[inline(always)]
    fn resume(&self, fiber: Started) -> (Started, Option<Pause>) {
        match (self.tls, &self.context) {
            (None, None) => resume(fiber),
            (Some(tls), _) => self.resume_with(tls, fiber),
            (None, Some(context)) => resume_in(&**context, fiber),
        }
    }

    /// Runs a fiber with its own thread-local storage. Never inlined: the loop must not compute the
    /// address of a thread-local while the thread pointer is that of the fiber.
    #[inline(never)]
    #[allow(unsafe_code, reason = "the thread pointer of a fiber")]
    fn resume_with(&self, tls: Tls, fiber: Started) -> (Started, Option<Pause>) {
        let Some(pointer) = fiber.control().thread_pointer() else {
            let left = resume(fiber);
            self.queues.remote.record_left();
            return left;
        };
        // SAFETY: the block belongs to the fiber, which this worker alone runs until it has left
        // its stack.
        let left = unsafe {
            tls.with(pointer.get(), || {
                current::record_in_fiber(self, fiber);
                resume(fiber)
            })
        };
        self.queues.remote.record_left();
        left
    }

    /// Takes a fiber that has left its stack to where it waits, or to its end.
    #[inline(always)]
    fn leave_fiber(&self, fiber: Started, pause: Option<Pause>) {
        match pause {
            Some(pause) if !self.queues.alerts.is_empty() => self.pause_alerted(fiber, pause),
            Some(pause) => {
                current::set_running(None);
                self.hand_on(fiber, pause);
            }
            None => {
                current::set_running(None);
                self.fibers.end(fiber, &self.queues, &self.io, &self.panics);
            }
        }
    }

    /// Records that the loop runs, and no fiber.
    pub(super) fn record_no_fiber(&self) {
        current::set_running(None);
        self.queues.remote.counters.running.set(0);
    }

    #[inline(never)]
    fn pause_alerted(&self, fiber: Started, pause: Pause) {
        if self.queues.alerts.has(Alerts::PANICS) {
            self.pause_checked(fiber, pause);
        } else {
            current::set_running(None);
            self.hand_on(fiber, pause);
        }
    }

    /// Hands on a fiber that has left its stack, if fibers migrate or some fiber is suspended
    /// during its panic.
    fn pause_checked(&self, fiber: Started, pause: Pause) {
        let mut resumed = Some(pause);
        while let Some(pause) = resumed
            && self.panics.keep_worker(&self.queues, fiber)
            && pause != Pause::Abandoned
        {
            self.await_kept(fiber, pause);
            resumed = self.resume(fiber).1;
        }
        current::set_running(None);
        match resumed {
            Some(pause) => {
                if self.queues.migrating {
                    // The storage of one that ends without a block would not move with it.
                    let shares = self.tls.is_some() && fiber.control().thread_pointer().is_none();
                    let stays = shares.then_some(self.queues.index as u32);
                    fiber.control().set_stays_on(stays);
                }
                self.hand_on(fiber, pause);
            }
            None => self.fibers.end(fiber, &self.queues, &self.io, &self.panics),
        }
    }

    /// Passes a fiber that has left its stack on to where it waits. From then on others may resume
    /// it.
    pub(super) fn hand_on(&self, fiber: Started, pause: Pause) {
        match pause {
            Pause::Yielded => self.queues.make_ready(fiber),
            Pause::Spent => self.queues.make_spent(fiber),
            Pause::Parked => {
                if !fiber.control().token.settle_park() {
                    self.queues.make_ready(fiber);
                }
            }
            // Its entry is submitted when the loop polls the driver next, not earlier.
            Pause::Submitted => {}
            Pause::Abandoned => self.fibers.let_go(fiber, &self.queues, &self.io),
        }
    }
}

/// Runs a fiber until it pauses, or returns `None` when it has ended; and the fiber.
#[allow(unsafe_code, reason = "entering a fiber's stack")]
#[inline(always)]
fn resume(fiber: Started) -> (Started, Option<Pause>) {
    // SAFETY: called by the loop, which has taken the fiber from a queue of started fibers, or from
    // where it waited after it had left its stack. A fiber is in one such place at a time.
    unsafe { fiber.control().resume() }
}

/// Runs a fiber within its context.
fn resume_in(context: &dyn AnyContext, fiber: Started) -> (Started, Option<Pause>) {
    // The context is code of the program, to which the fiber is not the caller.
    current::set_running(None);
    context.restore(fiber.control());
    current::set_running(Some(fiber));
    let (fiber, pause) = resume(fiber);
    current::set_running(None);
    context.save(fiber.control());
    if pause.is_none() {
        fiber.control().drop_context();
    }
    current::set_running(Some(fiber));
    (fiber, pause)
}

//! Running a fiber on a worker: the switch to its stack, and what follows when it has left that.
#![allow(
    clippy::inline_always,
    reason = "hot paths, whose instructions are counted"
)]

use super::alerts::Alerts;
use super::{Worker, current};
use crate::fiber::{AnyContext, Control, Pause, Started};
use crate::sched::budget::{self, CALLS_MAX};
use crate::tls::{self, ThreadPointer};

/// What has happened to the worker while a fiber ran.
#[derive(Debug, Clone, Copy)]
#[must_use = "a thread without its worker must not access it"]
pub(crate) enum Ran {
    /// There are no [`Alerts`].
    Quiet,
    /// There may be alerts.
    Alerted,
    /// It was taken, and this thread has none any more. The fiber is to be handed back to it.
    Alone(Started),
}

impl Worker {
    /// Runs a fiber until it pauses or ends, in the switch of this number. It lets others run after
    /// `calls` calls that do not wait. The caller then [records](Worker::record_no_fiber) that none runs.
    #[inline(always)]
    pub(super) fn run_fiber(&self, fiber: Started, switch: u64, calls: i32) -> Ran {
        match &self.tls {
            Some(tls) => self.run_fiber_with_storage(tls, fiber, switch, calls),
            None => self.run_fiber_by(Worker::resume, fiber, switch, calls),
        }
    }

    /// Runs a fiber like [`run_fiber`](Worker::run_fiber), and records that if the worker is traced.
    pub(super) fn run_recorded(&self, fiber: Started, switch: u64) -> Ran {
        if self.queues.is_traced() {
            self.queues.trace_resume();
        }
        self.run_fiber(fiber, switch, self.queues.calls_of_turn())
    }

    /// Runs a fiber like [`run_fiber`](Worker::run_fiber), where fibers have neither thread-local
    /// storage of their own nor a context.
    pub(super) fn run_plain_fiber(&self, fiber: Started, switch: u64) -> Ran {
        self.run_fiber_by(|_, fiber| resume(fiber), fiber, switch, CALLS_MAX)
    }

    /// Runs a fiber like [`run_fiber`](Worker::run_fiber), with its own thread-local storage. Its
    /// thread pointer stays set if nothing else than a queue is accessed afterwards.
    ///
    /// The fiber may be alone when it leaves its stack: its worker runs on another thread. Nothing
    /// of the worker is accessed then.
    #[inline]
    #[allow(unsafe_code, reason = "the thread pointer of a fiber")]
    pub(super) fn run_fiber_with_storage(
        &self,
        tls: &ThreadPointer,
        fiber: Started,
        switch: u64,
        calls: i32,
    ) -> Ran {
        let control = fiber.control();
        let Some(record) = control.record() else {
            return self.run_new_fiber_with_storage(tls, fiber, switch, calls);
        };
        self.count_switch(control, switch);
        // SAFETY: the block belongs to the fiber, which this worker alone runs. Until the pointer
        // is restored, the loop accesses thread-locals in functions that are not inlined.
        unsafe { tls.load(record.pointer.get()) };
        budget::set_in(record, calls);
        self.fibers.lend_kept(record);
        self.queues.remote.handover.set_record(record);
        let (fiber, pause) = resume(fiber);
        match pause {
            Some(Pause::Alone) => return leave_alone(fiber),
            Some(Pause::Yielded) if self.queues.alerts.is_empty() => {
                self.queues.ready.push_staying(fiber);
                return Ran::Quiet;
            }
            Some(Pause::Parked) if self.queues.alerts.is_empty() => {
                if !fiber.control().token.settle_park() {
                    self.queues.make_ready(fiber);
                }
                return Ran::Quiet;
            }
            Some(Pause::Submitted) if self.queues.alerts.is_empty() => return Ran::Quiet,
            None if self.fibers.end_at_once(fiber, &self.queues, &self.io) => return Ran::Alerted,
            _ => {}
        }
        tls.restore();
        self.leave_settled(fiber, pause);
        Ran::Alerted
    }

    /// Runs a fiber that has thread-local storage of its own for the first time; or one without,
    /// for which there was no memory.
    #[cold]
    #[inline(never)]
    #[allow(unsafe_code, reason = "the thread pointer of a fiber")]
    fn run_new_fiber_with_storage(
        &self,
        tls: &ThreadPointer,
        fiber: Started,
        switch: u64,
        calls: i32,
    ) -> Ran {
        let Some(pointer) = fiber.control().thread_pointer() else {
            tls.restore();
            self.queues.remote.handover.forget_record();
            return self.run_fiber_by(|_, fiber| resume(fiber), fiber, switch, calls);
        };
        // SAFETY: as in `run_fiber_with_storage`.
        unsafe { tls.load(pointer.get()) };
        let record = current::record_in_fiber(self, fiber, pointer.get());
        fiber.control().set_record(record);
        self.run_fiber_with_storage(tls, fiber, switch, calls)
    }

    /// Sets the thread pointer of the worker's own thread.
    #[inline]
    pub(super) fn restore_thread_pointer(&self) {
        if let Some(tls) = &self.tls {
            tls.restore();
        }
    }

    fn count_switch(&self, control: &Control, switch: u64) {
        let counters = &self.queues.remote.counters;
        counters.switches.set(switch);
        control.set_last_switch(switch);
        counters.running.set(control.id().get());
        counters.spawn_site.store(Some(control.spawn_site()));
    }

    #[inline(always)]
    fn run_fiber_by(
        &self,
        resume: impl Fn(&Worker, Started) -> (Started, Option<Pause>),
        fiber: Started,
        switch: u64,
        calls: i32,
    ) -> Ran {
        self.count_switch(fiber.control(), switch);
        current::set_running(Some(fiber));
        budget::set(calls);
        let (fiber, pause) = resume(self, fiber);
        if pause == Some(Pause::Yielded) && self.queues.alerts.is_empty() {
            self.queues.ready.push_staying(fiber);
            return Ran::Quiet;
        }
        self.leave_fiber(fiber, pause);
        Ran::Alerted
    }

    /// Runs a fiber until it pauses, or returns `None` when it has ended; and the fiber.
    #[inline(always)]
    fn resume(&self, fiber: Started) -> (Started, Option<Pause>) {
        match &self.context {
            None => resume(fiber),
            Some(context) => resume_in(&**context, fiber),
        }
    }

    /// Takes a fiber that has left its stack on like [`leave_fiber`](Worker::leave_fiber). A
    /// function of its own, so that the loop stays small.
    #[inline(never)]
    fn leave_settled(&self, fiber: Started, pause: Option<Pause>) {
        self.leave_fiber(fiber, pause);
    }

    /// Takes a fiber that has left its stack to where it waits, or to its end.
    #[inline(always)]
    fn leave_fiber(&self, fiber: Started, pause: Option<Pause>) {
        match pause {
            Some(pause) if !self.queues.alerts.is_empty() => self.pause_alerted(fiber, pause),
            Some(pause) => {
                current::set_running(None);
                self.complete_pause(fiber, pause);
            }
            None => {
                current::set_running(None);
                self.fibers.end(fiber, &self.queues, &self.io, &self.panics);
            }
        }
    }

    /// Records that the loop runs, and no fiber.
    pub(super) fn record_no_fiber(&self) {
        self.restore_thread_pointer();
        current::set_running(None);
        self.queues.remote.counters.running.set(0);
    }

    #[inline(never)]
    fn pause_alerted(&self, fiber: Started, pause: Pause) {
        if self.queues.alerts.has(Alerts::PANICS | Alerts::TRACED) {
            self.pause_watched(fiber, pause);
        } else {
            current::set_running(None);
            self.complete_pause(fiber, pause);
        }
    }

    #[cold]
    fn pause_watched(&self, fiber: Started, pause: Pause) {
        if self.queues.is_traced() {
            self.queues.trace_leave(fiber.control(), Some(pause));
        }
        if self.queues.alerts.has(Alerts::PANICS) {
            self.pause_checked(fiber, pause);
        } else {
            current::set_running(None);
            self.complete_pause(fiber, pause);
        }
    }

    /// Hands on a fiber that has left its stack, if some fiber is suspended during its panic.
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
            Some(pause) => self.complete_pause(fiber, pause),
            None => self.fibers.end(fiber, &self.queues, &self.io, &self.panics),
        }
    }

    /// Passes a fiber that has left its stack on to where it waits. From then on others may resume
    /// it.
    pub(super) fn complete_pause(&self, fiber: Started, pause: Pause) {
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
            Pause::Alone => unreachable!("the thread of the fiber has no worker"),
            Pause::Abandoned => self.fibers.abandon(fiber, &self.queues, &self.io),
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

/// Restores the thread pointer of a thread without a worker, whose fiber has left its stack.
#[cold]
#[inline(never)]
#[allow(unsafe_code, reason = "the thread pointer of the thread")]
fn leave_alone(fiber: Started) -> Ran {
    let record = fiber.control().record().expect("it has a record");
    // SAFETY: the taker has stored the pointer of this thread.
    unsafe { tls::restore(record.thread()) };
    Ran::Alone(fiber)
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

//! What a worker records while a tool [traces](crate::root::EventKind) the process.
//!
//! A worker that is not traced does nothing for it. While it is, one of its [alerts](super::super::alerts)
//! is set, no batch is plain, and no spawn ordinary, so that all that is recorded takes the ways of
//! what is rare.

use std::cell::Cell;
use std::time::Instant;

use super::Queues;
use crate::fiber::{Control, Pause, Started};
use crate::root::{EventKind, Leave};
use crate::sched::shared::history;
use crate::sched::worker::alerts::Alerts;

/// The part of a worker that records.
#[derive(Debug, Default)]
pub(in crate::sched) struct Tracer {
    /// When the running fiber was resumed.
    resumed_ns: Cell<u64>,
    /// Number of operations submitted when that was recorded last, if it was.
    submissions: Cell<Option<u64>>,
}

fn now_ns() -> u64 {
    history::time_ns(Instant::now())
}

impl Queues {
    /// Returns `true` if events are recorded.
    pub(in crate::sched) fn is_traced(&self) -> bool {
        self.alerts.has(Alerts::TRACED)
    }

    /// Begins or stops to record events.
    #[cold]
    pub(in crate::sched) fn set_traced(&self, is_traced: bool) {
        if is_traced {
            self.remote.events.make_room();
            self.tracer.resumed_ns.set(now_ns());
            self.tracer.submissions.set(None);
        }
        self.alerts.set(Alerts::TRACED, is_traced);
        self.ready.set_traced(is_traced);
        self.note_spawns();
    }

    /// Records that a fiber is about to be resumed.
    #[cold]
    pub(in crate::sched) fn trace_resume(&self) {
        self.tracer.resumed_ns.set(now_ns());
    }

    /// Records that the running fiber has left its stack, before others may resume it. It has ended
    /// if there is no `pause`.
    #[cold]
    pub(in crate::sched) fn trace_leave(&self, fiber: &Control, pause: Option<Pause>) {
        let leave = match pause {
            Some(Pause::Yielded) => Leave::Yield,
            Some(Pause::Spent) => Leave::Spent,
            // One that returns to its worker is resumed at once.
            Some(Pause::Parked | Pause::Alone) => Leave::Park,
            Some(Pause::Submitted) => Leave::Operation,
            Some(Pause::Abandoned) => Leave::Abandon,
            None => Leave::End,
        };
        let site = std::ptr::from_ref(fiber.spawn_site()).addr() as u64;
        let times = (self.tracer.resumed_ns.get(), now_ns());
        let fields = [times.0, times.1, fiber.id().get(), site];
        self.remote.events.add(EventKind::Run, leave as u8, fields);
    }

    /// Records that a fiber of this worker is ready, unless it is the running one.
    #[cold]
    pub(in crate::sched) fn trace_ready(&self, fiber: Started) {
        let (fiber, running) = (fiber.control().id().get(), self.running_id());
        if fiber != running {
            self.trace_moment(EventKind::Ready, fiber, running);
        }
    }

    /// Records that the running fiber has woken one of another worker.
    #[cold]
    pub(in crate::sched) fn trace_wake(&self, fiber: Started) {
        let woken = fiber.control().id().get();
        self.trace_moment(EventKind::Wake, self.running_id(), woken);
    }

    /// Records an event without a duration, of this fiber or of none.
    #[cold]
    pub(in crate::sched) fn trace_moment(&self, kind: EventKind, fiber: u64, other: u64) {
        let now = now_ns();
        self.remote.events.add(kind, 0, [now, now, fiber, other]);
    }

    /// Records that the worker has slept or submitted operations since this time.
    #[cold]
    pub(in crate::sched) fn trace_driver(&self, kind: EventKind, begin: Instant, submissions: u64) {
        let before = self.tracer.submissions.replace(Some(submissions));
        let submitted = submissions.wrapping_sub(before.unwrap_or(submissions));
        let times = (history::time_ns(begin), now_ns());
        if kind == EventKind::Sleep || submitted > 0 {
            let fields = [times.0, times.1, 0, submitted];
            self.remote.events.add(kind, 0, fields);
        }
    }

    /// Records that the worker goes on with the calling thread, while its fiber keeps the one that
    /// it had.
    #[cold]
    pub(in crate::sched) fn trace_detach(&self) {
        let begin = self.tracer.resumed_ns.get();
        let site = self.remote.counters.spawn_site.load();
        let site = site.map_or(0, |site| std::ptr::from_ref(site).addr() as u64);
        let fields = [begin, now_ns(), self.running_id(), site];
        self.remote.events.add(EventKind::Detach, 0, fields);
    }

    fn running_id(&self) -> u64 {
        self.remote.counters.running.get()
    }
}

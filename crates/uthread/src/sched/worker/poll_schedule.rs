//! When a worker has to submit its operations and to poll for events, at the latest. A batch of
//! fibers ends then.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::alerts::Alerts;
use super::queues::Queues;
use crate::sched::reactor::driver_cell::DriverCell;

/// Time after which a batch ends early if no submissions wait, but fibers wait for events that the
/// worker has to poll for.
const BLIND_TIME_MAX: Duration = Duration::from_micros(400);

/// Number of clock reads for this that are skipped after each one: there are several per fiber, and
/// they cost as much as the rest of a switch.
const LOOKS_SPARED: u32 = 7;

/// While it has a time, the alert [`Alerts::BATCH_END`] is set.
#[derive(Default)]
pub(super) struct PollSchedule {
    /// The end of the batch if the driver has operations to submit: fibers may compute between
    /// their calls.
    flush_at: Cell<Option<Instant>>,
    /// The shortest time within which one of them has to be submitted, as of its start.
    flush_time: Cell<Duration>,
    /// The end of the batch if a fiber waits for an event that the driver has to poll for.
    look_at: Cell<Option<Instant>>,
    /// `true` if that is only because events have not been polled for.
    is_blind: Cell<bool>,
    /// Number of clock reads for this that are still skipped.
    looks_spared: Cell<u32>,
}

impl PollSchedule {
    /// Returns `true` if submissions have waited for long, or must be submitted for events to
    /// occur; or if events have not been polled for long.
    pub(super) fn is_due(&self, queues: &Queues, driver: &DriverCell) -> bool {
        if let Some(flush_at) = self.flush_at.get() {
            let driver = driver.lock();
            // Sends gather for longer only while the driver knows of enough events.
            let look_at = self.look_at.get().filter(|_| !self.is_blind.get());
            let end = look_at.map_or(flush_at, |at| at.min(flush_at));
            return driver.is_flush_due() || driver.is_over(end);
        }
        let Some(look_at) = self.look_at.get() else {
            return false;
        };
        if let Some(spared) = self.looks_spared.get().checked_sub(1) {
            self.looks_spared.set(spared);
            return false;
        }
        // Once due, it remains so until the poll.
        let is_due = driver.lock().is_over(look_at);
        let is_spared = !is_due && !queues.ready.is_ordered() && !queues.ready.has_spent();
        self.looks_spared
            .set(if is_spared { LOOKS_SPARED } else { 0 });
        is_due
    }

    /// Ends the batch after the running fiber.
    pub(super) fn end_batch(&self, queues: &Queues, now: Instant) {
        self.flush_at.set(Some(now));
        queues.alerts.set(Alerts::BATCH_END, true);
    }

    /// Ends the batch after this time at the latest, as the driver has operations to submit.
    pub(super) fn flush_within(
        &self,
        queues: &Queues,
        time: Duration,
        now: impl FnOnce() -> Instant,
    ) {
        let flush_at = self.flush_at.get();
        if flush_at.is_none() {
            queues.alerts.set(Alerts::BATCH_END, true);
        } else if time >= self.flush_time.get() {
            return;
        }
        let end = now() + time;
        self.flush_at
            .set(Some(flush_at.map_or(end, |at| at.min(end))));
        self.flush_time.set(time);
    }

    /// Records that a fiber waits for an event that the driver has to poll for.
    pub(super) fn count_awaited(&self, queues: &Queues, now: impl FnOnce() -> Instant) {
        self.set_look_at(queues, BLIND_TIME_MAX, true, now);
    }

    /// Ends the batch after this time at the latest, unless it has an end.
    pub(super) fn look_within(
        &self,
        queues: &Queues,
        time: Duration,
        now: impl FnOnce() -> Instant,
    ) {
        self.set_look_at(queues, time, false, now);
    }

    fn set_look_at(
        &self,
        queues: &Queues,
        time: Duration,
        is_blind: bool,
        now: impl FnOnce() -> Instant,
    ) {
        if self.look_at.get().is_none() {
            self.is_blind.set(is_blind);
            self.look_at.set(Some(now() + time));
            queues.alerts.set(Alerts::BATCH_END, true);
        }
    }

    /// Records that the driver is about to submit its operations and to poll. Returns `true` if there
    /// are other alerts.
    #[inline]
    pub(super) fn mark_flushed(&self, queues: &Queues) -> bool {
        self.flush_at.set(None);
        self.look_at.set(None);
        queues.alerts.clear(Alerts::BATCH_END)
    }
}

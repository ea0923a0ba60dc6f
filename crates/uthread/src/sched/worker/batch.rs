//! A batch: the fibers that a worker runs between two looks at its driver, inbox and timers.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::Worker;
use crate::fiber::Started;

/// Number of fibers that run before the worker checks timers, inbox and ring: few enough that none waits
/// long, enough that one system call serves many.
pub(super) const BATCH_FIBERS: usize = 64;

/// Time after which a batch ends early if submissions wait for its end, as fibers may compute between their
/// calls. Relative to this time, a system call costs a percent or two.
const BATCH_TIME_MAX: Duration = Duration::from_micros(50);

/// Time after which a batch ends early if no submissions wait, but fibers wait for events that the worker has
/// to poll for.
const BLIND_TIME_MAX: Duration = Duration::from_micros(400);

/// Number of clock reads for this that are skipped after each one: there are several per fiber, and they cost
/// as much as the rest of a switch.
const LOOKS_SPARED: u32 = 7;

/// Every fourth fiber to run is the oldest new one, so that neither fibers that never wait nor newer ones can
/// keep it from starting.
const NEW_FIBER_TURN: usize = 4;

/// The state of the present batch.
pub(super) struct Batch {
    /// Number of fibers chosen to run, modulo [`NEW_FIBER_TURN`]. Counted across batches, which may consist of a single fiber.
    turn: Cell<usize>,
    /// The end of the batch if the driver has operations to submit.
    flush_at: Cell<Option<Instant>>,
    /// The end of the batch if a fiber waits for an event that the driver has to poll for.
    look_at: Cell<Option<Instant>>,
    /// Number of clock reads for this that are still skipped.
    looks_spared: Cell<u32>,
    /// `true` if either time is set.
    has_end: Cell<bool>,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch {
            turn: Cell::new(0),
            flush_at: Cell::new(None),
            look_at: Cell::new(None),
            looks_spared: Cell::new(0),
            has_end: Cell::new(false),
        }
    }
}

impl Worker {
    pub(super) fn run_batch(&self) {
        match self.migrating {
            false => self.run_batch_of(Worker::next_fiber),
            true => self.run_batch_of(Worker::next_migrating),
        }
    }

    #[inline(always)]
    fn run_batch_of(&self, next: impl Fn(&Worker, usize) -> Option<Started>) {
        let mut turn = self.batch.turn.get() % NEW_FIBER_TURN;
        let end = turn + BATCH_FIBERS;
        while turn < end {
            turn += 1;
            match next(self, turn) {
                Some(fiber) => self.run_fiber(fiber),
                None => break,
            }
            if self.is_flush_due() {
                break;
            }
        }
        self.batch.turn.set(turn);
        self.remote.counters.running.set(0);
    }

    #[inline(always)]
    fn next_fiber(&self, turn: usize) -> Option<Started> {
        self.start_oldest(turn)
            .or_else(|| self.ready.pop_staying())
            .or_else(|| self.start_newest())
    }

    #[inline(never)]
    fn next_migrating(&self, turn: usize) -> Option<Started> {
        let fiber = self.start_oldest(turn).or_else(|| self.next_stealable());
        self.announce_rest();
        fiber
    }

    /// Takes the fiber to run next, if fibers migrate and none is to start first.
    fn next_stealable(&self) -> Option<Started> {
        self.ready.pop_stealable().or_else(|| self.start_newest())
    }

    /// Returns `true` if submissions have waited for long, or must be submitted for events to occur; or if
    /// events have not been polled for long.
    #[inline(always)]
    pub(super) fn is_flush_due(&self) -> bool {
        self.batch.has_end.get() && self.is_time_to_flush()
    }

    #[inline(never)]
    fn is_time_to_flush(&self) -> bool {
        if let Some(flush_at) = self.batch.flush_at.get() {
            let driver = self.driver.borrow();
            return driver.is_flush_due() || driver.now() >= flush_at;
        }
        let Some(look_at) = self.batch.look_at.get() else {
            return false;
        };
        if let Some(spared) = self.batch.looks_spared.get().checked_sub(1) {
            self.batch.looks_spared.set(spared);
            return false;
        }
        // Once due, it remains so until the poll.
        let is_due = self.now() >= look_at;
        self.batch
            .looks_spared
            .set(if is_due { 0 } else { LOOKS_SPARED });
        is_due
    }

    /// Submits the driver's operations without sleeping.
    pub(super) fn flush(&self) {
        self.mark_flushed();
        self.driver.borrow_mut().flush();
    }

    /// Records that the driver has operations to submit.
    pub(super) fn mark_unflushed(&self) {
        if self.batch.flush_at.get().is_none() {
            self.batch.flush_at.set(Some(self.now() + BATCH_TIME_MAX));
            self.batch.has_end.set(true);
        }
    }

    /// Records that a fiber waits for an event that the driver has to poll for.
    pub(super) fn count_awaited(&self) {
        if self.batch.look_at.get().is_none() {
            self.batch.look_at.set(Some(self.now() + BLIND_TIME_MAX));
            self.batch.has_end.set(true);
        }
    }

    /// Records that the driver is about to submit its operations and to poll.
    pub(super) fn mark_flushed(&self) {
        self.batch.flush_at.set(None);
        self.batch.look_at.set(None);
        self.batch.has_end.set(false);
    }

    #[inline(never)]
    pub(super) fn start_newest(&self) -> Option<Started> {
        self.deque.pop().and_then(|fiber| self.start(fiber))
    }

    /// Starts the oldest new fiber if it is its turn.
    #[inline(always)]
    fn start_oldest(&self, turn: usize) -> Option<Started> {
        // Checked first: a steal costs a fence, even if there is nothing.
        match !turn.is_multiple_of(NEW_FIBER_TURN) || self.deque.is_empty() {
            true => None,
            false => self.steal_oldest(),
        }
    }

    #[inline(never)]
    fn steal_oldest(&self) -> Option<Started> {
        let oldest = self.remote.take_oldest();
        oldest.and_then(|fiber| self.start(fiber))
    }
}

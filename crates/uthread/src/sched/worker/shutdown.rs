//! The end of a worker: all waits are cancelled, and new calls are refused.
//!
//! ```text
//!   shut down   each worker cancels its remaining fibers, once; it ends when none is left
//!   abandon     each worker wakes its remaining fibers once more: a fiber that has to wait leaves its queue, and its
//!               worker forever (Pause::Abandoned). Operations in flight are cancelled and awaited as usual.
//!   join        the last worker to go to sleep shuts the runtime down if no fiber is left
//! ```
//!
//! A dropped runtime abandons its fibers by itself if it makes no progress: no fiber can run, no
//! operation is in flight, no timer is pending and no call runs on another thread, for
//! [`STILL_TIME_MAX`].
#![allow(
    clippy::inline_always,
    reason = "hot paths, whose instructions are counted"
)]

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::io::Io;
use super::queues::Queues;
use crate::fiber;
use crate::sched::shared::STILL_TIME_MAX;
use crate::sched::shared::abandonment::Abandonment;

/// The state of a worker whose runtime ends.
#[derive(Default)]
pub(super) struct Ending {
    cancelled_all: Cell<bool>,
    abandoned_all: Cell<bool>,
    /// The progress after the end of the runtime, and since when it has not changed.
    still_since: Cell<Option<(u64, Instant)>>,
}

impl Ending {
    /// Returns `true` if all waits have been cancelled.
    pub(super) fn has_begun(&self) -> bool {
        self.cancelled_all.get()
    }

    /// Returns `true` if the worker has nothing left.
    pub(super) fn is_over(&self, io: &Io) -> bool {
        self.cancelled_all.get() && io.reactor.borrow().is_deserted()
    }

    /// Cancels all remaining operations and parked fibers that are not shielded, once. New calls
    /// are refused.
    pub(super) fn cancel_all(&self, queues: &Queues, io: &Io) {
        let abandons = queues.shared.is_abandoned() && !self.abandoned_all.replace(true);
        if self.cancelled_all.replace(true) && !abandons {
            return;
        }
        queues.release_held();
        let mut reactor = io.reactor.borrow_mut();
        reactor.cancel_of(|fiber| {
            fiber.limits.cancel();
            abandons || fiber.limits.is_cancelled(true)
        });
        let live: Vec<_> = reactor.fibers().to_vec();
        drop(reactor);
        // Before they are woken.
        io.cancel_fibers();
        io.cancel_late(queues);
        live.iter().for_each(fiber::wake);
    }

    /// Returns `true` if [`cancel_all`](Ending::cancel_all) has work to do, or if the runtime shuts
    /// down now. Called in the last check before a sleep.
    #[inline(always)]
    pub(super) fn is_due(&self, queues: &Queues) -> bool {
        if queues.shared.is_running() {
            return false;
        }
        if !queues.shared.is_shut_down() {
            let joined = queues.shared.is_joining() && queues.shared.is_deserted();
            if joined {
                queues.shared.shut_down();
                queues.shared.notifier.stop();
            }
            return joined;
        }
        !self.cancelled_all.get() || (queues.shared.is_abandoned() && !self.abandoned_all.get())
    }

    /// Returns how long to sleep after the end of the runtime, if nothing is to be done before
    /// `next`. If the runtime makes no progress, abandons the remaining fibers.
    pub(super) fn rest(
        &self,
        queues: &Queues,
        io: &Io,
        next: Option<Duration>,
    ) -> Option<Duration> {
        let reactor = io.reactor.borrow_mut();
        let is_quiescent = reactor.has_nothing_to_come();
        drop(reactor);
        if !is_quiescent || queues.shared.is_abandoned() {
            self.still_since.set(None);
            return next;
        }
        let (now, progress) = (io.now(), queues.shared.progress());
        let before = self
            .still_since
            .get()
            .filter(|(count, _)| *count == progress);
        let since = before.map_or(now, |(_, since)| since);
        self.still_since.set(Some((progress, since)));
        let still = now.saturating_duration_since(since);
        if let Some(rest) = STILL_TIME_MAX
            .checked_sub(still)
            .filter(|rest| !rest.is_zero())
        {
            return Some(rest);
        }
        queues.remote.record_quiescence(true);
        if queues.shared.stands_still() {
            queues.shared.abandon(Abandonment::Reported);
            return Some(Duration::ZERO);
        }
        Some(STILL_TIME_MAX)
    }
}

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

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::io::Io;
use super::queues::Queues;
use crate::atomic::lock;
use crate::fiber;
use crate::sched::shared::abandonment::Abandonment;
use crate::sched::shared::{STILL_TIME_MAX, Shared};

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
    pub(super) fn is_over(&self, queues: &Queues, io: &Io) -> bool {
        // If fibers migrate, a fiber started elsewhere may still arrive.
        self.cancelled_all.get()
            && io.reactor.lock().is_deserted()
            && queues.shared.victims(queues.index).all(|remote| {
                let reactor = remote.reactor.get();
                reactor.is_none_or(|reactor| lock(reactor).is_deserted())
            })
    }

    /// Cancels all remaining operations and parked fibers that are not shielded, once. New calls
    /// are refused.
    pub(super) fn cancel_all(&self, queues: &Queues, io: &Io) {
        let abandons = queues.shared.is_abandoned() && !self.abandoned_all.replace(true);
        if self.cancelled_all.replace(true) && !abandons {
            return;
        }
        let mut reactor = io.reactor.lock();
        reactor.cancel_of(|fiber| {
            // If fibers migrate, the worker where it is registered may come to it only after its
            // operation has ended.
            fiber.limits.cancel();
            abandons || fiber.limits.is_cancelled(true)
        });
        let live: Vec<_> = reactor.fibers().cloned().collect();
        drop(reactor);
        // Before they are woken.
        io.cancel_fibers();
        io.cancel_late(queues);
        // If fibers migrate, one may have begun an operation on a worker that has cancelled its own
        // already.
        let end = if queues.migrating {
            fiber::end_wait
        } else {
            fiber::wake
        };
        live.iter().for_each(end);
    }

    /// Returns `true` if [`cancel_all`](Ending::cancel_all) has work to do, or if the runtime shuts
    /// down now. Called in the last check before a sleep.
    pub(super) fn is_due(&self, queues: &Queues) -> bool {
        if queues.shared.goes_on() {
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
        let reactor = io.reactor.lock();
        let rests = reactor.has_nothing_to_come();
        drop(reactor);
        if !rests || queues.shared.is_abandoned() {
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
        queues.remote.rests.store(true, Ordering::Relaxed);
        if queues.shared.stands_still() {
            queues.shared.abandon(Abandonment::Reported);
            return Some(Duration::ZERO);
        }
        Some(STILL_TIME_MAX)
    }
}

impl Shared {
    /// Wakes all workers if they may have stayed for a reactor only, which has become empty.
    pub(in crate::sched) fn record_deserted(&self) {
        if self.is_migrating() && self.is_shut_down() {
            // Other workers may have stayed only because of this reactor.
            self.wake_all();
        }
    }
}

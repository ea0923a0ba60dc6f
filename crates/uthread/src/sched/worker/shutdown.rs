//! How a worker ends: all that waits is cancelled, and new calls are refused.
//!
//! ```text
//!   shut down   each worker cancels what is left, once; it ends when nothing is
//!   abandon     each worker wakes what is left, once more: a fiber that has to wait leaves the queue that it is in, and its
//!               worker for ever (Pause::Abandoned). Operations in flight are cancelled and awaited as ever.
//!   join        a worker that goes to sleep as the last, with no fiber left anywhere, shuts the runtime down
//! ```
//!
//! A runtime that was dropped abandons its fibers by itself where nothing goes on any more: no fiber can run, no operation is in
//! flight, no timer is pending, no call is made on another thread, and that for [`STILL_TIME_MAX`].

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Worker;
use crate::atomic::lock;
use crate::fiber::Started;
use crate::fiber::control::FiberKey;
use crate::sched::shared::{Abandonment, STILL_TIME_MAX};

impl Worker {
    pub(super) fn has_ended(&self) -> bool {
        // Where fibers migrate, one that started elsewhere may yet come here.
        self.cancelled_all.get()
            && self.reactor.lock().is_deserted()
            && self.shared.victims(self.index).all(|remote| {
                let reactor = remote.reactor.get();
                reactor.is_none_or(|reactor| lock(reactor).is_deserted())
            })
    }

    /// Called when a reactor has got empty.
    pub(super) fn record_deserted(&self) {
        if self.migrating && self.shared.is_shut_down() {
            // Others may have stayed only for what was there.
            self.shared.wake_all();
        }
    }

    /// Cancels what is left and not shielded, once: operations, parked fibers. New calls are refused.
    pub(super) fn cancel_all(&self) {
        let abandons = self.shared.is_abandoned() && !self.abandoned_all.replace(true);
        if self.cancelled_all.replace(true) && !abandons {
            return;
        }
        let mut reactor = self.reactor.lock();
        reactor.cancel_of(|fiber| abandons || fiber.limits.is_cancelled(true));
        let live: Vec<_> = reactor.fibers().map(Arc::clone).collect();
        drop(reactor);
        self.cancel_late();
        live.iter().for_each(crate::fiber::wake);
    }

    /// Whether [`cancel_all`](Worker::cancel_all) has something to do, or the runtime shuts down now: called in the last look
    /// before a sleep.
    pub(super) fn is_end_due(&self) -> bool {
        if !self.shared.is_shut_down() {
            let joined = self.shared.is_joining() && self.shared.is_deserted();
            if joined {
                self.shared.shut_down();
                self.shared.notifier.stop();
            }
            return joined;
        }
        !self.cancelled_all.get() || (self.shared.is_abandoned() && !self.abandoned_all.get())
    }

    /// For how long to sleep after the end of the runtime, if there is nothing to do before `next`. Where nothing goes on any
    /// more the fibers that are left are abandoned.
    pub(super) fn rest(&self, next: Option<Duration>) -> Option<Duration> {
        let reactor = self.reactor.lock();
        let rests = reactor.has_nothing_to_come();
        drop(reactor);
        if !rests || self.shared.is_abandoned() {
            self.still_since.set(None);
            return next;
        }
        let (now, switches) = (self.now(), self.shared.switches());
        let before = self
            .still_since
            .get()
            .filter(|(count, _)| *count == switches);
        let since = before.map_or(now, |(_, since)| since);
        self.still_since.set(Some((switches, since)));
        let still = now.saturating_duration_since(since);
        if let Some(rest) = STILL_TIME_MAX
            .checked_sub(still)
            .filter(|rest| !rest.is_zero())
        {
            return Some(rest);
        }
        self.remote.rests.store(true, Ordering::Relaxed);
        if self.shared.stands_still() {
            self.shared.abandon(Abandonment::Reported);
            return Some(Duration::ZERO);
        }
        Some(STILL_TIME_MAX)
    }

    /// Lets a fiber go that is never resumed. It stays where it is, with its stack.
    #[cold]
    pub(super) fn let_go(&self, fiber: Started) {
        self.remote.counters.ended.add(1);
        let FiberKey { worker, index } = fiber.control().key.get();
        let (left, deserted) = self.with_reactor(worker as usize, |reactor| {
            (reactor.discharge(index), reactor.is_deserted())
        });
        self.shared
            .remote(worker as usize)
            .forget_name(left.control());
        self.shared.keep_abandoned(left);
        if deserted {
            self.record_deserted();
        }
    }
}

//! The sleep of a worker without work. Its protocol is in the README of `sched`.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::neighbors::STUCK;
use super::{Worker, exit};

/// The state of a worker that sleeps, or is about to.
#[derive(Default)]
pub(super) struct Sleep {
    /// `true` while this worker is counted as searching.
    pub(super) searching: Cell<bool>,
    /// `true` if the last check before a sleep saw work that any worker may take.
    saw_work: Cell<bool>,
    /// Number of sleeps.
    count: Cell<u32>,
}

impl Worker {
    /// Announces sleep and checks for work once more. Returns how long to wait. README.md describes the
    /// protocol.
    pub(super) fn announce_sleep(&self) -> Option<Duration> {
        self.queues.new.release_room();
        self.queues
            .shared
            .idle()
            .announce_sleep(&self.queues.remote.sleeper);
        self.sleep.searching.set(false);
        let saw_work = self.queues.shared.has_stealable_work();
        self.sleep.saw_work.set(saw_work);
        let has_work = saw_work || self.queues.remote.inbox().has_mail() || self.is_end_due();
        if has_work {
            return Some(Duration::ZERO);
        }
        let next = self.io.reactor.lock().next_deadline();
        let next = next.map(|deadline| deadline.saturating_duration_since(self.io.now()));
        let next = match self.queues.do_others_have_handed() {
            false => next,
            true => Some(next.map_or(STUCK, |next| next.min(STUCK))),
        };
        match self.ending.cancelled_all.get() {
            false => next,
            true => self.rest(next),
        }
    }

    /// Keeps other workers from the reactor during the sleep. Returns `false` if the sleep is over already.
    #[inline(always)]
    pub(crate) fn close_reactor(&self) -> bool {
        self.io.close_reactor()
    }

    pub(crate) fn wait(&self, timeout: Option<Duration>) {
        let idle = self.io.wait(&self.queues, timeout);
        self.sleep.count.update(|sleeps| sleeps.wrapping_add(1));
        exit::record_sleep(self.sleep.count.get());
        self.queues.remote.counters.add_idle(idle);
    }

    pub(crate) fn wake_up(&self) {
        self.io.open_reactor();
        if self.ending.cancelled_all.get() {
            self.queues.remote.rests.store(false, Ordering::Relaxed);
        }
        let idle = self.queues.shared.idle();
        let searching = idle.end_sleep(&self.queues.remote.sleeper, self.sleep.saw_work.get());
        self.sleep.searching.set(searching);
        self.queues.shared.notifier.notify();
    }
}

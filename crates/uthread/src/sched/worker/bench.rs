//! A worker in whose place others go on ([`spares`](crate::sched::shared::spares)): it stands aside
//! before a call that blocks; benched, it runs no fibers, and passes on what its ring and timers
//! still have.

use std::time::Duration;

use super::Worker;

impl Worker {
    /// Takes a place among the active workers, as this one was away, or sits out until there is
    /// one.
    pub(super) fn settle(&self) {
        if self.queues.shared.settle(self.queues.index) {
            // A waker may rely on its search.
            self.sleep.end_search(&self.queues);
            self.sit_out();
        }
    }

    /// Lets another worker go on in place of this one, whose fiber is about to block its thread.
    /// Returns `false` if there is none.
    pub(in crate::sched) fn stand_aside(&self) -> bool {
        let shared = &self.queues.shared;
        if !shared.has_spares() {
            return false;
        }
        self.io.flush(&self.queues);
        self.queues.remote.duty.is_away() || shared.replace(self.queues.index)
    }

    /// Waits until the worker is active, or its runtime is shut down.
    pub(super) fn sit_out(&self) {
        self.probes.discard(&self.queues);
        while self.is_benched() {
            self.io.flush(&self.queues);
            self.take_in();
            self.queues.give_away();
            if self.queues.ready.has_staying() {
                // Only this worker may run them.
                self.run_batch();
                continue;
            }
            self.queues.remote.sleeper.begin_rest();
            let timeout = self.rest_timeout();
            if self.io.close_reactor() {
                self.wait(timeout);
            }
            self.io.open_reactor();
            self.queues.remote.sleeper.end_rest();
        }
        self.queues.shared.notifier.notify();
    }

    fn is_benched(&self) -> bool {
        self.queues.remote.duty.is_benched() && !self.queues.shared.is_shut_down()
    }

    /// Returns how long to wait, after a last look for what this worker alone may take.
    fn rest_timeout(&self) -> Option<Duration> {
        if !self.is_benched()
            || self.queues.remote.inbox().has_mail()
            || self.ending.is_due(&self.queues)
        {
            return Some(Duration::ZERO);
        }
        let next = self.io.reactor.lock().next_deadline()?;
        Some(next.saturating_duration_since(self.io.now()))
    }
}

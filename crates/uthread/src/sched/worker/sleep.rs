//! The sleep of a worker without work. Its protocol is in the README of `sched`.

use std::cell::Cell;
use std::time::Duration;

use super::exit;
use super::io::Io;
use super::neighbors::STUCK;
use super::queues::Queues;
use super::shutdown::Ending;

/// The state of a worker that sleeps, or is about to.
#[derive(Default)]
pub(super) struct Sleep {
    /// `true` while this worker is counted as searching.
    searching: Cell<bool>,
    /// `true` if the last check before a sleep saw work that any worker may take.
    saw_work: Cell<bool>,
    /// `true` if the announced sleep is that of an inactive worker.
    rests: Cell<bool>,
    /// Number of sleeps.
    count: Cell<u32>,
}

impl Sleep {
    /// Returns `true` while this worker is counted as searching.
    pub(super) fn is_searching(&self) -> bool {
        self.searching.get()
    }

    /// Counts this worker as searching.
    pub(super) fn begin_search(&self, queues: &Queues) {
        if !self.searching.replace(true) {
            queues.shared.idle().begin_search();
        }
    }

    /// Stops counting this worker as searching. The last one that searches wakes another one if
    /// there is still work.
    pub(super) fn end_search(&self, queues: &Queues) {
        if self.searching.replace(false)
            && queues.shared.idle().end_search()
            && queues.shared.has_stealable_work()
        {
            queues.wake_one();
        }
    }

    /// Announces sleep and checks for work once more. Returns how long to wait. README.md describes
    /// the protocol.
    pub(super) fn announce(&self, queues: &Queues, io: &Io, ending: &Ending) -> Option<Duration> {
        queues.new.release_room();
        queues.shared.idle().announce_sleep(&queues.remote.sleeper);
        self.searching.set(false);
        let saw_work = queues.shared.has_stealable_work();
        self.saw_work.set(saw_work);
        let has_work = saw_work || queues.remote.inbox().has_mail() || ending.is_due(queues);
        if has_work {
            return Some(Duration::ZERO);
        }
        let next = io.reactor.borrow_mut().next_deadline();
        let next = next.map(|deadline| deadline.saturating_duration_since(io.now()));
        let next = if queues.others_have_handed() {
            Some(next.map_or(STUCK, |next| next.min(STUCK)))
        } else {
            next
        };
        if ending.has_begun() {
            ending.rest(queues, io, next)
        } else {
            next
        }
    }

    /// Announces the sleep of an inactive worker, which does not search, and checks once more for
    /// what concerns it. Returns how long to wait.
    pub(super) fn announce_rest(
        &self,
        queues: &Queues,
        io: &Io,
        ending: &Ending,
    ) -> Option<Duration> {
        debug_assert!(!self.searching.get(), "an inactive worker does not search");
        self.rests.set(true);
        queues.shared.idle().announce_rest(&queues.remote.sleeper);
        let is_active = queues.shared.is_active(queues.index);
        if is_active || queues.remote.inbox().has_mail() || ending.is_due(queues) {
            return Some(Duration::ZERO);
        }
        let next = io.reactor.borrow_mut().next_deadline();
        next.map(|deadline| deadline.saturating_duration_since(io.now()))
    }

    /// Sleeps until an event, or for this time.
    pub(super) fn wait(&self, queues: &Queues, io: &Io, timeout: Option<Duration>) {
        let idle = io.wait(queues, timeout);
        self.count.update(|sleeps| sleeps.wrapping_add(1));
        exit::record_sleep(self.count.get());
        queues.remote.counters.add_idle(idle);
    }

    /// Records that the worker is awake, whatever has woken it.
    pub(super) fn wake_up(&self, queues: &Queues) {
        let idle = queues.shared.idle();
        let mut searching = idle.end_sleep(&queues.remote.sleeper, self.saw_work.get());
        // Tested second: most sleeps end without a waker.
        if searching && self.rests.replace(false) {
            idle.end_rest(&queues.remote.sleeper);
            searching = false;
        }
        self.searching.set(searching);
        queues.shared.notifier.notify();
    }
}

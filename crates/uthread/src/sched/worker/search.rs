//! How a worker without work searches for fibers elsewhere, and wakes others for surplus work.

use super::Worker;
use crate::fiber::Started;

impl Worker {
    /// Searches for fibers elsewhere. Runs one if it finds any.
    pub(super) fn search(&self) -> bool {
        if !self.sleep.searching.replace(true) {
            self.shared.idle().begin_search();
        }
        if let Some(fiber) = self.take_started() {
            self.end_search();
            self.flush();
            self.run_found(fiber);
            return true;
        }
        let counters = &self.remote.counters;
        let injected = self.shared.take_many_injected(&self.new);
        let found = injected.inspect(|_| counters.injected.add(1)).or_else(|| {
            let stolen = self.shared.steal(self.index, &self.new);
            stolen.inspect(|_| self.count_steal())
        });
        let found = found.or_else(|| self.take_handed_of_others());
        let started = match found {
            Some(fiber) => {
                self.end_search();
                self.flush();
                self.start(fiber)
            }
            None => {
                let Some(refused) = self.start_refused() else {
                    return false;
                };
                self.end_search();
                self.flush();
                Some(refused)
            }
        };
        if let Some(fiber) = started {
            self.run_found(fiber);
        }
        true
    }

    #[inline(never)]
    fn run_found(&self, fiber: Started) {
        self.announce_rest();
        let switch = self.remote.counters.switches.get().wrapping_add(1);
        self.run_fiber(fiber, switch);
        self.record_no_fiber();
    }

    pub(super) fn end_search(&self) {
        if self.sleep.searching.replace(false)
            && self.shared.idle().end_search()
            && self.shared.has_stealable_work()
        {
            self.wake_one();
        }
    }

    /// Wakes another worker for work queued here, if that is needed.
    pub(super) fn wake_one(&self) {
        // A single worker is awake, as it is the caller.
        self.count_wake(self.shared.workers() > 1 && self.shared.wake_one());
    }

    pub(in crate::sched) fn count_wake(&self, sent: bool) {
        let counters = &self.remote.counters;
        match sent {
            true => counters.wakes_sent.add(1),
            false => counters.wakes_spared.add(1),
        }
    }
}

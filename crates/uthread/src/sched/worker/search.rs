//! How a worker without work searches for new fibers elsewhere.

use std::ops::ControlFlow;

use super::Worker;
use super::queues::pick::Starter;
use super::running::Ran;
use crate::fiber::Started;

impl Worker {
    /// Searches for fibers elsewhere. Runs one if it finds any, and returns `true`. Returns the
    /// fiber that this thread ran when its worker was taken.
    pub(super) fn search(&self) -> ControlFlow<Started, bool> {
        self.sleep.begin_search(&self.queues);
        if let Some(fiber) = self.queues.next_ordered(self) {
            self.sleep.end_search(&self.queues);
            self.io.flush(&self.queues);
            self.run_found(fiber)?;
            return ControlFlow::Continue(true);
        }
        let handed = || self.neighbors.take_handed(&self.queues, || self.io.now());
        let found = self.queues.take_new().or_else(handed);
        let started = match found {
            Some(fiber) => {
                self.sleep.end_search(&self.queues);
                self.io.flush(&self.queues);
                self.start(fiber)
            }
            None => {
                let Some(refused) = self.fibers.start_refused(&self.queues, &self.io) else {
                    return ControlFlow::Continue(false);
                };
                self.sleep.end_search(&self.queues);
                self.io.flush(&self.queues);
                Some(refused)
            }
        };
        if let Some(fiber) = started {
            self.run_found(fiber)?;
        }
        ControlFlow::Continue(true)
    }

    fn run_found(&self, fiber: Started) -> ControlFlow<Started> {
        let switch = self.queues.remote.counters.switches.get().wrapping_add(1);
        if let Ran::Alone(fiber) = self.run_recorded(fiber, switch) {
            return ControlFlow::Break(fiber);
        }
        self.record_no_fiber();
        ControlFlow::Continue(())
    }
}

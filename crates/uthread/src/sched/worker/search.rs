//! How a worker without work searches for fibers elsewhere: new ones and, if fibers migrate, ready
//! ones and those whose operations have completed on a worker that is busy.

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
        if let Some(fiber) = self.take_started() {
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

    /// Takes ready fibers from elsewhere. Returns one, and may queue others.
    fn take_started(&self) -> Option<Started> {
        if self.queues.ready.is_plain() {
            None
        } else {
            self.queues
                .next_ordered(self)
                .or_else(|| self.take_migrating())
        }
    }

    fn take_migrating(&self) -> Option<Started> {
        // Without a queue that others steal from, fibers do not migrate.
        self.queues.ready.stealable_queue()?;
        self.queues
            .take_ready()
            .or_else(|| {
                self.io.serve_others(&self.queues);
                self.queues.ready.pop_stealable()
            })
            .or_else(|| self.queues.next_ordered(self))
            .or_else(|| self.neighbors.take_next(&self.queues))
    }

    fn run_found(&self, fiber: Started) -> ControlFlow<Started> {
        self.queues.announce_rest();
        let switch = self.queues.remote.counters.switches.get().wrapping_add(1);
        if let Ran::Alone(fiber) = self.run_fiber(fiber, switch) {
            return ControlFlow::Break(fiber);
        }
        self.record_no_fiber();
        ControlFlow::Continue(())
    }
}

//! Spreads connections over the workers.
//!
//! A fiber that serves a connection soon waits for its first message, and stays on its worker from then on. Idle workers come too
//! late to steal it, so the worker that accepts would serve most connections. Therefore the first fiber that is spawned
//! after a connection was accepted starts on the next worker in turn. Others take it over only if that worker is
//! [stuck](super::relief).

use std::sync::atomic::Ordering;

use super::Worker;
use crate::fiber::FiberRef;

impl Worker {
    /// Makes the fiber that is spawned next on this worker start on the next worker in turn. Does nothing if fibers migrate.
    pub(in crate::sched) fn spread_next(&self) {
        let spreads = !self.migrating && self.shared.workers() > 1;
        self.spreads_next.set(spreads);
    }

    /// Hands a new fiber to the next worker in turn.
    #[cold]
    #[inline(never)]
    pub(super) fn spread(&self, fiber: FiberRef) {
        self.spreads_next.set(false);
        // Relaxed: nothing depends on it.
        let turn = self.shared.spread.fetch_add(1, Ordering::Relaxed);
        let worker = self.shared.remote(turn % self.shared.workers());
        if let Some(fiber) = worker.hand(fiber) {
            // That worker has ended with the runtime, before this one.
            self.queue(fiber);
        }
    }

    /// Starts a fiber that another worker, or this one, has handed to this worker.
    pub(super) fn start_spread(&self, fiber: FiberRef) {
        if let Some(fiber) = self.start(fiber) {
            self.make_ready_here(fiber);
        }
    }
}

//! The new fibers that any worker may take, as they come from outside the workers or have a
//! priority; and whose turn the next connection is.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crossbeam_deque::Injector;

use crate::fiber::FiberRef;
use crate::sched::queues::new_fibers::{NewFibers, take};
use crate::sched::queues::prioritized::SharedPrioritized;

pub(super) struct Arrivals {
    /// New fibers from outside the workers. Bounded by memory: `spawn` cannot refuse.
    injector: Injector<FiberRef>,
    /// Those whose priority is not normal, from the first one on.
    prioritized: OnceLock<Arc<SharedPrioritized>>,
    /// Number of fibers that were given to the workers in turn.
    spread: AtomicUsize,
}

impl Arrivals {
    pub(super) fn new() -> Arrivals {
        Arrivals {
            injector: Injector::new(),
            prioritized: OnceLock::new(),
            spread: AtomicUsize::new(0),
        }
    }

    /// Queues a normal fiber.
    pub(super) fn push(&self, fiber: FiberRef) {
        self.injector.push(fiber);
    }

    /// Takes a normal fiber.
    pub(super) fn take(&self) -> Option<FiberRef> {
        take(|| self.injector.steal())
    }

    /// Takes normal fibers. Returns one, and may put more into `new`.
    pub(super) fn take_many(&self, new: &NewFibers) -> Option<FiberRef> {
        new.take_from(&self.injector)
    }

    pub(super) fn prioritized(&self) -> Option<&Arc<SharedPrioritized>> {
        self.prioritized.get()
    }

    pub(super) fn prioritized_or_init(&self) -> &Arc<SharedPrioritized> {
        self.prioritized.get_or_init(Arc::default)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.injector.is_empty() && self.prioritized().is_none_or(|queues| queues.is_empty())
    }

    /// Returns the number of fibers.
    pub(super) fn len(&self) -> usize {
        self.injector.len() + self.prioritized().map_or(0, |queues| queues.len())
    }

    /// Returns the number of fibers that have not started.
    pub(super) fn unstarted(&self) -> usize {
        self.injector.len() + self.prioritized().map_or(0, |queues| queues.new_fibers())
    }

    /// Returns the number of the next turn to get a fiber.
    pub(super) fn next_turn(&self) -> usize {
        // Relaxed: nothing depends on it.
        self.spread.fetch_add(1, Ordering::Relaxed)
    }
}

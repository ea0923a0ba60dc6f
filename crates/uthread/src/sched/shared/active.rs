//! Which workers run fibers: the first ones, whose number can be changed while the runtime runs. The
//! others are *inactive*, as the README of `sched` describes.

use std::sync::atomic::{AtomicUsize, Ordering, fence};

use super::{Remote, Shared};

pub(super) struct Active {
    /// Number of active workers, at least 1.
    count: AtomicUsize,
}

impl Active {
    pub(super) fn new(count: usize) -> Active {
        Active {
            count: AtomicUsize::new(count),
        }
    }
}

impl Shared {
    /// Returns the number of active workers.
    pub(crate) fn active_workers(&self) -> usize {
        // Relaxed: whoever changes it wakes those that have to see it.
        self.active.count.load(Ordering::Relaxed)
    }

    /// Returns `true` if the worker with this index is active.
    pub(in crate::sched) fn is_active(&self, index: usize) -> bool {
        index < self.active_workers()
    }

    /// Sets the number of active workers: at least 1, and at most all.
    pub(crate) fn set_active_workers(&self, count: usize) {
        self.life.begin_resizing();
        let before = self.active.count.swap(count, Ordering::Relaxed);
        // Pairs with the fences in `announce_sleep` and `announce_rest`: a worker that has no waker
        // yet sees the number in its last look.
        fence(Ordering::SeqCst);
        let changed = before.min(count)..before.max(count);
        self.remotes[changed]
            .iter()
            .for_each(|remote| remote.wake());
    }

    /// Returns the active worker whose turn it is to get a fiber.
    pub(in crate::sched) fn next_in_turn(&self) -> &Remote {
        self.remote(self.arrivals.next_turn() % self.active_workers())
    }
}

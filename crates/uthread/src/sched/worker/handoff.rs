//! Hands fibers to workers from anywhere: new ones to the injector, woken ones to their worker.
//!
//! A caller on a worker's own thread queues without a lock; any other caller uses the inbox or the
//! injector.

use std::sync::atomic::Ordering;

use super::current;
use crate::clock::VirtualClock;
use crate::fiber::{FiberRef, Scheduler, Started};
use crate::priorities::Priority;
use crate::sched::shared::{Mail, Remote, Shared};

impl Shared {
    /// Queues a new fiber from outside the workers.
    pub(crate) fn inject(&self, fiber: FiberRef) {
        match fiber.control().limits.priority() {
            Priority::Normal => self.push_arrival(fiber),
            _ => self.queue_prioritized(fiber),
        }
        self.wake_one();
    }

    /// Wakes a sleeping worker for work that any worker may take, if one is needed. Returns `true`
    /// if it did.
    pub(in crate::sched) fn wake_one(&self) -> bool {
        if (self.workers() > 1 || !self.is_called_from_inside())
            && let Some(remote) = self.claim_one()
        {
            remote.wake();
            return true;
        }
        false
    }

    /// Cancels the fibers of the calling worker, if it belongs to this runtime.
    pub(in crate::sched) fn cancel_fibers_here(&self) {
        current::with_present_worker(|worker| {
            if std::ptr::eq(worker.shared(), self) {
                worker.io.cancel_fibers();
            }
        });
    }

    /// Returns `true` if the caller is one of the workers, and so awake.
    pub(crate) fn is_called_from_inside(&self) -> bool {
        current::with_present_worker(|worker| std::ptr::eq(worker.shared(), self)).unwrap_or(false)
    }
}

impl Remote {
    /// Hands a new fiber to the worker, which starts it unless it is stuck. Returns the fiber if
    /// the worker has ended.
    pub(super) fn hand(&self, fiber: FiberRef) -> Option<FiberRef> {
        self.handed.fetch_add(1, Ordering::Relaxed);
        let Some(Mail::New(fiber)) = self.mail(Mail::New(fiber)) else {
            return None;
        };
        self.count_handed_taken();
        Some(fiber)
    }

    /// Returns `true` if fibers were handed to the worker that it has not started.
    pub(in crate::sched) fn has_handed(&self) -> bool {
        self.handed.load(Ordering::Relaxed) > 0
    }

    /// Takes a fiber that was handed to the worker.
    pub(super) fn take_handed(&self) -> Option<FiberRef> {
        if !self.has_handed() {
            return None;
        }
        let mail = self.inbox.take_one(|mail| matches!(mail, Mail::New(_)));
        let Some(Mail::New(fiber)) = mail else {
            return None;
        };
        self.count_handed_taken();
        Some(fiber)
    }

    /// Counts a handed fiber that was taken from the inbox.
    pub(super) fn count_handed_taken(&self) {
        self.handed.fetch_sub(1, Ordering::Relaxed);
    }

    /// Sends `mail` to the worker, and wakes it if it sleeps. Returns `mail` if the worker has
    /// ended.
    pub(crate) fn mail(&self, mail: Mail) -> Option<Mail> {
        let refused = self.inbox.put(mail);
        if refused.is_some() {
            return refused;
        }
        let asleep = self.idle.claim_owner(&self.sleeper);
        if asleep {
            self.wake();
        }
        current::with_present_worker(|worker| worker.queues.count_wake(asleep));
        None
    }
}

impl Remote {
    /// Queues a fiber of this worker.
    #[inline]
    fn enqueue_own(&self, fiber: Started) {
        if current::with_present_worker(|worker| worker.queues.wake_own(self, fiber)) != Some(true)
        {
            self.mail(Mail::Ready(fiber));
        }
    }

    /// Queues a fiber that may have moved, or whose runtime may have abandoned it.
    #[cold]
    fn enqueue_unusual(&self, fiber: Started) {
        if self.abandonment.is_made() {
            // Also before its worker has come to cancel its fibers.
            fiber.control().limits.cancel();
        }
        let home = fiber.control().home.get();
        if home == self.index {
            self.enqueue_own(fiber);
        } else if let Some(home) = self.peer(home) {
            home.enqueue_own(fiber);
        } // Otherwise the runtime has ended, and has abandoned the fiber.
    }
}

/// A fiber returns to its worker. This is the one that has started it.
impl Scheduler for Remote {
    fn enqueue(&self, fiber: Started) {
        if self.abandonment.is_usual() {
            self.enqueue_own(fiber);
        } else {
            self.enqueue_unusual(fiber);
        }
    }

    fn is_abandoned(&self) -> bool {
        self.abandonment.is_made()
    }

    fn interrupt(&self, fiber: FiberRef, worker: u32) {
        if let Some(worker) = self.peer(worker) {
            worker.mail(Mail::Interrupt(fiber));
        }
    }

    fn clock(&self) -> Option<&VirtualClock> {
        self.clock.as_deref()
    }
}

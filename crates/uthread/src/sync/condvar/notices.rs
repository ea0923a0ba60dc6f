//! The protocol of a condition variable: a queue, and a lock that is released during the wait.
//!
//! A waiter enters the queue before it unlocks, so it is visible to any fiber or thread that locks
//! later and makes the condition true. A notification removes waiters from the queue. A waiter that
//! was removed has been notified, even if its deadline passes or it is cancelled at the same time.

use std::time::Instant;

use crate::atomic::{AtomicBool, Ordering};

use crate::sync::lock::Lock;
use crate::sync::parking_lot::{self, Dequeued, WaitEnd, WaitQueue};

pub(crate) struct Notices {
    /// `true` while there may be waiters. Written under the lock of the queue.
    awaited: AtomicBool,
}

impl Notices {
    /// Creates the state from its word, which must be false.
    pub(crate) const fn new(awaited: AtomicBool) -> Notices {
        Notices { awaited }
    }

    /// Unlocks `lock`, waits for a notification, and locks it again. The caller must hold it for
    /// writing.
    pub(crate) fn wait(&self, lock: &Lock, deadline: Option<Instant>) -> WaitEnd {
        let waiter = parking_lot::with_queue(self, |queue| {
            // Relaxed: a notifier reads it after it has locked `lock`, which the caller unlocks
            // below.
            self.awaited.store(true, Ordering::Relaxed);
            queue.enqueue(0)
        });
        lock.unlock_write();
        let left = |queue: &mut WaitQueue| {
            self.awaited
                .store(queue.is_longer_than(0), Ordering::Relaxed);
            Dequeued::default()
        };
        // The notification is for the next waiter.
        let ended = waiter.wait_for(deadline, left, || self.notify(1));
        lock.write();
        ended
    }

    /// Notifies at most `count` waiters, beginning with the one that has waited longest.
    pub(crate) fn notify(&self, count: usize) {
        if !self.awaited.load(Ordering::Relaxed) {
            return;
        }
        let woken = parking_lot::with_queue(self, |queue| {
            let woken = queue.dequeue(count);
            self.awaited
                .store(queue.is_longer_than(0), Ordering::Relaxed);
            woken
        });
        woken.wake();
    }
}

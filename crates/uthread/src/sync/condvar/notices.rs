//! The protocol of a condition variable: a queue, and a lock that is released meanwhile.
//!
//! A waiter joins the queue before it unlocks, so that whoever takes the lock after it, and makes the
//! condition true, finds it there. A notification takes waiters out of the queue, and what is out has been
//! notified: one whose time is over at that moment, or that is cancelled, has been too, and says so.

use std::time::Instant;

use crate::atomic::{AtomicBool, Ordering};

use crate::sync::lock::Lock;
use crate::sync::parking_lot::{self, Dequeued, WaitEnd};

pub(crate) struct Notices {
    /// Whether somebody waits. Written under the lock of the queue.
    awaited: AtomicBool,
}

impl Notices {
    /// From the word, which begins as false.
    pub(crate) const fn new(awaited: AtomicBool) -> Notices {
        Notices { awaited }
    }

    /// Waits for a notification, without the lock, which the caller has for writing, and has again after it.
    pub(crate) fn wait(&self, lock: &Lock, deadline: Option<Instant>) -> WaitEnd {
        let waiter = parking_lot::with_queue(self, |queue| {
            // Relaxed: who is to see it takes the lock after the caller has let it go.
            self.awaited.store(true, Ordering::Relaxed);
            queue.enqueue(0)
        });
        lock.unlock_write();
        let ended = waiter.wait_for(deadline, |queue| {
            self.awaited
                .store(queue.is_longer_than(0), Ordering::Relaxed);
            Dequeued::default()
        });
        lock.write();
        ended
    }

    /// Notifies those that have waited longest, so many at most.
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

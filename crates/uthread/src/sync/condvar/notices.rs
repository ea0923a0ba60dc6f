//! The protocol of a condition variable: a line, and a lock that is let go meanwhile.
//!
//! Who waits joins the line before it lets the lock go, so that whoever takes the lock after it, and makes the
//! condition true, finds it there. A notification takes waiters out of the line, and what is out has been
//! notified: one whose time is over at that moment, or that is cancelled, has been too, and says so.

use std::time::Instant;

use crate::atomic::{AtomicBool, Ordering};

use crate::sync::line::{self, Ended, Woken};
use crate::sync::lock::Lock;

pub(crate) struct Notices {
    /// Whether somebody waits. Written under the lock of the line.
    awaited: AtomicBool,
}

impl Notices {
    /// From the word, which begins as false.
    pub(crate) const fn new(awaited: AtomicBool) -> Notices {
        Notices { awaited }
    }

    /// Waits for a notification, without the lock, which the caller has for writing, and has again after it.
    pub(crate) fn wait(&self, lock: &Lock, deadline: Option<Instant>) -> Ended {
        let place = line::at(self, |line| {
            // Relaxed: who is to see it takes the lock after the caller has let it go.
            self.awaited.store(true, Ordering::Relaxed);
            line.join(0)
        });
        lock.unlock_write();
        let ended = place.wait_for(deadline, |line| {
            self.awaited
                .store(line.is_longer_than(0), Ordering::Relaxed);
            Woken::default()
        });
        lock.write();
        ended
    }

    /// Notifies those that have waited longest, so many at most.
    pub(crate) fn notify(&self, count: usize) {
        if !self.awaited.load(Ordering::Relaxed) {
            return;
        }
        let woken = line::at(self, |line| {
            let woken = line.take(count);
            self.awaited
                .store(line.is_longer_than(0), Ordering::Relaxed);
            woken
        });
        woken.wake();
    }
}

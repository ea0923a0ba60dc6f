//! The protocol of a semaphore: a count, and a queue of waiters.
//!
//! ```text
//!   state = free permits | QUEUED
//! ```
//!
//! A caller is queued if others wait, even if enough permits are free for it: otherwise a waiter
//! for many permits could starve. Returned permits are granted to the first waiter once they
//! suffice for it, and then to those behind it. A waiter that was dequeued owns its permits, even
//! if its deadline passes or it is cancelled at the same time: the wait has succeeded.
//!
//! QUEUED is set exactly while the queue is not empty. It changes under the lock of the queue, as
//! does the count while it is set.

use std::time::Instant;

use crate::atomic::{AtomicUsize, Ordering};

use crate::sync::parking_lot::{self, Dequeued, WaitEnd, WaitQueue, Waiter};

const QUEUED: usize = 1;
const PERMIT: usize = 2;

/// Maximum number of permits.
pub(crate) const PERMITS_MAX: usize = usize::MAX / PERMIT;

pub(crate) struct Permits {
    state: AtomicUsize,
}

impl Permits {
    /// Creates the count from its word.
    pub(crate) const fn new(state: AtomicUsize) -> Permits {
        Permits { state }
    }

    /// Returns the word for `count` free permits.
    pub(crate) const fn word(count: usize) -> usize {
        assert!(count <= PERMITS_MAX, "a semaphore has too many permits");
        count * PERMIT
    }

    pub(crate) fn available(&self) -> usize {
        self.state.load(Ordering::Relaxed) / PERMIT
    }

    #[inline]
    pub(crate) fn try_acquire(&self, count: usize) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & QUEUED == 0 && state / PERMIT >= count {
            // Acquire pairs with the release of returned permits.
            match self.exchange(state, state - count * PERMIT, Ordering::Acquire) {
                Ok(_) => return true,
                Err(found) => state = found,
            }
        }
        false
    }

    /// Acquires `count` permits, waiting until the deadline or until the caller is cancelled.
    pub(crate) fn acquire(&self, count: usize, deadline: Option<Instant>) -> WaitEnd {
        match self.join(count) {
            None => WaitEnd::Dequeued,
            // A waiter for many permits that leaves may unblock those behind it.
            Some(waiter) => {
                let serve = |queue: &mut WaitQueue| self.serve(queue);
                waiter.wait_for(deadline, serve, || self.release(count))
            }
        }
    }

    /// Acquires `count` permits, waiting for any length of time, also if cancelled.
    pub(crate) fn acquire_cancelled_or_not(&self, count: usize) {
        if let Some(waiter) = self.join(count) {
            waiter.wait_or_vanish(|queue| self.serve(queue));
            parking_lot::vanish_after(|| self.release(count));
        }
    }

    /// Acquires `count` permits, or enqueues the caller.
    fn join(&self, count: usize) -> Option<Waiter> {
        if self.try_acquire(count) {
            return None;
        }
        let (waiter, woken) = parking_lot::with_queue(self, |queue| {
            let mut state = self.state.load(Ordering::Relaxed);
            while state & QUEUED == 0 {
                if state / PERMIT >= count {
                    if self.try_acquire(count) {
                        return None;
                    }
                } else if self
                    .exchange(state, state | QUEUED, Ordering::Relaxed)
                    .is_ok()
                {
                    return Some((queue.enqueue(count), Dequeued::default()));
                }
                state = self.state.load(Ordering::Relaxed);
            }
            // The waiters before it may be abandoned since the permits were last served.
            Some((queue.enqueue(count), self.serve(queue)))
        })?;
        woken.wake();
        Some(waiter)
    }

    /// Returns or adds `count` permits.
    #[inline]
    pub(crate) fn release(&self, count: usize) {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & QUEUED == 0 {
            assert_room(state, count);
            // Release pairs with the acquire of the next owner.
            match self.exchange(state, state + count * PERMIT, Ordering::Release) {
                Ok(_) => return,
                Err(found) => state = found,
            }
        }
        self.release_to_line(count);
    }

    #[cold]
    fn release_to_line(&self, count: usize) {
        let woken = parking_lot::with_queue(self, |queue| {
            assert_room(self.state.load(Ordering::Relaxed), count);
            let before = self.state.fetch_add(count * PERMIT, Ordering::Release);
            match before & QUEUED {
                0 => Dequeued::default(),
                _ => self.serve(queue),
            }
        });
        woken.wake();
    }

    /// Grants free permits to waiters. Called while QUEUED is set.
    fn serve(&self, queue: &mut WaitQueue) -> Dequeued {
        // Acquire pairs with the release of returned permits, so that new owners are ordered after
        // their previous owners.
        let mut free = self.state.load(Ordering::Acquire) / PERMIT;
        let mut count = 0;
        for want in queue.wants() {
            let Some(rest) = free.checked_sub(want) else {
                break;
            };
            free = rest;
            count += 1;
        }
        let woken = queue.dequeue(count);
        let more = if queue.is_longer_than(0) { QUEUED } else { 0 };
        // Release, on behalf of those who returned the permits. No other write happens while QUEUED
        // is set.
        self.state.store((free * PERMIT) | more, Ordering::Release);
        woken
    }

    #[inline]
    fn exchange(&self, from: usize, to: usize, order: Ordering) -> Result<usize, usize> {
        self.state
            .compare_exchange_weak(from, to, order, Ordering::Relaxed)
    }
}

#[inline]
fn assert_room(state: usize, count: usize) {
    assert!(
        count <= PERMITS_MAX - state / PERMIT,
        "a semaphore has too many permits"
    );
}

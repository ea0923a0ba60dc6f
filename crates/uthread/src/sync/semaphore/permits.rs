//! The protocol of a semaphore: a count, and the queue of those for whom it is too small.
//!
//! ```text
//!   state = free permits | QUEUED
//! ```
//!
//! Who comes while others wait stands behind them, even if there are enough permits for it: otherwise one that
//! wants many would never have them. Permits that are given back go to the first in the queue as soon as they suffice
//! for it, and to those behind it then; being out of the queue is having them. So permits that were granted just
//! when the time was over, or the caller cancelled, are not lost: that wait has succeeded.
//!
//! QUEUED is set exactly while the queue is not empty. It changes under the lock of the queue, and while it is
//! set, the count too.

use std::time::Instant;

use crate::atomic::{AtomicUsize, Ordering};

use crate::sync::parking_lot::{self, Dequeued, WaitEnd, WaitQueue, Waiter};

const QUEUED: usize = 1;
const PERMIT: usize = 2;

/// The most there may be.
pub(crate) const PERMITS_MAX: usize = usize::MAX / PERMIT;

pub(crate) struct Permits {
    state: AtomicUsize,
}

impl Permits {
    /// A count by its word.
    pub(crate) const fn new(state: AtomicUsize) -> Permits {
        Permits { state }
    }

    /// The word of so many free permits.
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
            // Acquire pairs with the Release of who gave the permits back.
            match self.exchange(state, state - count * PERMIT, Ordering::Acquire) {
                Ok(_) => return true,
                Err(found) => state = found,
            }
        }
        false
    }

    /// Waits for so many until the deadline, or until the caller is cancelled.
    pub(crate) fn acquire(&self, count: usize, deadline: Option<Instant>) -> WaitEnd {
        match self.join(count) {
            None => WaitEnd::Dequeued,
            // One that wanted many may have been all that those behind it waited for.
            Some(waiter) => waiter.wait_for(deadline, |queue| self.serve(queue)),
        }
    }

    /// The same for however long it takes.
    pub(crate) fn acquire_cancelled_or_not(&self, count: usize) {
        if let Some(waiter) = self.join(count) {
            waiter.wait_or_vanish(|queue| self.serve(queue));
        }
    }

    /// Acquires so many, or waits for them.
    fn join(&self, count: usize) -> Option<Waiter> {
        if self.try_acquire(count) {
            return None;
        }
        parking_lot::with_queue(self, |queue| {
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
                    break;
                }
                state = self.state.load(Ordering::Relaxed);
            }
            Some(queue.enqueue(count))
        })
    }

    /// Gives so many back, or adds them.
    #[inline]
    pub(crate) fn release(&self, count: usize) {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & QUEUED == 0 {
            assert_room(state, count);
            // Release pairs with the Acquire of who takes them.
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

    /// Grants what is free to those in the queue, while QUEUED is set.
    fn serve(&self, queue: &mut WaitQueue) -> Dequeued {
        // Acquire pairs with the Release of those who gave back: who is served here comes after them.
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
        let more = match queue.is_longer_than(0) {
            true => QUEUED,
            false => 0,
        };
        // Release as that of those who gave back, which this stands in for. Nobody else writes while QUEUED
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

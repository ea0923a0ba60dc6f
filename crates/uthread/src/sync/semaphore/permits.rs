//! The protocol of a semaphore: a count, and a queue of waiters.
//!
//! ```text
//!   state = free permits | CLOSED | QUEUED
//! ```
//!
//! A caller is queued if others wait, even if enough permits are free for it: otherwise a waiter
//! for many permits could starve. Returned permits are granted to the first waiter once they
//! suffice for it, and then to those behind it. A waiter that was dequeued owns its permits, even
//! if its deadline passes or it is cancelled at the same time: the wait has succeeded.
//!
//! QUEUED is set exactly while the queue is not empty. It changes under the lock of the queue, as
//! does the count while it is set, and as does CLOSED.
//!
//! Closing dequeues the waiters. They own nothing: as permits are granted in the order of the
//! queue, these are the waiters from some position on, which `refused_from` records under the lock
//! by which they see that they are dequeued. Abandoned waiters stay in the queue, without QUEUED,
//! until they leave.

use std::time::Instant;

use crate::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::parking_lot::{self, Dequeued, WaitEnd, WaitQueue, Waiter};

const QUEUED: usize = 1;
const CLOSED: usize = 2;
const PERMIT: usize = 4;

/// Maximum number of permits.
pub(crate) const PERMITS_MAX: usize = usize::MAX / PERMIT;

pub(crate) struct Permits {
    state: AtomicUsize,
    /// The position from which on waiters are dequeued without permits.
    refused_from: AtomicU64,
}

/// The end of an attempt to acquire permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acquired {
    Permits,
    Closed,
    /// Cancelled, or out of time.
    Not(WaitEnd),
}

/// How a caller that does not get permits at once goes on.
enum Joined {
    Permits,
    Closed,
    Waits(Waiter),
}

impl Permits {
    /// Creates the count from its word, and from a position that no waiter has.
    pub(crate) const fn new(state: AtomicUsize, refused_from: AtomicU64) -> Permits {
        Permits {
            state,
            refused_from,
        }
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
        while state & (QUEUED | CLOSED) == 0 && state / PERMIT >= count {
            // Acquire pairs with the release of returned permits.
            match self.exchange(state, state - count * PERMIT, Ordering::Acquire) {
                Ok(_) => return true,
                Err(found) => state = found,
            }
        }
        false
    }

    /// Acquires `count` permits, waiting until the deadline or until the caller is cancelled.
    pub(crate) fn acquire(&self, count: usize, deadline: Option<Instant>) -> Acquired {
        let waiter = match self.join(count) {
            Joined::Permits => return Acquired::Permits,
            Joined::Closed => return Acquired::Closed,
            Joined::Waits(waiter) => waiter,
        };
        // A waiter for many permits that leaves may unblock those behind it.
        let serve = |queue: &mut WaitQueue| self.serve(queue);
        match waiter.wait_for(deadline, serve, || self.give_back(&waiter, count)) {
            WaitEnd::Dequeued if self.refuses(&waiter) => Acquired::Closed,
            WaitEnd::Dequeued => Acquired::Permits,
            ended => Acquired::Not(ended),
        }
    }

    /// Acquires `count` permits, waiting for any length of time, also if cancelled. Returns `false`
    /// if the semaphore is closed.
    pub(crate) fn acquire_cancelled_or_not(&self, count: usize) -> bool {
        match self.join(count) {
            Joined::Permits => true,
            Joined::Closed => false,
            Joined::Waits(waiter) => {
                waiter.wait_or_vanish(|queue| self.serve(queue));
                parking_lot::vanish_after(|| self.give_back(&waiter, count));
                !self.refuses(&waiter)
            }
        }
    }

    /// Acquires `count` permits, or enqueues the caller.
    fn join(&self, count: usize) -> Joined {
        if self.try_acquire(count) {
            return Joined::Permits;
        }
        let (joined, woken) = parking_lot::with_queue(self, |queue| {
            let mut state = self.state.load(Ordering::Relaxed);
            if state & CLOSED != 0 {
                return (Joined::Closed, Dequeued::default());
            }
            while state & QUEUED == 0 {
                if state / PERMIT >= count {
                    if self.try_acquire(count) {
                        return (Joined::Permits, Dequeued::default());
                    }
                } else if self
                    .exchange(state, state | QUEUED, Ordering::Relaxed)
                    .is_ok()
                {
                    return (Joined::Waits(queue.enqueue(count)), Dequeued::default());
                }
                state = self.state.load(Ordering::Relaxed);
            }
            // The waiters before it may be abandoned since the permits were last served.
            (Joined::Waits(queue.enqueue(count)), self.serve(queue))
        });
        woken.wake();
        joined
    }

    /// Refuses all waiters, and all who come later.
    pub(crate) fn close(&self) {
        let woken = parking_lot::with_queue(self, |queue| {
            if self.is_closed() {
                return Dequeued::default();
            }
            let first = queue.first_position();
            self.refused_from.store(first, Ordering::Relaxed);
            self.state.fetch_or(CLOSED, Ordering::Relaxed);
            self.state.fetch_and(!QUEUED, Ordering::Relaxed);
            queue.dequeue(usize::MAX)
        });
        woken.wake();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// Returns `true` if the waiter, which was dequeued, owns no permits.
    fn refuses(&self, waiter: &Waiter) -> bool {
        // Relaxed: the waiter has locked the queue to see that it was dequeued.
        waiter.position() >= self.refused_from.load(Ordering::Relaxed)
    }

    /// Returns the permits of a waiter that was dequeued and does not use them.
    fn give_back(&self, waiter: &Waiter, count: usize) {
        if !self.refuses(waiter) {
            self.release(count);
        }
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

    /// Grants free permits to waiters. QUEUED is set, unless an abandoned waiter leaves a closed
    /// semaphore.
    fn serve(&self, queue: &mut WaitQueue) -> Dequeued {
        // Acquire pairs with the release of returned permits, so that new owners are ordered after
        // their previous owners.
        let state = self.state.load(Ordering::Acquire);
        if state & QUEUED == 0 {
            return Dequeued::default();
        }
        let mut free = state / PERMIT;
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

//! One lock, for a single writer or for many readers: what is under `Mutex` and `RwLock`.
//!
//! ```text
//!   state = readers (30 bits) | QUEUED | WRITER
//!
//!   write   free                          -> WRITER
//!           otherwise                     -> into the queue, as WRITE; woken, it tries again, and the second
//!                                            time waits, at its old position, as WRITE_NEXT
//!   read    no writer, and nobody waits   -> one reader more
//!           otherwise                     -> into the queue, as READ
//!   release nobody waits                  -> free
//!           the first is READ             -> it and the readers behind it have the lock, and are woken
//!           the first is WRITE            -> free; it is woken, and others may be faster
//!           the first is WRITE_NEXT       -> it has the lock, and is woken
//! ```
//!
//! A lock that is handed to a waiter stays taken until that one runs, and meanwhile whoever wants it waits too.
//! A lock that is only set free does not stand still: who is running takes it again, many times, before the
//! waiter has woken up. So it is set free for who waits the first time, and handed over the second time: nobody
//! is passed over more than once. As one waiter is woken at a time, none wakes up for others to win.
//!
//! QUEUED is set and cleared under the lock of the queue: set only while the lock is taken, and cleared when the
//! queue is empty. While it is set somebody will serve the queue: who has the lock, or who was woken to take it.

use crate::atomic::{AtomicU32, Ordering};

use super::parking_lot::{self, WaitQueue, Waiter};
use crate::sched::wait;

const WRITER: u32 = 1;
const QUEUED: u32 = 2;
const READER: u32 = 4;

/// The most readers there may be, which leaves the other bits alone.
const READERS_MAX: u32 = u32::MAX / READER;

/// What those in the queue want.
const READ: usize = 0;
const WRITE: usize = 1;
const WRITE_NEXT: usize = 2;

pub(crate) struct Lock {
    state: AtomicU32,
}

impl Lock {
    /// A lock by its word, which begins as zero. (A model's is made by no constant.)
    pub(crate) const fn new(state: AtomicU32) -> Lock {
        Lock { state }
    }

    #[inline]
    pub(crate) fn write(&self) {
        // Acquire pairs with the Release of whoever had the lock before.
        let taken =
            self.state
                .compare_exchange_weak(0, WRITER, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            self.write_contended();
        }
    }

    #[inline]
    pub(crate) fn try_write(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & !QUEUED == 0 {
            match self.exchange(state, state | WRITER, Ordering::Acquire) {
                Ok(_) => return true,
                Err(found) => state = found,
            }
        }
        false
    }

    #[inline]
    pub(crate) fn unlock_write(&self) {
        if self.exchange(WRITER, 0, Ordering::Release).is_err() {
            self.hand_over(WRITER, 0);
        }
    }

    /// Goes on as a reader.
    pub(crate) fn downgrade(&self) {
        if self.exchange(WRITER, READER, Ordering::Release).is_err() {
            self.hand_over(WRITER, READER);
        }
    }

    #[inline]
    pub(crate) fn read(&self) {
        if !self.try_read() {
            self.read_contended();
        }
    }

    #[inline]
    pub(crate) fn try_read(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & (WRITER | QUEUED) == 0 && state / READER < READERS_MAX {
            match self.exchange(state, state + READER, Ordering::Acquire) {
                Ok(_) => return true,
                Err(found) => state = found,
            }
        }
        false
    }

    #[inline]
    pub(crate) fn unlock_read(&self) {
        // Release pairs with the Acquire of the next writer, or of who passes the lock on to it.
        let before = self.state.fetch_sub(READER, Ordering::Release);
        if before == READER | QUEUED {
            self.hand_over(0, 0);
        }
    }

    #[cold]
    fn write_contended(&self) {
        self.wait_to_write();
        if wait::is_abandoned() {
            // Nobody else would have it any more.
            self.unlock_write();
            wait::vanish_if_abandoned("it waits for a lock");
        }
    }

    fn wait_to_write(&self) {
        if self.try_write() {
            return;
        }
        let mut waiter = None;
        loop {
            let waits =
                parking_lot::with_queue(self, |queue| self.enqueue_writer(queue, &mut waiter));
            if let Some(want) = waits
                && let Some(waiter) = &waiter
            {
                waiter.wait();
                if want == WRITE_NEXT {
                    return;
                }
            }
            if self.try_write() {
                return;
            }
        }
    }

    /// As what the caller waits now, at its old position if it had one; none while the lock is free.
    fn enqueue_writer(&self, queue: &mut WaitQueue, waiter: &mut Option<Waiter>) -> Option<usize> {
        if !self.mark_queued(|state| state & !QUEUED != 0) {
            return None;
        }
        if let Some(waiter) = waiter {
            queue.requeue(waiter, WRITE_NEXT);
            return Some(WRITE_NEXT);
        }
        *waiter = Some(queue.enqueue(WRITE));
        Some(WRITE)
    }

    #[cold]
    fn read_contended(&self) {
        while !self.try_read() {
            let readers = self.state.load(Ordering::Relaxed) / READER;
            assert!(readers < READERS_MAX, "rwlock overflowed read locks");
            let waiter = parking_lot::with_queue(self, |queue| {
                self.mark_queued(|state| state & (WRITER | QUEUED) != 0)
                    .then(|| queue.enqueue(READ))
            });
            if let Some(waiter) = waiter {
                waiter.wait();
                if wait::is_abandoned() {
                    self.unlock_read();
                    wait::vanish_if_abandoned("it waits for a lock");
                }
                return;
            }
        }
    }

    /// Sets QUEUED, unless the lock is no longer such that one must wait; whether it is. Called under the lock
    /// of the queue.
    fn mark_queued(&self, must_wait: impl Fn(u32) -> bool) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while must_wait(state) {
            if state & QUEUED != 0 {
                return true;
            }
            match self.exchange(state, state | QUEUED, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(found) => state = found,
            }
        }
        false
    }

    /// Serves the queue: called by who had the lock, and now has `kept` of it. `held` is as what it is in the
    /// state yet; where that is nothing, somebody else may have been faster, and will serve the queue.
    #[cold]
    fn hand_over(&self, held: u32, kept: u32) {
        let woken = parking_lot::with_queue(self, |queue| {
            let (count, granted) = next_owners(queue, kept);
            let more = if queue.is_longer_than(count) {
                QUEUED
            } else {
                0
            };
            // Release pairs with the Acquire of who takes the lock when it is free. Acquire pairs with the
            // Release of readers that went before: who is handed the lock here comes after them too.
            let next = (kept + granted) | more;
            let passed = self.exchange(held | QUEUED, next, Ordering::AcqRel);
            passed.is_ok().then(|| queue.dequeue(count))
        });
        if let Some(woken) = woken {
            woken.wake();
        }
    }

    #[inline]
    fn exchange(&self, from: u32, to: u32, order: Ordering) -> Result<u32, u32> {
        self.state
            .compare_exchange(from, to, order, Ordering::Relaxed)
    }
}

/// How many of the queue are to be woken, and as what they have the lock then.
fn next_owners(queue: &WaitQueue, kept: u32) -> (usize, u32) {
    let readers = queue.wants().take_while(|want| *want == READ).count();
    if readers > 0 {
        let readers_max = (READERS_MAX - kept / READER) as usize;
        let readers = readers.min(readers_max);
        return (readers, readers as u32 * READER);
    }
    match queue.wants().next() {
        Some(WRITE_NEXT) if kept == 0 => (1, WRITER),
        Some(_) if kept == 0 => (1, 0),
        _ => (0, 0),
    }
}

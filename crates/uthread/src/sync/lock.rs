//! The lock under `Mutex`, `RwLock` and `Exclusive`, for one writer or many readers.
//!
//! ```text
//!   state = readers (30 bits) | QUEUED | WRITER; bits of the writer's address in place of the readers
//!
//!   write   the lock is free              -> WRITER
//!           otherwise                     -> enqueue as WRITE; when woken, try again; if that fails, wait at the
//!                                            old position, as WRITE or, after `OVERTAKEN_MAX`, as WRITE_NEXT
//!   read    no writer, and no QUEUED      -> one more reader
//!           otherwise                     -> enqueue as READ
//!   unlock  no QUEUED                     -> the lock is free
//!           the first is READ             -> it and the readers behind it own the lock, and are woken
//!           the first is WRITE            -> the lock is free; the first is woken, and others may overtake it
//!           the first is WRITE_NEXT       -> it owns the lock, and is woken
//! ```
//!
//! Handing the lock over to a waiter stalls all others until the waiter runs. Releasing it instead
//! lets running fibers and threads take it many times before the waiter has woken up, which is
//! faster but unfair. So the lock is released while the first waiter has been overtaken for a short
//! time only, and then handed over.
//!
//! QUEUED says that the queue has to be served at the next unlock. It is set and cleared under the
//! lock of the queue, and set only while the lock is taken. It is clear if the queue is empty, and
//! also from the moment at which a WRITE was woken until that has tried again: it then either owns
//! the lock or is in the queue, and sets QUEUED if others wait. Otherwise each unlock in between
//! would wake one more waiter, which would find the lock taken.
//!
//! The bits of a writer are for lists and debuggers (`root::Awaited`). They are zero if that is a
//! thread, and until a WRITE_NEXT that was woken runs.

use std::time::{Duration, Instant};

use super::parking_lot::{self, WaitQueue, Waiter};
use crate::atomic::{AtomicU32, Ordering};
use crate::sched::caller::wait::{Awaiting, awaiting};
use crate::sched::caller::{self, cancellation};

const WRITER: u32 = 1;
const QUEUED: u32 = 2;
const READER: u32 = 4;

/// Maximum number of readers, limited by the bits of the count.
const READERS_MAX: u32 = u32::MAX / READER;

/// Time after which the lock is handed over to a writer that was overtaken. A handover between
/// workers takes some microseconds.
const OVERTAKEN_MAX: Duration = Duration::from_micros(100);

/// The kinds of waiters in the queue.
const READ: usize = 0;
const WRITE: usize = 1;
const WRITE_NEXT: usize = 2;

pub(crate) struct Lock {
    state: AtomicU32,
}

impl Lock {
    /// Creates a lock from its word, which must be zero. Loom's atomics cannot be created in a
    /// constant.
    pub(crate) const fn new(state: AtomicU32) -> Lock {
        Lock { state }
    }

    #[inline]
    pub(crate) fn write(&self) {
        self.write_as(caller::holder_bits());
    }

    /// Locks it for the caller, who has these [bits](caller::holder_bits).
    #[inline]
    pub(crate) fn write_as(&self, holder_bits: u32) {
        let locked = locked_by(holder_bits);
        // Acquire pairs with the release of the previous owner.
        let taken =
            self.state
                .compare_exchange_weak(0, locked, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            self.write_contended();
        }
    }

    #[inline]
    pub(crate) fn try_write(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & !QUEUED == 0 {
            let locked = state | locked_by(caller::holder_bits());
            match self.exchange(state, locked, Ordering::Acquire) {
                Ok(_) => return true,
                Err(found) => state = found,
            }
        }
        false
    }

    #[inline]
    pub(crate) fn unlock_write(&self) {
        let held = self.held();
        if self.exchange(held, 0, Ordering::Release).is_err() {
            self.hand_over(held, 0);
        }
    }

    /// Returns the state without QUEUED. Called by the writer: no one else changes the rest.
    #[inline]
    fn held(&self) -> u32 {
        self.state.load(Ordering::Relaxed) & !QUEUED
    }

    /// Converts the caller's write lock into a read lock.
    pub(crate) fn downgrade(&self) {
        let held = self.held();
        if self.exchange(held, READER, Ordering::Release).is_err() {
            self.hand_over(held, READER);
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
        // Release pairs with the acquire of the next writer, or of the reader that hands the lock
        // over to it.
        let before = self.state.fetch_sub(READER, Ordering::Release);
        if before == READER | QUEUED {
            self.hand_over(0, 0);
        }
    }

    #[cold]
    fn write_contended(&self) {
        self.wait_to_write();
        if cancellation::is_abandoned() {
            // The caller will never run again and would keep the lock forever.
            self.unlock_write();
            cancellation::vanish_if_abandoned("it waits for a lock");
        }
    }

    fn wait_to_write(&self) {
        if self.try_write() {
            return;
        }
        let mut writer = None;
        loop {
            let want =
                parking_lot::with_queue(self, |queue| self.enqueue_writer(queue, &mut writer));
            if let (Some(want), Some(writer)) = (want, &writer) {
                awaiting(Awaiting::Lock(&self.state), || writer.waiter.wait());
                if want == WRITE_NEXT {
                    // Relaxed: it says something only to those that see the lock held.
                    let locked = locked_by(caller::holder_bits());
                    self.state.fetch_or(locked, Ordering::Relaxed);
                    return;
                }
            }
            if self.try_write() {
                if writer.is_some() {
                    self.announce_waiters();
                }
                return;
            }
        }
    }

    /// Enqueues the caller, at its old position if it had one, and returns the kind of its wait.
    /// Returns `None` if the lock is free.
    fn enqueue_writer(&self, queue: &mut WaitQueue, writer: &mut Option<Writer>) -> Option<usize> {
        if !self.mark_queued(|state| state & !QUEUED != 0) {
            return None;
        }
        let now = caller::now();
        if let Some(writer) = writer {
            let want = if now < writer.deadline {
                WRITE
            } else {
                WRITE_NEXT
            };
            queue.requeue(&writer.waiter, want);
            return Some(want);
        }
        *writer = Some(Writer {
            waiter: queue.enqueue(WRITE),
            deadline: caller::after(now, OVERTAKEN_MAX),
        });
        Some(WRITE)
    }

    /// Sets QUEUED if others wait. Called by the owner, which was woken to take the lock.
    fn announce_waiters(&self) {
        parking_lot::with_queue(self, |queue| {
            if queue.is_longer_than(0) {
                self.state.fetch_or(QUEUED, Ordering::Relaxed);
            }
        });
    }

    #[cold]
    fn read_contended(&self) {
        while !self.try_read() {
            let state = self.state.load(Ordering::Relaxed);
            assert!(
                state & WRITER != 0 || state / READER < READERS_MAX,
                "rwlock overflowed read locks"
            );
            let waiter = parking_lot::with_queue(self, |queue| {
                self.mark_queued(|state| state & (WRITER | QUEUED) != 0)
                    .then(|| queue.enqueue(READ))
            });
            if let Some(waiter) = waiter {
                awaiting(Awaiting::Lock(&self.state), || waiter.wait());
                if cancellation::is_abandoned() {
                    self.unlock_read();
                    cancellation::vanish_if_abandoned("it waits for a lock");
                }
                return;
            }
        }
    }

    /// Sets QUEUED and returns `true`, unless the lock has become available. Called under the lock
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

    /// Serves the queue. Called by the previous owner of the lock, which keeps `kept` of it. `held`
    /// is the caller's part of the state; if it is zero, another fiber or thread may have been
    /// faster and will serve the queue.
    #[cold]
    fn hand_over(&self, held: u32, kept: u32) {
        let woken = parking_lot::with_queue(self, |queue| {
            let (count, granted) = next_owners(queue, kept);
            let tries_again = count > 0 && granted == 0;
            let more = if !tries_again && queue.is_longer_than(count) {
                QUEUED
            } else {
                0
            };
            // Release pairs with the acquire of the next owner of a free lock. Acquire pairs with
            // the release of earlier readers, so that a new owner is ordered after them too.
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

/// Returns the state of a lock whose writer has these bits.
#[inline]
fn locked_by(holder_bits: u32) -> u32 {
    WRITER | (holder_bits * READER)
}

/// Returns the number of waiters to wake, and the part of the state that grants them the lock.
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

/// A writer that waits.
struct Writer {
    waiter: Waiter,
    /// The time from which on it is not overtaken any more.
    deadline: Instant,
}

//! One lock, for a single writer or for many readers: what is under `Mutex` and `RwLock`.
//!
//! ```text
//!   state = readers (30 bits) | QUEUED | WRITER
//!
//!   write   free                          -> WRITER
//!           otherwise                     -> into the line, as WRITE; woken, it tries again, and the second
//!                                            time stands in line, at its old place, as WRITE_NEXT
//!   read    no writer, and nobody waits   -> one reader more
//!           otherwise                     -> into the line, as READ
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
//! QUEUED is set and cleared under the lock of the line: set only while the lock is taken, and cleared when the
//! line is empty. While it is set somebody will serve the line: who has the lock, or who was woken to take it.

use crate::atomic::{AtomicU32, Ordering};

use super::line::{self, Line, Place};
use crate::sched::wait;

const WRITER: u32 = 1;
const QUEUED: u32 = 2;
const READER: u32 = 4;

/// The most readers there may be, which leaves the other bits alone.
const READERS_MAX: u32 = u32::MAX / READER;

/// What those in line want.
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
            self.pass_on(WRITER, 0);
        }
    }

    /// Goes on as a reader.
    pub(crate) fn downgrade(&self) {
        if self.exchange(WRITER, READER, Ordering::Release).is_err() {
            self.pass_on(WRITER, READER);
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
            self.pass_on(0, 0);
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
        let mut place = None;
        loop {
            let waits = line::at(self, |line| self.stand_in_line_to_write(line, &mut place));
            if let Some(want) = waits
                && let Some(place) = &place
            {
                place.wait();
                if want == WRITE_NEXT {
                    return;
                }
            }
            if self.try_write() {
                return;
            }
        }
    }

    /// As what the caller stands in line now, at its old place if it had one; none while the lock is free.
    fn stand_in_line_to_write(&self, line: &mut Line, place: &mut Option<Place>) -> Option<usize> {
        if !self.note_waiter(|state| state & !QUEUED != 0) {
            return None;
        }
        if let Some(place) = place {
            line.rejoin(place, WRITE_NEXT);
            return Some(WRITE_NEXT);
        }
        *place = Some(line.join(WRITE));
        Some(WRITE)
    }

    #[cold]
    fn read_contended(&self) {
        while !self.try_read() {
            let readers = self.state.load(Ordering::Relaxed) / READER;
            assert!(readers < READERS_MAX, "rwlock overflowed read locks");
            let place = line::at(self, |line| {
                self.note_waiter(|state| state & (WRITER | QUEUED) != 0)
                    .then(|| line.join(READ))
            });
            if let Some(place) = place {
                place.wait();
                if wait::is_abandoned() {
                    self.unlock_read();
                    wait::vanish_if_abandoned("it waits for a lock");
                }
                return;
            }
        }
    }

    /// Sets QUEUED, unless the lock is no longer such that one must wait; whether it is. Called under the lock
    /// of the line.
    fn note_waiter(&self, must_wait: impl Fn(u32) -> bool) -> bool {
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

    /// Serves the line: called by who had the lock, and now has `kept` of it. `held` is as what it is in the
    /// state yet; where that is nothing, somebody else may have been faster, and will serve the line.
    #[cold]
    fn pass_on(&self, held: u32, kept: u32) {
        let woken = line::at(self, |line| {
            let (count, granted) = next_owners(line, kept);
            let more = if line.is_longer_than(count) {
                QUEUED
            } else {
                0
            };
            // Release pairs with the Acquire of who takes the lock when it is free. Acquire pairs with the
            // Release of readers that went before: who is handed the lock here comes after them too.
            let next = (kept + granted) | more;
            let passed = self.exchange(held | QUEUED, next, Ordering::AcqRel);
            passed.is_ok().then(|| line.take(count))
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

/// How many of the line are to be woken, and as what they have the lock then.
fn next_owners(line: &Line, kept: u32) -> (usize, u32) {
    let readers = line.wants().take_while(|want| *want == READ).count();
    if readers > 0 {
        let readers_max = (READERS_MAX - kept / READER) as usize;
        let readers = readers.min(readers_max);
        return (readers, readers as u32 * READER);
    }
    match line.wants().next() {
        Some(WRITE_NEXT) if kept == 0 => (1, WRITER),
        Some(_) if kept == 0 => (1, 0),
        _ => (0, 0),
    }
}

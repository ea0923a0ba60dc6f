//! The queue of ready fibers that only one worker runs.
//!
//! ```text
//!   ring    the first fibers
//!   rest    all later ones; empty unless the ring is full
//! ```
//!
//! Adding to the ring and taking from it needs no lock, borrow or bounds check. If there is a rest,
//! there are more fibers than the caches hold. Then fibers are prefetched as they approach the
//! head.
//!
//! Other threads read the length from the positions of the head and the tail, which count on beyond
//! the ring. So an empty ring differs from a full one. They cost no more instructions than indices
//! would (x86-64).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::fiber::Started;

/// Number of places in the ring. A fiber touches some 2 KiB between two calls, so the fibers of the
/// ring remain in the cache of the second level.
const RING: usize = 1 << u8::BITS;

/// The number of places by which a position moves back.
const BACK: u32 = u32::MAX;

/// Distance from the head at which a fiber's control block is prefetched. With thousands of fibers,
/// each resumption misses the cache and the TLB, and prefetching hides some 100 ns.
const PREFETCH_CONTROL_AHEAD: u8 = 2 + 2 * STACKS_AT_ONCE;

/// Number of stacks prefetched together: a prefetch waits for the address translation of its page,
/// but the CPU performs several of them at a time.
const STACKS_AT_ONCE: u8 = 4;

/// Each fiber is contained at most once, so the number of live fibers bounds it.
pub(crate) struct RunQueue {
    /// The fibers from the head up to the tail; the other places are empty.
    ring: [Cell<Option<Started>>; RING],
    length: Length,
    /// `true` if `rest` is not empty.
    has_rest: Cell<bool>,
    rest: RefCell<VecDeque<Started>>,
    /// Number of fibers at the head of the ring whose stacks were prefetched.
    prefetched: Cell<u8>,
}

/// The positions in a queue, which only its owner changes, and any thread reads. Relaxed: they
/// order nothing, and a reader may see slightly old ones.
#[derive(Default)]
pub(crate) struct Length {
    /// The position of the first fiber. Its place in the ring is the position modulo [`RING`], and
    /// so in the lowest byte.
    head: AtomicU32,
    /// The position after the last fiber in the ring.
    tail: AtomicU32,
    /// Number of fibers in the rest.
    rest: AtomicUsize,
}

impl Length {
    /// Returns the number of fibers.
    pub(crate) fn get(&self) -> usize {
        let head = self.head.load(Ordering::Relaxed);
        // A reader may see positions of different moments, between which the owner has changed the
        // queue.
        let ring = self
            .tail
            .load(Ordering::Relaxed)
            .wrapping_sub(head)
            .cast_signed()
            .max(0);
        (ring as usize).min(RING) + self.rest.load(Ordering::Relaxed)
    }

    /// Moves the head on. Loads it once more, which becomes one instruction with the store.
    fn move_head(&self, places: u32) {
        let head = self.head.load(Ordering::Relaxed).wrapping_add(places);
        self.head.store(head, Ordering::Relaxed);
    }

    /// Moves the tail on, like the head.
    fn move_tail(&self, places: u32) {
        let tail = self.tail.load(Ordering::Relaxed).wrapping_add(places);
        self.tail.store(tail, Ordering::Relaxed);
    }
}

/// The position after the last fiber of a queue, which the next one to be appended gets.
#[derive(Clone, Copy)]
pub(crate) struct End(u32);

impl Default for RunQueue {
    fn default() -> RunQueue {
        RunQueue {
            ring: [const { Cell::new(None) }; RING],
            length: Length::default(),
            has_rest: Cell::new(false),
            rest: RefCell::default(),
            prefetched: Cell::new(0),
        }
    }
}

impl RunQueue {
    /// Appends a fiber.
    pub(crate) fn push(&self, fiber: Started) {
        let tail = self.tail();
        if self.place(tail).get().is_some() {
            return self.push_rest(fiber);
        }
        self.place(tail).set(Some(fiber));
        self.length.move_tail(1);
    }

    /// Inserts a fiber before all others.
    #[inline]
    pub(crate) fn push_first(&self, fiber: Started) {
        let head = self.head().wrapping_sub(1);
        if let Some(last) = self.place(head).replace(Some(fiber)) {
            self.length.move_tail(BACK);
            let mut rest = self.rest.borrow_mut();
            rest.push_front(last);
            self.record_rest(&rest);
        }
        self.length.move_head(BACK);
    }

    /// Removes the first fiber.
    pub(crate) fn pop(&self) -> Option<Started> {
        let head = self.head();
        let first = self.place(head).get()?;
        self.place(head).set(None);
        self.length.move_head(1);
        if self.has_rest.get() {
            self.advance();
        }
        Some(first)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.place(self.head()).get().is_none()
    }

    /// Returns the length, for other threads.
    pub(crate) fn length(&self) -> &Length {
        &self.length
    }

    /// Returns the position of a fiber that was appended now.
    pub(crate) fn end(&self) -> End {
        let length = self.length.get() as u32;
        End(self.head().wrapping_add(length))
    }

    /// Returns `true` if a fiber that had been appended at `end` would be the first now, or had
    /// been removed.
    pub(crate) fn has_reached(&self, end: End) -> bool {
        // An insertion before the first fiber moves the head back.
        let ahead = end.0.wrapping_sub(self.head()).cast_signed();
        ahead <= 0 || self.is_empty()
    }

    /// Removes a fiber, wherever it is. Returns `true` if it was in the queue.
    #[cold]
    pub(crate) fn remove(&self, fiber: Started) -> bool {
        let head = self.head();
        let mut queued: VecDeque<_> = std::iter::from_fn(|| self.pop()).collect();
        // The positions of those before it stay, as `end` has to.
        self.length.head.store(head, Ordering::Relaxed);
        self.length.tail.store(head, Ordering::Relaxed);
        let index = queued.iter().position(|queued| *queued == fiber);
        let removed = index.and_then(|index| queued.remove(index));
        queued.into_iter().for_each(|fiber| self.push(fiber));
        removed.is_some()
    }

    /// Returns the position of the first fiber. Not an atomic load, of which the CPU would not get
    /// the lowest byte alone.
    #[allow(unsafe_code, reason = "a load by the only thread that stores")]
    fn head(&self) -> u32 {
        // SAFETY: the queue is not `Sync`, and only its methods store. So no other thread stores
        // now.
        unsafe { self.length.head.as_ptr().read() }
    }

    /// Returns the position after the last fiber in the ring.
    #[allow(unsafe_code, reason = "a load by the only thread that stores")]
    fn tail(&self) -> u32 {
        // SAFETY: as in `head`.
        unsafe { self.length.tail.as_ptr().read() }
    }

    fn place(&self, position: u32) -> &Cell<Option<Started>> {
        &self.ring[usize::from(position as u8)]
    }

    #[inline(never)]
    fn push_rest(&self, fiber: Started) {
        let mut rest = self.rest.borrow_mut();
        rest.push_back(fiber);
        self.record_rest(&rest);
    }

    fn record_rest(&self, rest: &VecDeque<Started>) {
        self.has_rest.set(!rest.is_empty());
        self.length.rest.store(rest.len(), Ordering::Relaxed);
    }

    /// Fills the place that has become empty, and prefetches fibers.
    #[inline(never)]
    fn advance(&self) {
        let mut rest = self.rest.borrow_mut();
        let tail = self.tail();
        self.place(tail).set(rest.pop_front());
        self.length.move_tail(1);
        self.record_rest(&rest);
        self.prefetch(PREFETCH_CONTROL_AHEAD, Started::prefetch);
        let mut prefetched = self.prefetched.get().saturating_sub(1);
        if prefetched < 2 {
            let next = prefetched..prefetched + STACKS_AT_ONCE;
            prefetched = next.end;
            next.clone()
                .for_each(|ahead| self.prefetch(ahead, Started::prefetch_pages));
            next.for_each(|ahead| self.prefetch(ahead, Started::prefetch_stack));
        }
        self.prefetched.set(prefetched);
    }

    /// Prefetches the fiber at this distance from the head.
    fn prefetch(&self, ahead: u8, prefetch: fn(Started)) {
        if let Some(fiber) = self.place(self.head().wrapping_add(ahead.into())).get() {
            prefetch(fiber);
        }
    }
}

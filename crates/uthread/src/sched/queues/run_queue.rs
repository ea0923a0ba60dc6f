//! The queue of ready fibers that only one worker runs.
//!
//! ```text
//!   ring    the first fibers
//!   rest    all later ones; empty unless the ring is full
//! ```
//!
//! Adding to the ring and taking from it needs no lock, borrow or bounds check. If there is a rest, there are more
//! fibers than the caches hold. Then fibers are prefetched as they approach the head.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::fiber::Started;

/// Number of places in the ring. A fiber touches some 2 KiB between two calls, so the fibers of the ring remain in
/// the cache of the second level.
const RING: usize = 1 << u8::BITS;

/// Distance from the head at which a fiber's control block is prefetched. With thousands of fibers, each
/// resumption misses the cache and the TLB, and prefetching hides some 100 ns.
const PREFETCH_CONTROL_AHEAD: u8 = 2 + 2 * STACKS_AT_ONCE;

/// Number of stacks prefetched together: a prefetch waits for the address translation of its page, but the
/// CPU performs several of them at a time.
const STACKS_AT_ONCE: u8 = 4;

/// Each fiber is contained at most once, so the number of live fibers bounds it.
pub(crate) struct RunQueue {
    /// The fibers from `head` up to `tail`; the other places are empty.
    ring: [Cell<Option<Started>>; RING],
    head: Cell<u8>,
    tail: Cell<u8>,
    /// `true` if `rest` is not empty.
    has_rest: Cell<bool>,
    rest: RefCell<VecDeque<Started>>,
    /// Number of fibers at the head of the ring whose stacks were prefetched.
    prefetched: Cell<u8>,
}

impl Default for RunQueue {
    fn default() -> RunQueue {
        RunQueue {
            ring: [const { Cell::new(None) }; RING],
            head: Cell::new(0),
            tail: Cell::new(0),
            has_rest: Cell::new(false),
            rest: RefCell::default(),
            prefetched: Cell::new(0),
        }
    }
}

impl RunQueue {
    /// Appends a fiber.
    #[inline(always)]
    pub(crate) fn push(&self, fiber: Started) {
        let tail = self.tail.get();
        if self.place(tail).get().is_some() {
            return self.push_rest(fiber);
        }
        self.place(tail).set(Some(fiber));
        self.tail.set(tail.wrapping_add(1));
    }

    /// Inserts a fiber before all others.
    #[inline]
    pub(crate) fn push_first(&self, fiber: Started) {
        let head = self.head.get().wrapping_sub(1);
        if let Some(last) = self.place(head).replace(Some(fiber)) {
            self.tail.set(head);
            self.rest.borrow_mut().push_front(last);
            self.has_rest.set(true);
        }
        self.head.set(head);
    }

    /// Removes the first fiber.
    #[inline(always)]
    pub(crate) fn pop(&self) -> Option<Started> {
        let head = self.head.get();
        let first = self.place(head).get()?;
        self.place(head).set(None);
        self.head.set(head.wrapping_add(1));
        if self.has_rest.get() {
            self.advance();
        }
        Some(first)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.place(self.head.get()).get().is_none()
    }

    /// Removes a fiber, wherever it is. Returns `true` if it was in the queue.
    #[cold]
    pub(crate) fn remove(&self, fiber: Started) -> bool {
        let mut queued: VecDeque<_> = std::iter::from_fn(|| self.pop()).collect();
        let index = queued.iter().position(|queued| *queued == fiber);
        let removed = index.and_then(|index| queued.remove(index));
        queued.into_iter().for_each(|fiber| self.push(fiber));
        removed.is_some()
    }

    #[inline(always)]
    fn place(&self, place: u8) -> &Cell<Option<Started>> {
        &self.ring[usize::from(place)]
    }

    #[inline(never)]
    fn push_rest(&self, fiber: Started) {
        self.rest.borrow_mut().push_back(fiber);
        self.has_rest.set(true);
    }

    /// Fills the place that has become empty, and prefetches fibers.
    #[inline(never)]
    fn advance(&self) {
        let mut rest = self.rest.borrow_mut();
        let tail = self.tail.get();
        self.place(tail).set(rest.pop_front());
        self.tail.set(tail.wrapping_add(1));
        self.has_rest.set(!rest.is_empty());
        self.prefetch(PREFETCH_CONTROL_AHEAD, Started::prefetch);
        let mut prefetched = self.prefetched.get().saturating_sub(1);
        if prefetched < 2 {
            let next = prefetched..prefetched + STACKS_AT_ONCE;
            prefetched = next.end;
            next.clone()
                .for_each(|ahead| self.prefetch(ahead, Started::prefetch_page));
            next.for_each(|ahead| self.prefetch(ahead, Started::prefetch_stack));
        }
        self.prefetched.set(prefetched);
    }

    /// Prefetches the fiber at this distance from the head.
    #[inline(always)]
    fn prefetch(&self, ahead: u8, prefetch: fn(Started)) {
        if let Some(fiber) = self.place(self.head.get().wrapping_add(ahead)).get() {
            prefetch(fiber);
        }
    }
}

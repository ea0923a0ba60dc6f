//! The ready fibers of one worker.
//!
//! A fiber that the running fiber has woken runs next: the data that the two share is still in the cache, and the
//! running fiber probably waits for an answer. This happens only a few times in a row, so that two fibers that wake
//! each other do not starve the rest.

use std::cell::Cell;
use std::sync::Arc;

use crossbeam_deque::{Stealer, Worker as Deque};
use crossbeam_utils::atomic::AtomicCell;

use super::run_queue::RunQueue;
use crate::fiber::Started;

/// Maximum number of times in a row that a woken fiber runs next: for a request, its response, and one more.
const NEXT_IN_A_ROW_MAX: u32 = 3;

/// Each fiber is contained at most once, so the number of live fibers bounds it.
pub(crate) struct Ready {
    /// All fibers or, if fibers migrate, those that must stay.
    staying: RunQueue,
    /// If fibers migrate: those that may leave.
    stealable: Option<Stealable>,
    /// The switch during which a fiber was last put first.
    next_at: Cell<u64>,
    /// Number of successive switches during which a fiber was put first.
    next_in_a_row: Cell<u32>,
}

struct Stealable {
    next: Arc<AtomicCell<Option<Started>>>,
    queue: Deque<Started>,
}

/// Steals ready fibers from a worker.
pub(crate) struct StealHandle {
    pub(crate) queue: Stealer<Started>,
    /// The fiber to run next, which is left to the worker as long as it makes progress: if two fibers wake each
    /// other, a thief would only separate them.
    pub(crate) next: Arc<AtomicCell<Option<Started>>>,
}

impl Ready {
    /// Fibers do not migrate.
    pub(crate) fn local() -> Ready {
        Ready {
            staying: RunQueue::default(),
            stealable: None,
            next_at: Cell::new(u64::MAX),
            next_in_a_row: Cell::new(0),
        }
    }

    /// Creates the queues of a worker whose ready fibers others may steal by the handle.
    pub(crate) fn stealable() -> (Ready, StealHandle) {
        let (next, queue) = (Arc::default(), Deque::new_fifo());
        let steal_handle = StealHandle {
            queue: queue.stealer(),
            next: Arc::clone(&next),
        };
        let ready = Ready {
            stealable: Some(Stealable { next, queue }),
            ..Ready::local()
        };
        (ready, steal_handle)
    }

    /// Appends a fiber.
    #[inline]
    pub(crate) fn push(&self, fiber: Started) {
        match &self.stealable {
            None => self.staying.push(fiber),
            Some(stealable) => stealable.queue.push(fiber),
        }
    }

    /// Appends a fiber that only this worker may run.
    #[inline(always)]
    pub(crate) fn push_staying(&self, fiber: Started) {
        self.staying.push(fiber);
    }

    /// Makes a fiber run next, unless that has happened too often in a row. A fiber that was to run next moves to the
    /// end of the queue. `now` is the number of switches made.
    #[inline]
    pub(crate) fn push_next(&self, fiber: Started, now: u64) {
        let is_first = self.has_no_next(now);
        if is_first && self.next_at.get().wrapping_add(1) != now {
            self.next_in_a_row.set(0);
        }
        if is_first && self.next_in_a_row.get() == NEXT_IN_A_ROW_MAX {
            return self.push(fiber);
        }
        self.next_at.set(now);
        self.next_in_a_row
            .update(|count| count + u32::from(is_first));
        let displaced = match &self.stealable {
            None => {
                let displaced = if is_first { None } else { self.staying.pop() };
                self.staying.push_first(fiber);
                displaced
            }
            Some(stealable) => stealable.next.swap(Some(fiber)),
        };
        if let Some(displaced) = displaced {
            self.push(displaced);
        }
    }

    /// Returns `true` if no fiber was put first since the last switch.
    pub(crate) fn has_no_next(&self, now: u64) -> bool {
        self.next_at.get() != now
    }

    /// Takes the fiber to run next, if fibers do not migrate.
    #[inline(always)]
    pub(crate) fn pop_staying(&self) -> Option<Started> {
        self.staying.pop()
    }

    /// Takes the fiber to run next, if fibers migrate.
    pub(crate) fn pop_stealable(&self) -> Option<Started> {
        let stealable = self.stealable.as_ref()?;
        // Usually it is empty, and no atomic read-modify-write is needed.
        let next = stealable.next.load().and_then(|_| stealable.next.take());
        // Fibers that must stay are few, and run first.
        next.or_else(|| self.staying.pop())
            .or_else(|| stealable.queue.pop())
    }

    /// Removes a fiber that only this worker may run. Returns `true` if it was in the queue.
    pub(crate) fn take_out(&self, fiber: Started) -> bool {
        self.staying.remove(fiber)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.staying.is_empty() && self.stealable.as_ref().is_none_or(Stealable::is_empty)
    }

    /// Returns the queue that others steal from, if fibers migrate.
    pub(crate) fn stealable_queue(&self) -> Option<&Deque<Started>> {
        self.stealable.as_ref().map(|stealable| &stealable.queue)
    }
}

impl Stealable {
    fn is_empty(&self) -> bool {
        self.next.load().is_none() && self.queue.is_empty()
    }
}

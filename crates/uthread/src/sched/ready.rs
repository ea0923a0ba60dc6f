//! The ready fibers of one worker: a queue, and a single slot before its head.
//!
//! A fiber that the running fiber has woken enters this slot: the data that the two share is still in the
//! cache, and the running fiber probably waits for an answer. The slot is served only a few times in a row,
//! so that two fibers that wake each other do not starve the rest.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use crossbeam_deque::{Stealer, Worker as Deque};
use crossbeam_utils::atomic::AtomicCell;

use crate::fiber::Started;

/// Maximum number of times in a row that the slot is served: for a request, its response, and one more.
const NEXT_IN_A_ROW_MAX: usize = 3;

/// Distance in the queue at which a fiber's control block is prefetched. With thousands of fibers, each
/// resumption misses the cache and the TLB, and prefetching hides some 100 ns.
const PREFETCH_CONTROL_AHEAD: usize = 2 + 2 * STACKS_AT_ONCE;

/// Number of stacks prefetched together: a prefetch waits for the address translation of its page, but the
/// CPU performs several of them at a time.
const STACKS_AT_ONCE: usize = 4;

/// Each fiber is contained at most once, so the number of live fibers bounds it.
pub(crate) struct Ready {
    queues: Queues,
    next_in_a_row: Cell<usize>,
}

enum Queues {
    /// Fibers do not migrate.
    Local {
        next: Cell<Option<Started>>,
        queue: RefCell<VecDeque<Started>>,
        /// Number of fibers at the head of the queue whose stacks were prefetched.
        prefetched: Cell<usize>,
    },
    /// Fibers migrate, except for those that must stay.
    Stealable {
        next: Arc<AtomicCell<Option<Started>>>,
        queue: Deque<Started>,
        staying: RefCell<VecDeque<Started>>,
    },
}

/// Steals ready fibers from a worker.
pub(crate) struct StealHandle {
    pub(crate) queue: Stealer<Started>,
    /// Left to the worker as long as it makes progress: if two fibers wake each other, a thief would only
    /// separate them.
    pub(crate) next: Arc<AtomicCell<Option<Started>>>,
}

impl Ready {
    /// Fibers do not migrate.
    pub(crate) fn local() -> Ready {
        Ready::new(Queues::Local {
            next: Cell::default(),
            queue: RefCell::default(),
            prefetched: Cell::default(),
        })
    }

    /// Creates the queues of a worker whose ready fibers others may steal by the handle.
    pub(crate) fn stealable() -> (Ready, StealHandle) {
        let (next, queue) = (Arc::default(), Deque::new_fifo());
        let steal_handle = StealHandle {
            queue: queue.stealer(),
            next: Arc::clone(&next),
        };
        let staying = RefCell::default();
        let queues = Queues::Stealable {
            next,
            queue,
            staying,
        };
        (Ready::new(queues), steal_handle)
    }

    fn new(queues: Queues) -> Ready {
        Ready {
            queues,
            next_in_a_row: Cell::new(0),
        }
    }

    /// Appends a fiber to the queue.
    pub(crate) fn push(&self, fiber: Started) {
        match &self.queues {
            Queues::Local { queue, .. } => queue.borrow_mut().push_back(fiber),
            Queues::Stealable { queue, .. } => queue.push(fiber),
        }
    }

    /// Adds a fiber that only this worker may run.
    pub(crate) fn push_staying(&self, fiber: Started) {
        match &self.queues {
            Queues::Local { queue, .. } => queue.borrow_mut().push_back(fiber),
            Queues::Stealable { staying, .. } => staying.borrow_mut().push_back(fiber),
        }
    }

    /// Puts a fiber that the running one has woken into the slot. A fiber that was there moves to the end of
    /// the queue.
    pub(crate) fn push_next(&self, fiber: Started) {
        if let Some(displaced) = self.replace_next(Some(fiber)) {
            self.push(displaced);
        }
    }

    /// Returns `true` if the slot is free.
    pub(crate) fn has_no_next(&self) -> bool {
        match &self.queues {
            Queues::Local { next, .. } => next.get().is_none(),
            Queues::Stealable { next, .. } => next.load().is_none(),
        }
    }

    pub(crate) fn pop(&self) -> Option<Started> {
        let Some(next) = self.replace_next(None) else {
            self.next_in_a_row.set(0);
            return self.pop_queue();
        };
        let in_a_row = self.next_in_a_row.get();
        if in_a_row < NEXT_IN_A_ROW_MAX {
            self.next_in_a_row.set(in_a_row + 1);
            return Some(next);
        }
        self.next_in_a_row.set(0);
        self.push(next);
        self.pop_queue()
    }

    /// Removes a fiber that only this worker may run. Returns `true` if it was in the queue.
    pub(crate) fn take_out(&self, fiber: Started) -> bool {
        let (mut queue, prefetched) = match &self.queues {
            Queues::Local { next, .. } if next.get() == Some(fiber) => {
                next.set(None);
                return true;
            }
            Queues::Local {
                queue, prefetched, ..
            } => (queue.borrow_mut(), Some(prefetched)),
            Queues::Stealable { staying, .. } => (staying.borrow_mut(), None),
        };
        let Some(index) = queue.iter().position(|queued| *queued == fiber) else {
            return false;
        };
        queue.remove(index);
        if let Some(prefetched) = prefetched {
            prefetched.set(prefetched.get().min(index));
        }
        true
    }

    fn replace_next(&self, fiber: Option<Started>) -> Option<Started> {
        match &self.queues {
            Queues::Local { next, .. } => next.replace(fiber),
            // Usually both are empty, and no atomic read-modify-write is needed.
            Queues::Stealable { next, .. } if fiber.is_none() && next.load().is_none() => None,
            Queues::Stealable { next, .. } => next.swap(fiber),
        }
    }

    fn pop_queue(&self) -> Option<Started> {
        let (mut queue, prefetched) = match &self.queues {
            Queues::Local {
                queue, prefetched, ..
            } => (queue.borrow_mut(), prefetched),
            // Fibers that must stay are few, and run first.
            Queues::Stealable { queue, staying, .. } => {
                return staying.borrow_mut().pop_front().or_else(|| queue.pop());
            }
        };
        let first = queue.pop_front();
        prefetched.set(prefetch_stacks(&queue, prefetched.get().saturating_sub(1)));
        if let Some(later) = queue.get(PREFETCH_CONTROL_AHEAD) {
            later.prefetch();
        }
        first
    }

    pub(crate) fn is_empty(&self) -> bool {
        match &self.queues {
            Queues::Local { next, queue, .. } => next.get().is_none() && queue.borrow().is_empty(),
            Queues::Stealable {
                next,
                queue,
                staying,
            } => next.load().is_none() && queue.is_empty() && staying.borrow().is_empty(),
        }
    }

    /// Returns the queue that others steal from, if fibers migrate.
    pub(crate) fn stealable_queue(&self) -> Option<&Deque<Started>> {
        match &self.queues {
            Queues::Local { .. } => None,
            Queues::Stealable { queue, .. } => Some(queue),
        }
    }
}

/// Prefetches the stacks of the next fibers, unless enough prefetches are in progress. Returns how many are
/// now.
#[inline(always)]
fn prefetch_stacks(queue: &VecDeque<Started>, prefetched: usize) -> usize {
    if prefetched > 1 {
        return prefetched;
    }
    let end = queue.len().min(prefetched + STACKS_AT_ONCE);
    let next = queue.range(prefetched..end);
    next.clone().for_each(|fiber| fiber.prefetch_page());
    next.for_each(|fiber| fiber.prefetch_stack());
    end
}

//! The started fibers of one worker that can go on: a queue, and one place before its head.
//!
//! A fiber that the running one has woken takes that place: what the two share is still in the cache, and
//! who woke it is likely to wait for its answer. So that two fibers that wake each other cannot keep out
//! the rest, the place is served only so many times in a row.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use crossbeam_deque::{Stealer, Worker as Deque};
use crossbeam_utils::atomic::AtomicCell;

use crate::fiber::Started;

/// How often in a row the place before the head is served: a question, its answer, and one more.
const NEXT_IN_A_ROW_MAX: usize = 3;

/// How far ahead in the queue a fiber's control block is asked for. With thousands of fibers each resumption misses
/// the cache and the table of pages: some 100 ns that pass meanwhile.
const PREFETCH_CONTROL_AHEAD: usize = 2 + 2 * STACKS_AT_ONCE;

/// Of so many the stacks are asked for together: a CPU waits with a prefetch for the place of its page, but looks for
/// several at a time.
const STACKS_AT_ONCE: usize = 4;

/// Each fiber is in it at most once, so the number of live fibers bounds it.
pub(crate) struct Ready {
    queues: Queues,
    next_in_a_row: Cell<usize>,
}

enum Queues {
    /// Creates the queues of a worker that keeps its ready fibers.
    Local {
        next: Cell<Option<Started>>,
        queue: RefCell<VecDeque<Started>>,
        /// Of so many at the head of the queue the stacks were asked for.
        prefetched: Cell<usize>,
    },
    /// Where fibers migrate, but for those that must stay.
    Stealable {
        next: Arc<AtomicCell<Option<Started>>>,
        queue: Deque<Started>,
        staying: RefCell<VecDeque<Started>>,
    },
}

/// Steals ready fibers from a worker.
pub(crate) struct StealHandle {
    pub(crate) queue: Stealer<Started>,
    /// Left to the worker as long as the worker gets to it: if two fibers wake each other, a thief would only
    /// separate them.
    pub(crate) next: Arc<AtomicCell<Option<Started>>>,
}

impl Ready {
    /// Creates the queues of a worker that keeps its ready fibers.
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

    /// Adds a fiber behind the others.
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

    /// Adds a fiber that the running one has woken, before the others. Whoever had that place goes to
    /// the end of the queue.
    pub(crate) fn push_next(&self, fiber: Started) {
        if let Some(displaced) = self.replace_next(Some(fiber)) {
            self.push(displaced);
        }
    }

    /// Whether the place before the others is free.
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

    /// Takes a fiber out that only this worker may run; whether it was there.
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
            // Mostly both are none, and then no locked instruction is due.
            Queues::Stealable { next, .. } if fiber.is_none() && next.load().is_none() => None,
            Queues::Stealable { next, .. } => next.swap(fiber),
        }
    }

    fn pop_queue(&self) -> Option<Started> {
        let (mut queue, prefetched) = match &self.queues {
            Queues::Local {
                queue, prefetched, ..
            } => (queue.borrow_mut(), prefetched),
            // Those that stay are few, and first.
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

    /// The queue that others take from, if they may.
    pub(crate) fn stealable_queue(&self) -> Option<&Deque<Started>> {
        match &self.queues {
            Queues::Local { .. } => None,
            Queues::Stealable { queue, .. } => Some(queue),
        }
    }
}

/// Asks for the stacks of the next few where no more than this are on their way; how many are now.
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

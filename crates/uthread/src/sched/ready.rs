//! The started fibers of one worker that can go on: a queue, and one place before its head.
//!
//! A fiber that the running one has woken takes that place: what the two share is still in the cache, and
//! who woke it is likely to wait for its answer. So that two fibers that wake each other cannot keep out
//! the rest, the place is served only so many times in a row.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::fiber::Started;

/// How often in a row the place before the head is served: a question, its answer, and one more.
const NEXT_IN_A_ROW_MAX: usize = 3;

/// How far ahead in the queue a fiber's memory is asked for. With thousands of fibers each resumption
/// misses the cache and the table of pages: some 100 ns that pass meanwhile. First the control block, then
/// the stack, whose place is in it.
const PREFETCH_CONTROL_AHEAD: usize = 5;
const PREFETCH_STACK_AHEAD: usize = 2;

/// Each fiber is in it at most once, so the number of live fibers bounds it.
#[derive(Default)]
pub(crate) struct Ready {
    next: Cell<Option<Started>>,
    next_in_a_row: Cell<usize>,
    queue: RefCell<VecDeque<Started>>,
}

impl Ready {
    /// Adds a fiber behind the others.
    pub(crate) fn push(&self, fiber: Started) {
        self.queue.borrow_mut().push_back(fiber);
    }

    /// Adds a fiber that the running one has woken, before the others. Whoever had that place goes to
    /// the end of the queue.
    pub(crate) fn push_next(&self, fiber: Started) {
        if let Some(displaced) = self.next.replace(Some(fiber)) {
            self.push(displaced);
        }
    }

    pub(crate) fn pop(&self) -> Option<Started> {
        let Some(next) = self.next.take() else {
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

    fn pop_queue(&self) -> Option<Started> {
        let mut queue = self.queue.borrow_mut();
        let first = queue.pop_front();
        if let Some(soon) = queue.get(PREFETCH_STACK_AHEAD) {
            soon.prefetch_stack();
        }
        if let Some(later) = queue.get(PREFETCH_CONTROL_AHEAD) {
            later.prefetch();
        }
        first
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.next.get().is_none() && self.queue.borrow().is_empty()
    }
}

//! The stacks that the fibers of a worker use one after another, warm in the cache.

use std::cell::RefCell;
use std::mem;

use crate::stack::Stack;
use crate::stack::pool::Pool;

/// Maximum number of free stacks, of fibers that have waited in a call.
const STACKS_MAX: usize = 64;

#[derive(Default)]
pub(super) struct SharedStacks {
    /// The newest last.
    free: RefCell<Vec<Stack>>,
}

impl SharedStacks {
    /// Takes the stack that was used last, unless there is no memory for one.
    pub(super) fn take(&self, pool: &Pool) -> Option<Stack> {
        let mut free = self.free.borrow_mut();
        if free.is_empty() {
            pool.take(&mut free).ok()?;
        }
        free.pop()
    }

    pub(super) fn give(&self, stack: Stack, pool: &Pool) {
        let mut free = self.free.borrow_mut();
        if free.len() == STACKS_MAX {
            // The oldest. Many at once, as that takes system calls.
            pool.give(free.drain(..STACKS_MAX / 2));
        }
        free.push(stack);
    }

    /// Gives all stacks to the pool, as the worker ends.
    pub(super) fn give_all(&self, pool: &Pool) {
        pool.give(mem::take(&mut *self.free.borrow_mut()));
    }
}

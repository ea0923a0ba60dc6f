//! New fibers for which there is no memory for a stack. They end without having run, but a
//! destructor of their captures may wait: on the worker's own stack it would block all fibers of
//! the worker, perhaps including the one it waits for.
//!
//! A runtime therefore keeps one stack per worker in reserve. While all of these are lent, further
//! such fibers wait here, for a returned reserve stack or for an idle worker that has another
//! stack.

use std::collections::VecDeque;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::atomic::lock;
use crate::fiber::FiberRef;
use crate::stack::Stack;

#[derive(Default)]
pub(crate) struct Shortage {
    state: Mutex<ReserveStacks>,
    /// `true` if fibers wait. Relaxed: a guess that saves idle workers the lock.
    any_waits: AtomicBool,
}

#[derive(Default)]
struct ReserveStacks {
    reserve: Vec<Stack>,
    /// Number of reserve stacks in use.
    lent: usize,
    /// Non-empty only while all reserve stacks are lent, so that a returned one serves it.
    waiting: VecDeque<Refused>,
}

/// A fiber that gets no stack to run on, and the error.
pub(in crate::sched) struct Refused {
    pub(in crate::sched) fiber: FiberRef,
    pub(in crate::sched) error: io::Error,
}

/// The use of a returned stack.
pub(in crate::sched) enum Returned {
    /// The fiber ends on it.
    For(Refused, Stack),
    Retained,
    NotNeeded(Stack),
}

impl Shortage {
    /// Adds a stack to the reserve.
    pub(in crate::sched) fn add(&self, stack: Stack) {
        lock(&self.state).reserve.push(stack);
    }

    /// Removes a stack from the reserve for good. Called by a worker at its end.
    pub(in crate::sched) fn remove(&self) -> Option<Stack> {
        lock(&self.state).reserve.pop()
    }

    /// Lends a reserve stack for a fiber to end on. If none is free, the fiber waits.
    pub(in crate::sched) fn lend(&self, refused: Refused) -> Option<(Refused, Stack)> {
        let mut state = lock(&self.state);
        match state.reserve.pop() {
            Some(stack) => {
                state.lent += 1;
                Some((refused, stack))
            }
            None => {
                state.waiting.push_back(refused);
                self.any_waits.store(true, Ordering::Relaxed);
                None
            }
        }
    }

    /// Takes back a stack that may be one of the reserve.
    pub(in crate::sched) fn give(&self, stack: Stack, is_reserve: bool) -> Returned {
        let mut state = lock(&self.state);
        if !is_reserve || state.lent == 0 {
            return Returned::NotNeeded(stack);
        }
        if let Some(refused) = self.take_from(&mut state) {
            return Returned::For(refused, stack);
        }
        state.lent -= 1;
        state.reserve.push(stack);
        Returned::Retained
    }

    /// Returns `true` if a reserve stack is in use.
    pub(in crate::sched) fn has_lent(&self) -> bool {
        lock(&self.state).lent > 0
    }

    /// Returns `true` if fibers wait, as far as known.
    pub(in crate::sched) fn has_waiters(&self) -> bool {
        self.any_waits.load(Ordering::Relaxed)
    }

    /// Takes a waiting fiber.
    pub(in crate::sched) fn take(&self) -> Option<Refused> {
        self.take_from(&mut lock(&self.state))
    }

    fn take_from(&self, state: &mut ReserveStacks) -> Option<Refused> {
        let refused = state.waiting.pop_front();
        self.any_waits
            .store(!state.waiting.is_empty(), Ordering::Relaxed);
        refused
    }
}

//! New fibers for which there is no memory for a stack. They end without having run, and a destructor of what they captured
//! may wait: on the worker's own stack it would hold up all fibers of the worker, perhaps the one it waits for.
//!
//! So a runtime keeps a stack per worker in reserve. While all of them are lent, further such fibers wait here: for a reserve
//! stack that comes back, or for an idle worker that has another stack.

use std::collections::VecDeque;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::atomic::lock;
use crate::fiber::FiberRef;
use crate::stack::Stack;

#[derive(Default)]
pub(crate) struct Shortage {
    state: Mutex<State>,
    /// Whether fibers wait. Relaxed: a guess, by which idle workers spare themselves the lock.
    any_waits: AtomicBool,
}

#[derive(Default)]
struct State {
    reserve: Vec<Stack>,
    /// Reserve stacks on which fibers are.
    lent: usize,
    /// Only while all are lent, so that one that comes back serves them.
    waiting: VecDeque<Refused>,
}

/// A fiber that gets no stack to run on, and why.
pub(super) struct Refused {
    pub(super) fiber: FiberRef,
    pub(super) error: io::Error,
}

/// What becomes of a stack that came back.
pub(super) enum Returned {
    /// This fiber ends on it.
    For(Refused, Stack),
    Kept,
    NotNeeded(Stack),
}

impl Shortage {
    /// Adds a stack to the reserve.
    pub(super) fn add(&self, stack: Stack) {
        lock(&self.state).reserve.push(stack);
    }

    /// Takes one out for good: called by a worker at its end.
    pub(super) fn remove(&self) -> Option<Stack> {
        lock(&self.state).reserve.pop()
    }

    /// A stack of the reserve for a fiber to end on, or none, and the fiber waits.
    pub(super) fn lend(&self, refused: Refused) -> Option<(Refused, Stack)> {
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

    /// Takes a stack back that may be one of the reserve.
    pub(super) fn give(&self, stack: Stack, is_reserve: bool) -> Returned {
        let mut state = lock(&self.state);
        if !is_reserve || state.lent == 0 {
            return Returned::NotNeeded(stack);
        }
        if let Some(refused) = self.take_from(&mut state) {
            return Returned::For(refused, stack);
        }
        state.lent -= 1;
        state.reserve.push(stack);
        Returned::Kept
    }

    /// Whether fibers wait, as far as that is known.
    pub(super) fn does_any_wait(&self) -> bool {
        self.any_waits.load(Ordering::Relaxed)
    }

    /// Takes one that waits.
    pub(super) fn take(&self) -> Option<Refused> {
        self.take_from(&mut lock(&self.state))
    }

    fn take_from(&self, state: &mut State) -> Option<Refused> {
        let refused = state.waiting.pop_front();
        self.any_waits
            .store(!state.waiting.is_empty(), Ordering::Relaxed);
        refused
    }
}

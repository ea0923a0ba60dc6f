//! Taking turns: a fair lock that suspends a fiber and blocks a thread.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::wait;
use crate::fiber::Waiter;

/// A ticket lock: whoever comes first is served first.
pub(crate) struct Turns {
    state: Mutex<State>,
}

struct State {
    next_ticket: u64,
    serving: u64,
    /// Who waits, in the order of their tickets; bounded by the number of fibers and threads.
    waiting: VecDeque<Waiter>,
}

impl Turns {
    pub(crate) const fn new() -> Turns {
        Turns {
            state: Mutex::new(State {
                next_ticket: 0,
                serving: 0,
                waiting: VecDeque::new(),
            }),
        }
    }

    /// Waits for the caller's turn, which lasts as long as the result lives.
    pub(crate) fn take(&self) -> Turn<'_> {
        let mut state = self.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        if state.serving != ticket {
            state.waiting.push_back(wait::waiter());
            drop(state);
            wait::park_until(|| self.lock().serving == ticket);
        }
        Turn { turns: self }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Turns {
    fn default() -> Turns {
        Turns::new()
    }
}

/// The caller's turn.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let next = {
            let mut state = self.turns.lock();
            state.serving += 1;
            state.waiting.pop_front()
        };
        if let Some(next) = next {
            next.wake();
        }
    }
}

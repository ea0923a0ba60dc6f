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
    /// None in the place of one that will never come.
    waiting: VecDeque<Option<Waiter>>,
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
            state.waiting.push_back(Some(wait::waiter()));
            drop(state);
            while self.lock().serving != ticket {
                if wait::is_abandoned() {
                    self.vanish(ticket);
                } else {
                    wait::park();
                }
            }
        }
        Turn { turns: self }
    }

    /// Gives the caller's turn up for ever, as its runtime abandons it; returns if it has come.
    #[cold]
    fn vanish(&self, ticket: u64) {
        let mut state = self.lock();
        let Some(before) = (ticket - state.serving).checked_sub(1) else {
            return;
        };
        // Those who wait have all tickets after the one that is served.
        state.waiting[before as usize] = None;
        drop(state);
        wait::vanish_if_abandoned("it waits for its turn");
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
            loop {
                state.serving += 1;
                match state.waiting.pop_front() {
                    Some(None) => {}
                    next => break next.flatten(),
                }
            }
        };
        if let Some(next) = next {
            next.wake();
        }
    }
}

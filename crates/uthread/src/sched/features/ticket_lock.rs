//! A fair lock that suspends a fiber and blocks a thread.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use crate::atomic::lock;
use crate::fiber::WakeHandle;
use crate::sched::caller::{self, cancellation, wait};

/// A ticket lock: serves callers in the order of their arrival.
pub(crate) struct TicketLock {
    state: Mutex<TicketQueue>,
}

struct TicketQueue {
    next_ticket: u64,
    serving: u64,
    /// The waiters in the order of their tickets; bounded by the number of fibers and threads.
    /// `None` replaces a waiter that its runtime has abandoned.
    waiters: VecDeque<Option<WakeHandle>>,
}

impl TicketLock {
    pub(crate) const fn new() -> TicketLock {
        TicketLock {
            state: Mutex::new(TicketQueue {
                next_ticket: 0,
                serving: 0,
                waiters: VecDeque::new(),
            }),
        }
    }

    /// Waits for the lock and holds it until the ticket is dropped.
    pub(crate) fn lock(&self) -> Ticket<'_> {
        let mut state = self.state();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        if state.serving != ticket {
            state.waiters.push_back(Some(caller::wake_handle()));
            drop(state);
            while self.state().serving != ticket {
                if cancellation::is_abandoned() {
                    self.vanish(ticket);
                } else {
                    wait::park();
                }
            }
        }
        Ticket { lock: self }
    }

    /// Gives the ticket up forever, as the caller's runtime abandons the caller. Returns if the
    /// ticket is being served.
    #[cold]
    fn vanish(&self, ticket: u64) {
        let mut state = self.state();
        let Some(before) = (ticket - state.serving).checked_sub(1) else {
            return;
        };
        // The waiters have all tickets after the one that is served.
        state.waiters[before as usize] = None;
        drop(state);
        cancellation::vanish_if_abandoned("it waits for its turn at a lock");
    }

    fn state(&self) -> MutexGuard<'_, TicketQueue> {
        lock(&self.state)
    }
}

impl Default for TicketLock {
    fn default() -> TicketLock {
        TicketLock::new()
    }
}

/// Holds the lock until it is dropped.
pub(crate) struct Ticket<'a> {
    lock: &'a TicketLock,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let next = {
            let mut state = self.lock.state();
            loop {
                state.serving += 1;
                match state.waiters.pop_front() {
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

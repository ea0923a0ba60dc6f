//! The operations one worker has in flight: who waits for each, and until when.

use std::ptr;
use std::sync::atomic::Ordering;

use slab::Slab;

use super::timers;
use crate::driver::Token;
use crate::fiber::control::Completion;
use crate::fiber::{Control, Started};
use crate::op;

/// A fiber waiting for a completion.
struct InFlight {
    /// Tells this use of the slot from earlier ones, in which a late event may have been meant.
    sequence: u32,
    fiber: Started,
    urgent: bool,
    timer: Option<timers::Key>,
    timed_out: bool,
}

/// What becomes of an operation.
pub(crate) struct Completed {
    /// Who waited, and has the result now.
    pub(crate) fiber: Started,
    /// Whether it goes on before the others.
    pub(crate) urgent: bool,
    pub(crate) timer: Option<timers::Key>,
}

/// All operations in flight of one worker.
#[derive(Default)]
pub(crate) struct Operations {
    slots: Slab<InFlight>,
    next_sequence: u32,
}

impl Operations {
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Notes that `fiber` waits, and names the operation.
    pub(crate) fn insert(&mut self, fiber: Started, urgent: bool) -> Token {
        let sequence = self.next_sequence;
        self.next_sequence = sequence.wrapping_add(1);
        let slot = self.slots.insert(InFlight {
            sequence,
            fiber,
            urgent,
            timer: None,
            timed_out: false,
        });
        let slot = u32::try_from(slot).expect("4 billion operations in flight exhaust memory");
        debug_assert!(slot < u32::MAX / 2, "the highest tokens are the driver's");
        let token = Token(u64::from(slot) << 32 | u64::from(sequence));
        fiber.control().operation.store(token.0, Ordering::Relaxed);
        token
    }

    /// Attaches the timer that bounds an operation just inserted.
    pub(crate) fn set_timer(&mut self, token: Token, timer: timers::Key) {
        if let Some(operation) = self.find(token) {
            operation.timer = Some(timer);
        }
    }

    /// The operation's timer has expired; false if its completion came first.
    pub(crate) fn time_out(&mut self, token: Token) -> bool {
        match self.find(token) {
            Some(operation) => {
                operation.timer = None;
                operation.timed_out = true;
                true
            }
            None => false,
        }
    }

    /// Takes a completed operation out: its fiber, carrying the result, and its pending timer.
    ///
    /// # Panics
    ///
    /// When the token names nothing in flight: the driver completed an operation twice.
    pub(crate) fn complete(&mut self, token: Token, result: i32) -> Completed {
        assert!(self.find(token).is_some(), "{token:?} completed twice");
        let operation = self.slots.remove(slot(token));
        operation.fiber.control().completion.set(Completion {
            result,
            timed_out: operation.timed_out && op::CANCELLED_RESULTS.contains(&result),
        });
        Completed {
            fiber: operation.fiber,
            urgent: operation.urgent,
            timer: operation.timer,
        }
    }

    /// The names of all whose fiber is among the chosen.
    pub(crate) fn tokens_of(&self, chosen: impl Fn(&Control) -> bool) -> Vec<Token> {
        self.slots
            .iter()
            .filter(|(_, operation)| chosen(operation.fiber.control()))
            .map(|(slot, operation)| Token((slot as u64) << 32 | u64::from(operation.sequence)))
            .collect()
    }

    /// The name of the operation that this fiber waits for here.
    pub(crate) fn token_of(&mut self, fiber: &Control) -> Option<Token> {
        let token = Token(fiber.operation.load(Ordering::Relaxed));
        let operation = self.find(token)?;
        ptr::eq(operation.fiber.control(), fiber).then_some(token)
    }

    fn find(&mut self, token: Token) -> Option<&mut InFlight> {
        self.slots
            .get_mut(slot(token))
            .filter(|operation| u64::from(operation.sequence) == token.0 & u64::from(u32::MAX))
    }
}

fn slot(token: Token) -> usize {
    (token.0 >> 32) as usize
}

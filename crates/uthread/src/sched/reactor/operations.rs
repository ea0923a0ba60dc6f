//! The operations in flight of one worker, with the waiting fiber and the timer of each.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slab::Slab;

use super::tables;
use super::timers;
use crate::driver::{Completion, Token};
use crate::fiber::control::OperationResult;
use crate::fiber::{Control, FiberRef, Started};
use crate::op::{self, Awaited};

/// An operation in flight.
struct InFlight {
    /// Distinguishes this use of the slot from earlier ones, to which a late event may refer.
    sequence: u32,
    recipient: Recipient,
    resumes_first: bool,
    timer: Option<timers::Key>,
    timed_out: bool,
}

// A worker may have a million.
const _: () = assert!(size_of::<InFlight>() == 32);

/// Receives completions: the reactor's half.
pub(in crate::sched) trait CompletionSink: Send + Sync {
    /// Accepts a completion.
    fn push(&self, completion: Completion) -> Accepted;
}

/// The actions that a completion requires of the reactor.
pub(in crate::sched) struct Accepted {
    /// Wake this fiber.
    pub(in crate::sched) waiter: Option<FiberRef>,
    /// Cancel the operation, as its backlog is full.
    pub(in crate::sched) is_full: bool,
}

/// Identifies an operation in flight: its worker, and its token there.
#[derive(Clone, Copy)]
pub(crate) struct OperationId {
    pub(in crate::sched) worker: usize,
    pub(in crate::sched) token: Token,
}

/// Receives the results.
enum Recipient {
    /// A fiber that waits for the only result.
    Fiber(Started),
    /// A sink whose fiber waits, if it does, in a park.
    Sink(Arc<dyn CompletionSink>),
}

impl Recipient {
    /// Returns the fiber that waits for the operation, if there is one.
    fn waiting(&self) -> Option<&Control> {
        match self {
            Recipient::Fiber(fiber) => Some(fiber.control()),
            Recipient::Sink(_) => None,
        }
    }
}

/// The outcome of a completion.
pub(crate) struct Completed {
    pub(crate) woken: Woken,
    /// Set if the woken fiber runs before others.
    pub(crate) resumes_first: bool,
    pub(crate) timer: Option<timers::Key>,
    /// Set if the operation is to be cancelled.
    pub(crate) is_full: bool,
}

/// The fiber that a completion makes ready.
pub(crate) enum Woken {
    /// A fiber that waited for this operation, and has its result.
    Resumed(Started),
    /// A fiber that waits in a park of its own.
    Unparked(FiberRef),
    Nobody,
}

/// All operations in flight of one worker.
#[derive(Default)]
pub(crate) struct Operations {
    slots: Slab<InFlight>,
    /// A number above all indices so far.
    indices: usize,
    next_sequence: u32,
}

impl Operations {
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the token of the operation that is inserted next. An operation that completes at
    /// once is not inserted.
    #[inline]
    pub(crate) fn next_token(&self) -> Token {
        let token = name(self.slots.vacant_key(), self.next_sequence);
        debug_assert!(token.0 < Token::RESERVED, "the highest are the driver's");
        token
    }

    /// Inserts an operation with the [next token](Operations::next_token). `fiber` waits for it, at
    /// most until the timer expires.
    pub(crate) fn insert(&mut self, fiber: Started, awaited: Awaited, timer: Option<timers::Key>) {
        let token = self.next_token();
        fiber.control().begin_operation(token.0, awaited.fd);
        self.insert_for(Recipient::Fiber(fiber), awaited.resumes_first, timer);
    }

    /// Adds an operation whose completions go to `sink`.
    pub(in crate::sched) fn insert_with_sink(
        &mut self,
        sink: Arc<dyn CompletionSink>,
        awaited: Awaited,
    ) {
        self.insert_for(Recipient::Sink(sink), awaited.resumes_first, None);
    }

    fn insert_for(
        &mut self,
        recipient: Recipient,
        resumes_first: bool,
        timer: Option<timers::Key>,
    ) {
        let sequence = self.next_sequence;
        self.next_sequence = sequence.wrapping_add(1);
        tables::make_room_in_slab(&mut self.slots);
        let slot = self.slots.insert(InFlight {
            sequence,
            recipient,
            resumes_first,
            timer,
            timed_out: false,
        });
        self.indices = self.indices.max(slot + 1);
        u32::try_from(slot).expect("4 billion operations in flight exhaust memory");
    }

    /// Returns the fiber that waits for an operation, if there is one.
    pub(crate) fn waiting(&self, token: Token) -> Option<&Control> {
        let operation = self.slots.get(slot(token))?;
        let is_same = name(slot(token), operation.sequence) == token;
        is_same.then(|| operation.recipient.waiting()).flatten()
    }

    /// Records that the timer of an operation has expired. Returns `false` if the operation has
    /// completed before.
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

    /// Prefetches the fiber that waits for the operation.
    pub(crate) fn prefetch(&self, token: Token) {
        if let Some(operation) = self.slots.get(slot(token))
            && let Recipient::Fiber(fiber) = &operation.recipient
        {
            fiber.prefetch();
        }
    }

    /// Passes a completion to its recipient. Removes the operation if this is its last completion.
    ///
    /// # Panics
    ///
    /// Panics if no operation has this token: the driver has completed an operation twice.
    pub(crate) fn complete(&mut self, token: Token, completion: Completion) -> Completed {
        let operation = self.find(token);
        let operation = operation.unwrap_or_else(|| panic!("{token:?} completed twice"));
        let resumes_first = operation.resumes_first;
        let (woken, is_full) = match &operation.recipient {
            Recipient::Fiber(fiber) => {
                debug_assert!(!completion.more, "the fiber waits for a single completion");
                let result = completion.result;
                let timed_out = operation.timed_out && op::CANCELLED_RESULTS.contains(&result);
                let result = if timed_out {
                    OperationResult::TIMED_OUT
                } else {
                    OperationResult(result)
                };
                fiber.control().complete_operation(result);
                (Woken::Resumed(*fiber), false)
            }
            Recipient::Sink(sink) => {
                let Accepted { waiter, is_full } = sink.push(completion);
                (waiter.map_or(Woken::Nobody, Woken::Unparked), is_full)
            }
        };
        let timer = if completion.more {
            None
        } else {
            self.slots.remove(slot(token)).timer
        };
        Completed {
            woken,
            resumes_first,
            timer,
            is_full,
        }
    }

    /// Returns the tokens of all operations whose fiber is chosen, and of those for which no fiber
    /// waits.
    pub(crate) fn tokens_of(&self, chosen: impl Fn(&Control) -> bool) -> Vec<Token> {
        self.slots
            .iter()
            .filter(|(_, operation)| operation.recipient.waiting().is_none_or(&chosen))
            .map(|(slot, operation)| name(slot, operation.sequence))
            .collect()
    }

    /// Returns the token of the operation that this fiber waits for, if it is one of this worker.
    pub(crate) fn token_of(&mut self, fiber: &Control) -> Option<Token> {
        let token = Token(fiber.operation.load(Ordering::Relaxed));
        let operation = self.find(token)?;
        let waiting = operation.recipient.waiting()?;
        ptr::eq(waiting, fiber).then_some(token)
    }

    pub(crate) fn has(&mut self, token: Token) -> bool {
        self.find(token).is_some()
    }

    fn find(&mut self, token: Token) -> Option<&mut InFlight> {
        self.slots
            .get_mut(slot(token))
            .filter(|operation| u64::from(operation.sequence) == token.0 & u64::from(u32::MAX))
    }
}

/// Returns the token of an operation: the slot in the upper half, and the sequence number of the
/// slot's use in the lower half.
fn name(slot: usize, sequence: u32) -> Token {
    Token((slot as u64) << 32 | u64::from(sequence))
}

fn slot(token: Token) -> usize {
    (token.0 >> 32) as usize
}

//! Raw operations in flight: several entries each, which complete one by one, some of them twice.
//!
//! The scheduler hears of an operation once, when all its entries have ended. Until then what came of them is
//! written into the operation, and the entries carry the driver's number for the operation in place of the token
//! ([`Target::Raw`]).

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::cancellations::Cancellations;
use super::user_data::{Target, UserData};
use crate::driver::Token;
use crate::op;
use crate::op::raw::{RawOperation, RawRequest};

/// Of one ring. Both its ends use it, the one that reaps maybe on another thread.
#[derive(Default)]
pub(super) struct Raws {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By number; bounded by the number of fibers, as each waits for one at most.
    in_flight: HashMap<u32, Raw>,
    /// The numbers by token.
    numbers: HashMap<Token, u32>,
    next: u32,
}

struct Raw {
    token: Token,
    operation: NonNull<RawOperation<'static>>,
    /// Entries that have not ended.
    remaining: usize,
    is_cancelled: bool,
}

#[allow(unsafe_code, reason = "a reference without a lifetime")]
// SAFETY: whoever has it is the only one to use the operation until its completion was handed out, as promised
// to `begin`; and an operation may be sent.
unsafe impl Send for Raw {}

/// The entry at `index` of an operation; there are at most [`ENTRIES_MAX`](crate::op::raw::ENTRIES_MAX).
fn target(operation: u32, index: usize) -> Target {
    Target::Raw {
        operation,
        entry: index as u16,
    }
}

impl Raws {
    /// Names the entries of an operation, which is complete when each of them has been noted.
    ///
    /// # Safety
    ///
    /// The operation stays alive and untouched until then.
    #[allow(unsafe_code, reason = "the operation is kept by address")]
    pub(super) unsafe fn begin(&self, operation: &mut RawOperation<'_>, token: Token) {
        let mut state = self.lock();
        let id = state.next;
        // Unique: what is in flight ends before four billion others.
        state.next = id.wrapping_add(1);
        for (index, request) in operation.requests.iter_mut().enumerate() {
            let user_data = UserData::Entry(target(id, index));
            request.entry.set_user_data(user_data.encode());
        }
        let raw = Raw {
            token,
            remaining: operation.requests.len(),
            operation: NonNull::from(operation).cast(),
            is_cancelled: false,
        };
        state.in_flight.insert(id, raw);
        state.numbers.insert(token, id);
    }

    /// Takes the answer to a request to cancel an entry.
    pub(super) fn on_cancel_answer(
        &self,
        id: u32,
        index: u16,
        result: i32,
        cancellations: &Cancellations,
    ) {
        let state = self.lock();
        if result < 0 && must_be_repeated(&state, id, index.into()) {
            cancellations.repeat(target(id, index.into()));
        }
    }

    /// Takes the completion of an entry; the operation and its result, if it was the last.
    #[allow(unsafe_code, reason = "the operation is there by promise")]
    pub(super) fn on_completion(
        &self,
        id: u32,
        index: u16,
        result: i32,
        flags: u32,
        cancellations: &Cancellations,
    ) -> Option<(Token, i32)> {
        let mut state = self.lock();
        let raw = state.in_flight.get_mut(&id).expect("it is in flight");
        // SAFETY: it is alive, as promised to `begin`, and used under this lock alone.
        let operation = unsafe { raw.operation.as_mut() };
        if !operation.requests[usize::from(index)].complete(result, flags) {
            return None;
        }
        raw.remaining -= 1;
        if raw.remaining > 0 {
            if raw.is_cancelled {
                // The next of a chain may only now have begun.
                cancel_entries(&mut state, id, cancellations);
            }
            return None;
        }
        *operation.is_complete = true;
        let (token, result) = (raw.token, result_of(operation, raw.is_cancelled));
        state.in_flight.remove(&id);
        state.numbers.remove(&token);
        Some((token, result))
    }

    /// Has the entries of an operation cancelled, once; false if there is none of that name.
    pub(super) fn cancel(&self, token: Token, cancellations: &Cancellations) -> bool {
        let mut state = self.lock();
        let Some(&id) = state.numbers.get(&token) else {
            return false;
        };
        if !state.in_flight[&id].is_cancelled {
            cancel_entries(&mut state, id, cancellations);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[allow(unsafe_code, reason = "the operation is there by promise")]
fn cancel_entries(state: &mut State, id: u32, cancellations: &Cancellations) {
    let raw = state.in_flight.get_mut(&id).expect("it is in flight");
    raw.is_cancelled = true;
    // SAFETY: it is alive, as promised to `begin`, and used under the lock of this state alone.
    let operation = unsafe { raw.operation.as_ref() };
    let left = operation.requests.iter().enumerate();
    let left = left.filter(|(_, request)| !request.has_ended());
    cancellations.cancel_entries(left.map(|(index, _)| target(id, index)));
}

/// Whether an entry has to be cancelled again as it has not ended.
#[allow(unsafe_code, reason = "the operation is there by promise")]
fn must_be_repeated(state: &State, id: u32, index: usize) -> bool {
    let Some(raw) = state.in_flight.get(&id) else {
        return false;
    };
    // SAFETY: it is alive, as promised to `begin`, and used under the lock of this state alone.
    let operation = unsafe { raw.operation.as_ref() };
    let before = index.checked_sub(1).map(|index| &operation.requests[index]);
    // It is cancelled anew once the one has ended for which it waits.
    let waits = before.is_some_and(|before| before.is_linked() && !before.has_ended());
    !waits && !operation.requests[index].has_ended()
}

/// One result for all: a chain that was cut off is cancelled, whatever else became of its entries.
fn result_of(operation: &RawOperation<'_>, is_cancelled: bool) -> i32 {
    match &operation.requests[..] {
        [request] => request.result,
        requests if is_cancelled && requests.iter().any(RawRequest::was_cancelled) => {
            -op::CANCELLED
        }
        _ => 0,
    }
}

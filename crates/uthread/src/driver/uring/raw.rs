//! Raw operations in flight: several entries each, which complete separately, some of them twice.
//!
//! The scheduler is notified of an operation once, when all its entries have ended. Until then
//! their results are stored in the operation, and the entries carry the driver's number of the
//! operation instead of its token ([`Target::Raw`]).

use std::ptr::NonNull;
use std::time::Instant;

use rustc_hash::FxHashMap;

use super::cancellations::Cancellations;
use super::user_data::{Target, UserData};
use crate::driver::Token;
use crate::op;
use crate::op::raw::{RawOperation, RawRequest};

/// The raw operations of one ring.
#[derive(Default)]
pub(super) struct Raws {
    /// By number.
    in_flight: FxHashMap<u32, Raw>,
    /// The numbers by token.
    numbers: FxHashMap<Token, u32>,
    next: u32,
}

struct Raw {
    token: Token,
    operation: NonNull<RawOperation<'static>>,
    /// Number of entries that have not ended.
    remaining: usize,
    is_cancelled: bool,
}

#[allow(unsafe_code, reason = "a reference without a lifetime")]
// SAFETY: the owner alone accesses the operation until its completion was handed out, by the
// contract of `begin`; and an operation is `Send`.
unsafe impl Send for Raw {}

/// Returns the target for the entry at `index` of an operation, which has at most
/// [`ENTRIES_MAX`](crate::op::raw::ENTRIES_MAX).
fn target(operation: u32, index: usize) -> Target {
    Target::Raw {
        operation,
        entry: index as u16,
    }
}

impl Raws {
    /// Registers an operation and sets the `user_data` of its entries. It is complete when each of
    /// them has completed.
    ///
    /// # Safety
    ///
    /// The operation stays alive and is not accessed until then.
    #[allow(unsafe_code, reason = "the operation is kept by address")]
    pub(super) unsafe fn begin(&mut self, operation: &mut RawOperation<'_>, token: Token) {
        let id = self.next;
        // Unique: an operation ends before four billion others.
        self.next = id.wrapping_add(1);
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
        self.in_flight.insert(id, raw);
        self.numbers.insert(token, id);
    }

    /// Handles the result of a request to cancel an entry.
    pub(super) fn on_cancel_answer(
        &self,
        id: u32,
        index: u16,
        result: i32,
        cancellations: &mut Cancellations,
    ) {
        if result < 0 && self.must_be_repeated(id, index.into()) {
            cancellations.repeat(target(id, index.into()), Instant::now());
        }
    }

    /// Handles the completion of an entry. Returns the operation and its result if it was the last
    /// entry.
    #[allow(unsafe_code, reason = "the operation is there by promise")]
    pub(super) fn on_completion(
        &mut self,
        id: u32,
        index: u16,
        result: i32,
        flags: u32,
        cancellations: &mut Cancellations,
    ) -> Option<(Token, i32)> {
        let raw = self
            .in_flight
            .get_mut(&id)
            .expect("the operation is in flight");
        // SAFETY: the operation is alive and not accessed elsewhere, by the contract of `begin`.
        let operation = unsafe { raw.operation.as_mut() };
        if !operation.requests[usize::from(index)].complete(result, flags) {
            return None;
        }
        raw.remaining -= 1;
        if raw.remaining > 0 {
            if raw.is_cancelled {
                // The next entry of a chain may have started only now.
                self.cancel_entries(id, cancellations);
            }
            return None;
        }
        *operation.is_complete = true;
        let (token, result) = (raw.token, result_of(operation, raw.is_cancelled));
        self.in_flight.remove(&id);
        self.numbers.remove(&token);
        Some((token, result))
    }

    /// Cancels the entries of an operation, once. Returns `false` if there is no operation with
    /// this token.
    pub(super) fn cancel(&mut self, token: Token, cancellations: &mut Cancellations) -> bool {
        let Some(&id) = self.numbers.get(&token) else {
            return false;
        };
        if !self.in_flight[&id].is_cancelled {
            self.cancel_entries(id, cancellations);
        }
        true
    }

    #[allow(unsafe_code, reason = "the operation is there by promise")]
    fn cancel_entries(&mut self, id: u32, cancellations: &mut Cancellations) {
        let raw = self
            .in_flight
            .get_mut(&id)
            .expect("the operation is in flight");
        raw.is_cancelled = true;
        // SAFETY: the operation is alive and not accessed elsewhere, by the contract of `begin`.
        let operation = unsafe { raw.operation.as_ref() };
        let left = operation.requests.iter().enumerate();
        let left = left.filter(|(_, request)| !request.has_ended());
        cancellations.cancel_entries(left.map(|(index, _)| target(id, index)));
    }

    /// Returns `true` if an entry has to be cancelled again, as it has not ended.
    #[allow(unsafe_code, reason = "the operation is there by promise")]
    fn must_be_repeated(&self, id: u32, index: usize) -> bool {
        let Some(raw) = self.in_flight.get(&id) else {
            return false;
        };
        // SAFETY: the operation is alive and not accessed elsewhere, by the contract of `begin`.
        let operation = unsafe { raw.operation.as_ref() };
        let before = index.checked_sub(1).map(|index| &operation.requests[index]);
        // The request is cancelled again once the entry that it waits for has ended.
        let waits = before.is_some_and(|before| before.is_linked() && !before.has_ended());
        !waits && !operation.requests[index].has_ended()
    }
}

/// Returns one result for all entries: a cancelled chain is cancelled, whatever the results of its
/// entries are.
fn result_of(operation: &RawOperation<'_>, is_cancelled: bool) -> i32 {
    match &operation.requests[..] {
        [request] => request.result,
        requests if is_cancelled && requests.iter().any(RawRequest::was_cancelled) => {
            -op::CANCELLED
        }
        _ => 0,
    }
}

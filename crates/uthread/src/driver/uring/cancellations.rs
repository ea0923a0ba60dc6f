//! Requests to cancel entries, each repeated until its entry has ended.
//!
//! Such a request finds nothing while its entry is on its way from one place of the kernel to another: a connect to a
//! Unix socket is tried a hundred times before a worker of the kernel waits for it. If it was lost, the entry could wait for ever.

use std::collections::HashSet;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::driver::Token;

/// What a request to cancel carries beside the name of its entry.
const CANCELLATION: u64 = 1 << 62;

/// After so long a request is repeated that has found nothing, or an entry in the hands of the kernel, which has got
/// further by then; and the end of a runtime is not held up by that.
const PAUSE: Duration = Duration::from_millis(1);

/// Of one ring. Both its ends use it, the one that reaps maybe on another thread.
#[derive(Default)]
pub(super) struct Cancellations {
    state: Mutex<State>,
    /// Whether there are requests to be made. Relaxed, as the next: a cancellation comes from the worker itself, or with a
    /// completion, and who reaps that is locked against the worker's cancellations and its wait (`Desk`).
    are_due: AtomicBool,
    /// Whether there are operations that have not ended.
    are_awaited: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Operations of a single entry that are to end, until they have.
    awaited: HashSet<Token>,
    /// Names of entries to be cancelled. For each entry in flight at most as many as its operation has.
    now: Vec<u64>,
    /// Those that are to be cancelled again, at this time at the earliest.
    later: Vec<u64>,
    later_at: Option<Instant>,
}

/// Whether a completion is that of a request to cancel.
pub(super) fn is_cancellation(user_data: u64) -> bool {
    user_data & CANCELLATION != 0
}

/// What a request to cancel the entry of this name carries.
pub(super) fn cancellation_of(name: u64) -> u64 {
    name | CANCELLATION
}

/// The name of the entry that is cancelled by this request.
pub(super) fn target_of(cancellation: u64) -> u64 {
    cancellation & !CANCELLATION
}

impl Cancellations {
    /// Has an operation of a single entry cancelled, which is in flight.
    pub(super) fn cancel(&self, token: Token) {
        let mut state = self.lock();
        state.awaited.insert(token);
        state.now.push(token.0);
        self.are_awaited.store(true, Ordering::Relaxed);
        self.are_due.store(true, Ordering::Relaxed);
    }

    /// Has entries of these names cancelled.
    pub(super) fn cancel_entries(&self, names: impl Iterator<Item = u64>) {
        self.lock().now.extend(names);
        self.are_due.store(true, Ordering::Relaxed);
    }

    /// Has an entry cancelled again that has not ended.
    pub(super) fn repeat(&self, name: u64) {
        self.repeat_in(&mut self.lock(), name);
    }

    fn repeat_in(&self, state: &mut State, name: u64) {
        state.later.push(name);
        state.later_at.get_or_insert_with(|| Instant::now() + PAUSE);
        self.are_due.store(true, Ordering::Relaxed);
    }

    /// Takes note of what became of a request to cancel such an operation.
    pub(super) fn note(&self, token: Token, result: i32) {
        let mut state = self.lock();
        if result < 0 && state.awaited.contains(&token) {
            self.repeat_in(&mut state, token.0);
        }
    }

    /// Takes note of the last completion of an operation.
    pub(super) fn note_end(&self, token: Token) {
        if self.are_awaited.load(Ordering::Relaxed) {
            let mut state = self.lock();
            state.awaited.remove(&token);
            let are_awaited = !state.awaited.is_empty();
            self.are_awaited.store(are_awaited, Ordering::Relaxed);
        }
    }

    /// Hands out the name of an entry to be cancelled now.
    pub(super) fn take(&self) -> Option<u64> {
        if !self.are_due.load(Ordering::Relaxed) {
            return None;
        }
        let mut state = self.lock();
        if state.later_at.is_some_and(|at| at <= Instant::now()) {
            state.later_at = None;
            let again = mem::take(&mut state.later);
            state.now.extend(again);
        }
        let name = state.now.pop();
        let are_left = name.is_some() || !state.later.is_empty();
        self.are_due.store(are_left, Ordering::Relaxed);
        name
    }

    /// When the next is to be cancelled, if one is.
    pub(super) fn next(&self) -> Option<Duration> {
        if !self.are_due.load(Ordering::Relaxed) {
            return None;
        }
        let state = self.lock();
        match (state.now.is_empty(), state.later_at) {
            (false, _) => Some(Duration::ZERO),
            (true, at) => at.map(|at| at.saturating_duration_since(Instant::now())),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

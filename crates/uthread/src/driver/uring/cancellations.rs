//! Requests to cancel entries, each repeated until its entry has ended.
//!
//! Such a request finds nothing while its entry is on its way from one place of the kernel to another: a connect to a
//! Unix socket is tried a hundred times before a worker of the kernel waits for it. If it was lost, the entry could wait for ever.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::driver::Token;

/// What a request to cancel carries beside the name of its entry.
const CANCELLATION: u64 = 1 << 62;

/// After so long a request is repeated for the first time that has found nothing, or an entry in the hands of the kernel,
/// which has got further by then; and the end of a runtime is not held up by that.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// The pause doubles up to this with each repetition: an entry that the kernel cannot interrupt, as a read from a server
/// that does not answer, must not keep the worker busy.
const PAUSE_MAX: Duration = Duration::from_millis(64);

/// Requests to cancel of one ring. Both its ends use it, the one that reaps maybe on another thread.
///
/// Every operation that [`cancel`](Cancellations::cancel) names has to be named to
/// [on_end](Cancellations::on_end) when its last completion is handed out, however that came about: the requests
/// for it are repeated until then.
#[derive(Default)]
pub(in crate::driver) struct Cancellations {
    state: Mutex<State>,
    /// Whether there are requests to be made. Relaxed, as the next: a cancellation comes from the worker itself, or with a
    /// completion, and who reaps that is locked against the worker's cancellations and its wait (`Reactor`).
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
    /// How long the next of these waits; none for the shortest time.
    pause: Option<Duration>,
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
    /// Cancels an operation of a single entry, which is in flight. Does nothing more for one that is cancelled already.
    pub(in crate::driver) fn cancel(&self, token: Token) {
        let mut state = self.lock();
        if state.awaited.insert(token) {
            state.now.push(token.0);
            state.pause = None;
            self.are_awaited.store(true, Ordering::Relaxed);
            self.are_due.store(true, Ordering::Relaxed);
        }
    }

    /// Has entries of these names cancelled.
    pub(super) fn cancel_entries(&self, names: impl Iterator<Item = u64>) {
        let mut state = self.lock();
        state.now.extend(names);
        state.pause = None;
        self.are_due.store(true, Ordering::Relaxed);
    }

    /// Has an entry cancelled again that has not ended.
    pub(super) fn repeat(&self, name: u64) {
        self.repeat_in(&mut self.lock(), name, Instant::now());
    }

    fn repeat_in(&self, state: &mut State, name: u64, now: Instant) {
        state.later.push(name);
        let at = now + state.pause.unwrap_or(PAUSE_MIN);
        state.later_at = Some(state.later_at.map_or(at, |earlier| earlier.min(at)));
        self.are_due.store(true, Ordering::Relaxed);
    }

    /// Forgets requests for an entry that has ended, and whose name another one may get.
    pub(super) fn forget(&self, name: u64) {
        if self.are_due.load(Ordering::Relaxed) {
            let State { now, later, .. } = &mut *self.lock();
            now.retain(|other| *other != name);
            later.retain(|other| *other != name);
        }
    }

    /// Notes what became of a request to cancel such an operation.
    pub(in crate::driver) fn on_answer(&self, token: Token, result: i32, now: Instant) {
        let mut state = self.lock();
        if result < 0 && state.awaited.contains(&token) {
            self.repeat_in(&mut state, token.0, now);
        }
    }

    /// Notes that the last completion of an operation is handed out.
    pub(in crate::driver) fn on_end(&self, token: Token) {
        if self.are_awaited.load(Ordering::Relaxed) {
            let mut state = self.lock();
            state.awaited.remove(&token);
            let are_awaited = !state.awaited.is_empty();
            self.are_awaited.store(are_awaited, Ordering::Relaxed);
        }
    }

    /// Hands out the name of an entry to be cancelled now.
    pub(in crate::driver) fn take(&self, now: impl Fn() -> Instant) -> Option<u64> {
        if !self.are_due.load(Ordering::Relaxed) {
            return None;
        }
        let State {
            awaited,
            now: names,
            later,
            later_at,
            pause,
        } = &mut *self.lock();
        if later_at.is_some_and(|at| at <= now()) {
            *later_at = None;
            *pause = Some(PAUSE_MAX.min(pause.unwrap_or(PAUSE_MIN) * 2));
            names.append(later);
        }
        // Of operations that have ended meanwhile there is nothing to cancel.
        let has_ended = |name: u64| name < Token::RESERVED && !awaited.contains(&Token(name));
        while names.pop_if(|name| has_ended(*name)).is_some() {}
        let name = names.pop();
        let are_left = name.is_some() || !later.is_empty();
        self.are_due.store(are_left, Ordering::Relaxed);
        name
    }

    /// How long until the next is to be cancelled, if one is.
    pub(in crate::driver) fn next(&self, now: impl Fn() -> Instant) -> Option<Duration> {
        if !self.are_due.load(Ordering::Relaxed) {
            return None;
        }
        let state = self.lock();
        match (state.now.is_empty(), state.later_at) {
            (false, _) => Some(Duration::ZERO),
            (true, at) => at.map(|at| at.saturating_duration_since(now())),
        }
    }

    /// Whether every cancelled operation has ended: a request may still be due, but is not repeated.
    #[cfg(test)]
    pub(in crate::driver) fn are_over(&self) -> bool {
        self.lock().awaited.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

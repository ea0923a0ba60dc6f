//! Requests to cancel entries, each repeated until its entry has ended.
//!
//! Such a request finds nothing while its entry is on its way from one place of the kernel to another: a connect to a
//! Unix socket is tried a hundred times before a worker of the kernel waits for it. If it was lost, the entry could wait for ever.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::user_data::Target;
use crate::driver::Token;

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
    /// Entries to be cancelled. For each entry in flight at most as many as its operation has.
    now: Vec<Target>,
    /// Those that are to be cancelled again, at this time at the earliest.
    later: Vec<Target>,
    later_at: Option<Instant>,
    /// How long the next of these waits; none for the shortest time.
    pause: Option<Duration>,
}

impl Cancellations {
    /// Cancels an operation of a single entry, which is in flight. Does nothing more for one that is cancelled already.
    pub(in crate::driver) fn cancel(&self, token: Token) {
        let mut state = self.lock();
        if state.awaited.insert(token) {
            state.now.push(Target::Operation(token));
            state.pause = None;
            self.are_awaited.store(true, Ordering::Relaxed);
            self.are_due.store(true, Ordering::Relaxed);
        }
    }

    /// Requests to cancel these entries.
    pub(super) fn cancel_entries(&self, entries: impl Iterator<Item = Target>) {
        let mut state = self.lock();
        state.now.extend(entries);
        state.pause = None;
        self.are_due.store(true, Ordering::Relaxed);
    }

    /// Has an entry cancelled again that has not ended.
    pub(super) fn repeat(&self, entry: Target) {
        self.repeat_in(&mut self.lock(), entry, Instant::now());
    }

    fn repeat_in(&self, state: &mut State, entry: Target, now: Instant) {
        state.later.push(entry);
        let at = now + state.pause.unwrap_or(PAUSE_MIN);
        state.later_at = Some(state.later_at.map_or(at, |earlier| earlier.min(at)));
        self.are_due.store(true, Ordering::Relaxed);
    }

    /// Forgets requests for an entry that has ended, and whose `user_data` another one may get.
    pub(super) fn forget(&self, entry: Target) {
        if self.are_due.load(Ordering::Relaxed) {
            let State { now, later, .. } = &mut *self.lock();
            now.retain(|other| *other != entry);
            later.retain(|other| *other != entry);
        }
    }

    /// Notes what became of a request to cancel such an operation.
    pub(in crate::driver) fn on_answer(&self, token: Token, result: i32, now: Instant) {
        let mut state = self.lock();
        if result < 0 && state.awaited.contains(&token) {
            self.repeat_in(&mut state, Target::Operation(token), now);
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

    /// Takes an entry to be cancelled now.
    pub(in crate::driver) fn take(&self, now: impl Fn() -> Instant) -> Option<Target> {
        if !self.are_due.load(Ordering::Relaxed) {
            return None;
        }
        let State {
            awaited,
            now: due,
            later,
            later_at,
            pause,
        } = &mut *self.lock();
        if later_at.is_some_and(|at| at <= now()) {
            *later_at = None;
            *pause = Some(PAUSE_MAX.min(pause.unwrap_or(PAUSE_MIN) * 2));
            due.append(later);
        }
        // Of operations that have ended meanwhile there is nothing to cancel.
        let has_ended = |entry: &mut Target| match entry {
            Target::Operation(token) => !awaited.contains(token),
            Target::Raw { .. } | Target::Poll(_) => false,
        };
        while due.pop_if(has_ended).is_some() {}
        let entry = due.pop();
        let are_left = entry.is_some() || !later.is_empty();
        self.are_due.store(are_left, Ordering::Relaxed);
        entry
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

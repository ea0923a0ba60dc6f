//! Requests to cancel entries, repeated until the entry has ended.
//!
//! A request finds nothing while its entry moves from one part of the kernel to another: a connect
//! to a Unix socket is tried a hundred times before a kernel worker waits for it. If the request
//! were lost, the entry could wait forever.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::user_data::Target;
use crate::atomic::lock;
use crate::driver::Token;

/// First pause before a request is repeated that has found nothing, or an entry that the kernel is
/// executing. It is long enough for the kernel to make progress, and short enough not to delay the
/// end of a runtime.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// Maximum pause; the pause doubles with each repetition. An entry that the kernel cannot
/// interrupt, such as a read from a server that does not respond, must not keep the worker busy.
const PAUSE_MAX: Duration = Duration::from_millis(64);

/// The requests to cancel of one ring.
///
/// Every operation passed to [`cancel`](Cancellations::cancel) must be passed to
/// [on_end](Cancellations::on_end) when its last completion is handed out: its requests are
/// repeated until then.
#[derive(Default)]
pub(in crate::driver) struct Cancellations {
    state: Mutex<Targets>,
    /// `true` if requests are due. Relaxed, like the next: only the worker uses them.
    has_due: AtomicBool,
    /// `true` if there are cancelled operations that have not ended.
    has_awaited: AtomicBool,
}

#[derive(Default)]
struct Targets {
    /// Cancelled single-entry operations that have not ended.
    awaited: HashSet<Token>,
    /// Entries to be cancelled now. At most as many per entry in flight as its operation has
    /// entries.
    now: Vec<Target>,
    /// Entries to be cancelled again, at this time at the earliest.
    later: Vec<Target>,
    later_at: Option<Instant>,
    /// The pause before the next repetition; `None` for the minimum.
    pause: Option<Duration>,
}

impl Cancellations {
    /// Cancels a single-entry operation, which must be in flight. Does nothing if it was cancelled
    /// before.
    pub(in crate::driver) fn cancel(&self, token: Token) {
        let mut state = self.lock();
        if state.awaited.insert(token) {
            state.now.push(Target::Operation(token));
            state.pause = None;
            self.has_awaited.store(true, Ordering::Relaxed);
            self.has_due.store(true, Ordering::Relaxed);
        }
    }

    /// Requests to cancel these entries.
    pub(super) fn cancel_entries(&self, entries: impl Iterator<Item = Target>) {
        let mut state = self.lock();
        state.now.extend(entries);
        state.pause = None;
        self.has_due.store(true, Ordering::Relaxed);
    }

    /// Cancels an entry again that has not ended.
    pub(super) fn repeat(&self, entry: Target) {
        self.repeat_in(&mut self.lock(), entry, Instant::now());
    }

    fn repeat_in(&self, state: &mut Targets, entry: Target, now: Instant) {
        state.later.push(entry);
        let at = now + state.pause.unwrap_or(PAUSE_MIN);
        state.later_at = Some(state.later_at.map_or(at, |earlier| earlier.min(at)));
        self.has_due.store(true, Ordering::Relaxed);
    }

    /// Handles the result of a request to cancel such an operation.
    pub(in crate::driver) fn on_answer(&self, token: Token, result: i32, now: Instant) {
        let mut state = self.lock();
        if result < 0 && state.awaited.contains(&token) {
            self.repeat_in(&mut state, Target::Operation(token), now);
        }
    }

    /// Returns `true` if the operation was cancelled and has not ended.
    #[cfg(uthread_urgent)]
    pub(super) fn is_awaited(&self, token: Token) -> bool {
        self.lock().awaited.contains(&token)
    }

    /// Records that the last completion of an operation is handed out.
    pub(in crate::driver) fn on_end(&self, token: Token) {
        if self.has_awaited.load(Ordering::Relaxed) {
            let mut state = self.lock();
            state.awaited.remove(&token);
            let has_awaited = !state.awaited.is_empty();
            self.has_awaited.store(has_awaited, Ordering::Relaxed);
        }
    }

    /// Takes an entry to be cancelled now.
    pub(in crate::driver) fn take(&self, now: impl Fn() -> Instant) -> Option<Target> {
        if !self.has_due.load(Ordering::Relaxed) {
            return None;
        }
        let Targets {
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
        // Operations that have ended meanwhile are skipped.
        let has_ended = |entry: &mut Target| match entry {
            Target::Operation(token) => !awaited.contains(token),
            Target::Raw { .. } => false,
        };
        while due.pop_if(has_ended).is_some() {}
        let entry = due.pop();
        let has_due = entry.is_some() || !later.is_empty();
        self.has_due.store(has_due, Ordering::Relaxed);
        entry
    }

    /// Returns the time until the next entry is to be cancelled, if there is one.
    pub(in crate::driver) fn next(&self, now: impl Fn() -> Instant) -> Option<Duration> {
        if !self.has_due.load(Ordering::Relaxed) {
            return None;
        }
        let state = self.lock();
        match (state.now.is_empty(), state.later_at) {
            (false, _) => Some(Duration::ZERO),
            (true, at) => at.map(|at| at.saturating_duration_since(now())),
        }
    }

    /// Returns `true` if every cancelled operation has ended. A request may still be due then, but
    /// is not repeated.
    #[cfg(test)]
    pub(in crate::driver) fn is_settled(&self) -> bool {
        self.lock().awaited.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Targets> {
        lock(&self.state)
    }
}

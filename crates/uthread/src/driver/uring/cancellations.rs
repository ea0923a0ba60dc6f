//! Requests to cancel entries, repeated until the entry has ended.
//!
//! A request finds nothing while its entry moves from one part of the kernel to another: a connect
//! to a Unix socket is tried a hundred times before a kernel worker waits for it. If the request
//! were lost, the entry could wait forever.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::user_data::Target;
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
    pub(in crate::driver) fn cancel(&mut self, token: Token) {
        if self.awaited.insert(token) {
            self.cancel_entries([Target::Operation(token)].into_iter());
        }
    }

    /// Requests to cancel these entries.
    pub(super) fn cancel_entries(&mut self, entries: impl Iterator<Item = Target>) {
        self.now.extend(entries);
        self.pause = None;
    }

    /// Cancels an entry again that has not ended.
    pub(super) fn repeat(&mut self, entry: Target, now: Instant) {
        self.later.push(entry);
        let at = now + self.pause.unwrap_or(PAUSE_MIN);
        self.later_at = Some(self.later_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Handles the result of a request to cancel such an operation.
    pub(in crate::driver) fn on_answer(&mut self, token: Token, result: i32, now: Instant) {
        if result < 0 && self.awaited.contains(&token) {
            self.repeat(Target::Operation(token), now);
        }
    }

    /// Returns `true` if the operation was cancelled and has not ended.
    #[cfg(uthread_urgent)]
    pub(super) fn is_awaited(&self, token: Token) -> bool {
        self.awaited.contains(&token)
    }

    /// Records that the last completion of an operation is handed out.
    pub(in crate::driver) fn on_end(&mut self, token: Token) {
        // The set would compute a hash first.
        if !self.awaited.is_empty() {
            self.awaited.remove(&token);
        }
    }

    /// Takes an entry to be cancelled now.
    pub(in crate::driver) fn take(&mut self, now: impl Fn() -> Instant) -> Option<Target> {
        if self.later_at.is_some_and(|at| at <= now()) {
            self.later_at = None;
            self.pause = Some(PAUSE_MAX.min(self.pause.unwrap_or(PAUSE_MIN) * 2));
            self.now.append(&mut self.later);
        }
        // Operations that have ended meanwhile are skipped.
        let has_ended = |entry: &mut Target| match entry {
            Target::Operation(token) => !self.awaited.contains(token),
            Target::Raw { .. } => false,
        };
        while self.now.pop_if(has_ended).is_some() {}
        self.now.pop()
    }

    /// Returns the time until the next entry is to be cancelled, if there is one.
    pub(in crate::driver) fn next(&self, now: impl Fn() -> Instant) -> Option<Duration> {
        if !self.now.is_empty() {
            return Some(Duration::ZERO);
        }
        let at = self.later_at?;
        Some(at.saturating_duration_since(now()))
    }

    /// Returns `true` if every cancelled operation has ended. A request may still be due then, but
    /// is not repeated.
    #[cfg(test)]
    pub(in crate::driver) fn is_settled(&self) -> bool {
        self.awaited.is_empty()
    }
}

//! Waiting for the outcome of a fiber or of a channel until a deadline.

use std::time::Instant;

use super::park_deadline;
use crate::fiber::Outcome;
use crate::sched::caller::{self, cancellation};

/// Waits until an outcome is complete. Returns `false` if the deadline passes or the caller is
/// cancelled before that. The caller is the only one that may await it.
pub(crate) fn await_outcome<T>(outcome: &Outcome<T>, deadline: Instant) -> bool {
    while !outcome.is_done() && outcome.await_done(caller::wake_handle()) {
        let cancelled = cancellation::is_cancelled();
        let late = caller::now() >= deadline;
        if !cancelled && !late {
            park_deadline(deadline);
        }
        outcome.withdraw();
        if cancellation::is_cancelled() {
            cancellation::vanish_if_abandoned(cancellation::IN_A_CALL);
        }
        if outcome.is_done() {
            break;
        }
        if cancelled {
            cancellation::count_early_end();
        }
        if cancelled || late {
            return false;
        }
    }
    true
}

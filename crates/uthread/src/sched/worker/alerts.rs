//! The checks that a worker must make after a fiber has run, in one word: usually none, and a switch then costs a single
//! test.

use std::cell::Cell;

/// A set of flags, each of which the part of the worker that it belongs to maintains.
#[derive(Debug, Default)]
pub(super) struct Alerts(Cell<u8>);

impl Alerts {
    /// The batch may have to end before its last turn.
    pub(super) const BATCH_END: u8 = 1;

    /// It matters whether fibers panic.
    pub(super) const PANICS: u8 = 2;

    /// Fibers are ordered by their priorities.
    pub(super) const PRIORITIES: u8 = 4;

    /// Returns `true` if there is anything to check.
    #[inline(always)]
    pub(super) fn are_any(&self) -> bool {
        self.0.get() != 0
    }

    #[inline(always)]
    pub(super) fn has(&self, alert: u8) -> bool {
        self.0.get() & alert != 0
    }

    pub(super) fn set(&self, alert: u8, is_set: bool) {
        let others = self.0.get() & !alert;
        self.0.set(if is_set { others | alert } else { others });
    }
}

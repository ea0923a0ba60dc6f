//! The checks that a worker must make after a fiber has run, in one word: usually none, and a
//! switch then costs a single test.

use std::cell::Cell;

/// A set of flags. Each is maintained by one part of the worker.
#[derive(Debug, Default)]
pub(in crate::sched) struct Alerts(Cell<u8>);

impl Alerts {
    /// The batch may have to end before its last turn.
    pub(in crate::sched) const BATCH_END: u8 = 1;

    /// It matters whether fibers panic.
    pub(in crate::sched) const PANICS: u8 = 2;

    /// Fibers are ordered by their priorities.
    pub(in crate::sched) const PRIORITIES: u8 = 4;

    /// The worker records what it does.
    pub(in crate::sched) const TRACED: u8 = 8;

    /// Returns `true` if there is nothing to check.
    pub(in crate::sched) fn is_empty(&self) -> bool {
        self.0.get() == 0
    }

    pub(in crate::sched) fn has(&self, alert: u8) -> bool {
        self.0.get() & alert != 0
    }

    pub(in crate::sched) fn set(&self, alert: u8, is_set: bool) {
        let others = self.0.get() & !alert;
        self.0.set(if is_set { others | alert } else { others });
    }

    /// Removes a flag. Returns `true` if others are left.
    #[inline]
    pub(in crate::sched) fn clear(&self, alert: u8) -> bool {
        let others = self.0.get() & !alert;
        self.0.set(others);
        others != 0
    }
}

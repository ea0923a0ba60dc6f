//! Poisoning: the mark of a lock whose guard was dropped by a panic.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LockResult, PoisonError};

use crate::sched::wait::Since;

/// Relaxed throughout: the lock orders it.
#[derive(Default)]
pub(super) struct Flag {
    poisoned: AtomicBool,
}

impl Flag {
    pub(super) const fn new() -> Flag {
        Flag {
            poisoned: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(super) fn is_set(&self) -> bool {
        self.poisoned.load(Ordering::Relaxed)
    }

    pub(super) fn clear(&self) {
        self.poisoned.store(false, Ordering::Relaxed);
    }

    /// Called when a guard is dropped that lives since then.
    #[inline]
    pub(super) fn acknowledge_end(&self, since: Since) {
        if since.has_panicked() {
            self.poisoned.store(true, Ordering::Relaxed);
        }
    }

    /// What there is to hand out, as an error if it is poisoned.
    #[inline]
    pub(super) fn judge<T>(&self, value: T) -> LockResult<T> {
        match self.is_set() {
            false => Ok(value),
            true => Err(PoisonError::new(value)),
        }
    }
}

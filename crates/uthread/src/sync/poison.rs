//! Poisoning: marks a lock whose guard was dropped during a panic.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LockResult, PoisonError};

use crate::sched::caller::panics::Since;

/// The poisoned state of a lock. Relaxed throughout: the lock orders the accesses.
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

    /// Poisons the lock if the fiber has started to panic since `since`. Called when a guard is
    /// dropped.
    #[inline]
    pub(super) fn acknowledge_end(&self, since: Since) {
        if since.has_panicked() {
            self.poisoned.store(true, Ordering::Relaxed);
        }
    }

    /// Returns `value`, as an error if the lock is poisoned.
    #[inline]
    pub(super) fn judge<T>(&self, value: T) -> LockResult<T> {
        if self.is_set() {
            Err(PoisonError::new(value))
        } else {
            Ok(value)
        }
    }
}

//! Results on their way from the pool's threads to the worker.

use std::mem;

use crate::atomic::{Mutex, MutexGuard, lock};

/// Bounded by the number of fibers, as each waits for one result at most.
pub(crate) struct Returned<T>(Mutex<Vec<T>>);

impl<T> Default for Returned<T> {
    fn default() -> Returned<T> {
        Returned(Mutex::new(Vec::new()))
    }
}

impl<T> Returned<T> {
    /// Adds a result. Returns `true` if it is the first, so that the caller must wake the worker:
    /// one wake-up serves all results that arrive before the worker takes them.
    pub(crate) fn give(&self, result: T) -> bool {
        let mut results = self.lock();
        results.push(result);
        results.len() == 1
    }

    /// Takes all results. The worker calls this before each wait, however the last one ended.
    pub(crate) fn take(&self) -> Vec<T> {
        mem::take(&mut self.lock())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        lock(&self.0)
    }
}

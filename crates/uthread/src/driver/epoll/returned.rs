//! Results on their way from the threads of the pool to the worker.

use std::mem;
use std::sync::PoisonError;

use crate::atomic::{Mutex, MutexGuard};

/// Bounded by the number of fibers: each waits for one at most.
pub(crate) struct Returned<T>(Mutex<Vec<T>>);

impl<T> Default for Returned<T> {
    fn default() -> Returned<T> {
        Returned(Mutex::new(Vec::new()))
    }
}

impl<T> Returned<T> {
    /// Adds one; true if it is the first, so that the caller must end the worker's wait: one ring is for all
    /// that come before the worker takes them.
    pub(crate) fn give(&self, result: T) -> bool {
        let mut results = self.lock();
        results.push(result);
        results.len() == 1
    }

    /// Takes all there is. The worker does before each wait, however the last one ended, or looks that there
    /// is none.
    pub(crate) fn take(&self) -> Vec<T> {
        mem::take(&mut self.lock())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! A bound on how much is done at a time.

use std::sync::PoisonError;

use uthread::sync::{Condvar, Mutex, MutexGuard};

/// A number of places.
pub(crate) struct Semaphore {
    free: Mutex<usize>,
    released: Condvar,
}

/// A place, which is released when dropped.
pub(crate) struct Place<'a>(&'a Semaphore);

impl Semaphore {
    pub(crate) fn new(places: usize) -> Semaphore {
        Semaphore {
            free: Mutex::new(places),
            released: Condvar::new(),
        }
    }

    /// Waits for a place.
    pub(crate) fn acquire(&self) -> Place<'_> {
        let mut free = self.lock();
        while *free == 0 {
            let woken = self.released.wait(free);
            free = woken.unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        Place(self)
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.lock() += 1;
        self.0.released.notify_one();
    }
}

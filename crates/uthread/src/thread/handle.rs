//! The handle that joins a fiber.

use std::fmt;
use std::sync::Arc;

use super::Result;
use crate::fiber::Joinable;
use crate::sched::wait;

/// A handle to wait for a fiber and take its result. Dropping it detaches the fiber.
pub struct JoinHandle<T> {
    fiber: Arc<dyn Joinable<T>>,
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("JoinHandle")
            .field("id", &self.fiber.control().id())
            .field("name", &self.fiber.control().name())
            .field("is_finished", &self.is_finished())
            .finish()
    }
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(fiber: Arc<dyn Joinable<T>>) -> JoinHandle<T> {
        JoinHandle { fiber }
    }

    /// Waits for the fiber to end.
    ///
    /// # Errors
    ///
    /// The payload of the fiber's panic, as of [`std::thread::JoinHandle::join`]; [`Cancelled`] if
    /// its runtime was dropped before the fiber could end.
    pub fn join(self) -> Result<T> {
        let outcome = self.fiber.outcome();
        if !outcome.is_done() && outcome.await_done(wait::waiter()) {
            wait::park_until(|| outcome.is_done());
        }
        outcome.take()
    }

    /// Whether the fiber has ended, so that [`join`](JoinHandle::join) will not wait.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.fiber.outcome().is_done()
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        self.fiber.outcome().detach();
    }
}

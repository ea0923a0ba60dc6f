//! Where tasks wait for one event.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, Semaphore};

/// Where all wait for all to have begun.
pub(crate) struct Gate {
    begun: AtomicUsize,
    pub(crate) all_begun: Notify,
    /// A semaphore without permits: a task that waits for one waits until it is closed.
    pub(crate) open: Semaphore,
}

impl Gate {
    pub(crate) fn new() -> Arc<Gate> {
        Arc::new(Gate {
            begun: AtomicUsize::new(0),
            all_begun: Notify::new(),
            open: Semaphore::new(0),
        })
    }

    pub(crate) async fn pass(&self, count: usize) {
        if self.begun.fetch_add(1, Ordering::Relaxed) + 1 == count {
            self.all_begun.notify_one();
        }
        self.open.acquire().await.expect_err("the gate is closed");
    }
}

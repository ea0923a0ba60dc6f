//! The list of a runtime's fibers, for fibers and threads.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::atomic::lock;
use crate::fiber::FiberInfo;
use crate::sched::caller::{self, cancellation, wait};
use crate::sched::shared::Shared;

/// Lists the started fibers in the order of their ids. Returns `None` if a worker does not answer
/// within this time, or if the caller may not wait.
pub(crate) fn fibers(shared: &Shared, timeout: Duration) -> Option<Vec<FiberInfo>> {
    let list = Arc::new(Mutex::new(None));
    let (theirs, waiter) = (Arc::clone(&list), caller::wake_handle());
    shared.list_fibers(Box::new(move |fibers| {
        *lock(&theirs) = Some(fibers);
        waiter.wake();
    }));
    let deadline = caller::after(caller::now(), timeout);
    loop {
        if let Some(mut fibers) = lock(&list).take() {
            fibers.sort_unstable_by_key(|fiber| fiber.id);
            return Some(fibers);
        }
        if caller::now() >= deadline || cancellation::is_cancelled() {
            return None;
        }
        wait::park_deadline(deadline);
    }
}

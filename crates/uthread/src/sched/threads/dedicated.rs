//! The fibers of a runtime with workers that are threads, as the runtime sees them.

use std::io;
use std::sync::Arc;

use super::Threads;
use crate::atomic::lock;
use crate::fiber::FiberRef;
use crate::sched::shared::abandonment::Abandonment;
use crate::sched::shared::dedicated::{DedicatedFibers, Membership};

impl DedicatedFibers for Threads {
    fn spawn(
        self: Arc<Self>,
        fiber: FiberRef,
        stack_size: usize,
        membership: Membership,
    ) -> io::Result<()> {
        self.start(fiber, Some(stack_size), Some(membership))
    }

    fn cancel(self: Arc<Self>) {
        Threads::cancel(&self);
    }

    fn abandon(self: Arc<Self>, abandonment: Abandonment) {
        Threads::abandon(&self, abandonment);
    }

    fn end(self: Arc<Self>) {
        Threads::end(&self);
    }

    fn is_empty(&self) -> bool {
        lock(&self.members).by_id.is_empty()
    }

    fn count_if_still(&self) -> Option<u64> {
        Threads::count_if_still(self, &lock(&self.members), None)
    }
}

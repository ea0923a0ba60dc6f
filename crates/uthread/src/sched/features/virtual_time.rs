//! A runtime as a driver with virtual time sees it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::driver::Driver;
use crate::driver::virtual_time::{Surroundings, VirtualDriver};
use crate::fiber::FiberInfo;
use crate::sched::monitor::deadlock::Deadlock;
use crate::sched::shared::Shared;

impl Shared {
    /// Makes a worker with this driver, whose waits take virtual time if this is the time of the runtime.
    pub(crate) fn with_clock<R>(
        self: &Arc<Shared>,
        driver: Box<dyn Driver>,
        make: impl FnOnce(Box<dyn Driver>) -> R,
    ) -> R {
        let Some(clock) = &self.remote(0).clock else {
            return make(driver);
        };
        let runtime = Box::new(Arc::clone(self));
        let driver = Box::new(VirtualDriver::new(driver, Arc::clone(clock), runtime));
        // The timers of the worker count from then.
        clock.begin(|| make(driver))
    }

    /// Ends the fibers, for a reason that `explain` makes of a list of them.
    pub(crate) fn end_fibers(
        self: &Arc<Shared>,
        explain: impl FnOnce(&[FiberInfo]) -> String + Send + 'static,
    ) {
        let shared = Arc::clone(self);
        self.list_fibers(Box::new(move |fibers| {
            if shared.verdict.set(explain(&fibers)).is_ok() {
                shared.shut_down();
            }
        }));
    }
}

impl Surroundings for Arc<Shared> {
    fn progress(&self) -> u64 {
        self.switches()
    }

    fn is_busy(&self) -> bool {
        // Relaxed: what ends such a call wakes the worker.
        self.outside.load(Ordering::Relaxed) > 0
    }

    fn end_deadlock(&self) {
        self.end_fibers(|fibers| Deadlock(fibers).to_string());
    }
}

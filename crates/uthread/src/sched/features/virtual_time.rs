//! A runtime as a driver with virtual time sees it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::driver::Driver;
use crate::driver::native::standard_error;
use crate::driver::virtual_time::{Surroundings, VirtualDriver};
use crate::fiber::host::Host;
use crate::sched::monitor::deadlock::Deadlock;
use crate::sched::shared::Shared;
use crate::sched::worker::current;
use crate::world::{self, World};

/// Makes this the world of the caller's runtime. Returns `None` if that has no virtual time, and `false` if
/// it has a world.
pub(crate) fn enter(own: &Arc<dyn World>) -> Option<bool> {
    let entered = current::with_worker(|worker| {
        let clock = worker.queues.remote.clock.as_ref()?;
        let entered = clock.enter(Arc::clone(own));
        world::begin();
        worker.queues.note_hosts();
        Some(entered)
    });
    entered.flatten()
}

/// Lets the fibers go on of hosts that were paused, and are not any more.
pub(crate) fn release_held() {
    current::with_worker(|worker| worker.queues.release_held());
}

/// Changes the times until the timers of a host's fibers expire.
pub(crate) fn change_timers(host: &Host, change: impl Fn(Duration) -> Duration) {
    current::with_worker(|worker| {
        worker.io.change_timers(|fiber| host.has(fiber), change);
    });
}

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

    /// Writes what has happened in the world, if there is one.
    pub(crate) fn report_world(&self) {
        let clock = self.remote(0).clock.as_ref();
        clock
            .and_then(|clock| clock.world())
            .inspect(|world| world.report());
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
        let shared = Arc::clone(self);
        self.list_fibers(Box::new(move |fibers| {
            if fibers.is_empty() {
                return;
            }
            let report = shared.verdict.get_or_init(|| Deadlock(&fibers).to_string());
            standard_error::print(format_args!("{report}"));
            shared.shut_down();
        }));
    }
}

//! A list of the started fibers of a runtime. Each worker adds its own, between two fibers.

use std::mem;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::{Mail, Remote, Shared};
use crate::atomic::lock;
use crate::fiber::{Control, FiberInfo, FiberRef, Listed};

/// What gets the list.
type Finish = Box<dyn FnOnce(Vec<FiberInfo>) + Send>;

/// The list, while it grows. It is complete when the last worker drops its reference.
pub(crate) struct Listing {
    fibers: Mutex<Listed>,
    finish: Mutex<Option<Finish>>,
}

impl Listing {
    /// Adds fibers of the calling worker, which is one of this runtime.
    pub(in crate::sched) fn add(
        &self,
        shared: &Shared,
        remote: &Remote,
        fibers: &[FiberRef],
        now: Instant,
    ) {
        let switches = remote.counters.switches.get();
        let suspended_for = |fiber: &Control| {
            let last = fiber.last_switch(switches);
            remote.history.since(last, now)
        };
        let name_of = |id| shared.name_of(id);
        let mut list = lock(&self.fibers);
        for fiber in fibers {
            list.add(fiber, name_of, suspended_for);
        }
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        if let Some(finish) = lock(&self.finish).take() {
            finish(mem::take(&mut *lock(&self.fibers)).finish());
        }
    }
}

impl Shared {
    /// Lists the started fibers. A worker calls `finish`, or the caller does if all have ended.
    pub(in crate::sched) fn list_fibers(&self, finish: Finish) {
        let listing = Arc::new(Listing {
            fibers: Mutex::default(),
            finish: Mutex::new(Some(finish)),
        });
        for remote in &self.remotes {
            remote.mail(Mail::List(Arc::clone(&listing)));
        }
    }
}

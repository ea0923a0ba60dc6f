//! A list of the started fibers of a runtime. Each worker adds its own, between two fibers.

use std::panic::Location;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::{Mail, Shared};
use crate::atomic::lock;
use crate::fiber::Control;

/// A started fiber.
#[derive(Debug, Clone)]
pub(in crate::sched) struct ListedFiber {
    pub(in crate::sched) id: u64,
    pub(in crate::sched) name: Option<Box<str>>,
    pub(in crate::sched) spawn_site: &'static Location<'static>,
    /// `true` if it runs without its worker, on a thread of its own.
    pub(in crate::sched) runs_alone: bool,
}

/// The list, while it grows.
pub(crate) struct Listing {
    state: Mutex<ListState>,
    changed: Condvar,
}

struct ListState {
    fibers: Vec<ListedFiber>,
    /// Number of workers that have not added theirs.
    missing: usize,
}

impl Listing {
    /// Adds all fibers of a worker. Called by it.
    pub(in crate::sched) fn add<'a>(&self, fibers: impl Iterator<Item = &'a Control>) {
        let mut state = lock(&self.state);
        state.fibers.extend(fibers.map(|fiber| ListedFiber {
            id: fiber.id().get(),
            name: fiber.name().map(Box::from),
            spawn_site: fiber.spawn_site(),
            runs_alone: fiber.runs_alone(),
        }));
        state.missing -= 1;
        self.changed.notify_one();
    }
}

impl Shared {
    /// Lists the started fibers. Returns `None` if a worker does not answer within this time.
    pub(in crate::sched) fn list_fibers(&self, timeout: Duration) -> Option<Vec<ListedFiber>> {
        let listing = Arc::new(Listing {
            state: Mutex::new(ListState {
                fibers: Vec::new(),
                missing: self.workers(),
            }),
            changed: Condvar::new(),
        });
        for index in 0..self.workers() {
            self.remote(index).mail(Mail::List(Arc::clone(&listing)));
        }
        let state = lock(&listing.state);
        let waited =
            (listing.changed).wait_timeout_while(state, timeout, |state| state.missing > 0);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (state.missing == 0).then(|| std::mem::take(&mut state.fibers))
    }
}

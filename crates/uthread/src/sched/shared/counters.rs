//! The counters of a worker: written by the worker alone, read by any thread at any time.

use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_utils::atomic::AtomicCell;

use crate::driver;

/// A counter. Relaxed throughout: it orders nothing, and a reader may see a slightly old value.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds to the counter. Called only by the thread that writes the counter, so it needs no
    /// atomic read-modify-write.
    pub(crate) fn add(&self, count: u64) {
        self.set(self.get().wrapping_add(count));
    }

    /// Sets the counter. Called only by the thread that writes it.
    pub(crate) fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one worker, on cache lines of their own: 128 bytes, as CPUs fetch lines in
/// pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) fibers: Counter,
    pub(crate) ended: Counter,
    /// Number of started fibers that have come from other workers, less those that have gone there.
    pub(crate) moved: Counter,
    pub(crate) switches: Counter,
    pub(crate) steals: Counter,
    pub(crate) injected: Counter,
    pub(crate) sleeps: Counter,
    pub(crate) idle_ns: Counter,
    /// Number of times that queued work has woken a worker.
    pub(crate) wakes_sent: Counter,
    /// Number of times that queued work did not have to wake a worker.
    pub(crate) wakes_spared: Counter,
    pub(super) enters: Counter,
    pub(super) submissions: Counter,
    /// See [`driver::Counts::backlog`].
    backlog: Counter,
    pub(crate) completions: Counter,
    /// Number of `join`s whose second closure is offered and not yet taken back.
    pub(crate) forks: Counter,
    /// Written by the monitor.
    pub(crate) stalls: Counter,
    /// The nonzero id of the running fiber, for the monitor.
    pub(crate) running: Counter,
    /// The place where that fiber, or an earlier one, was spawned.
    pub(crate) spawn_site: AtomicCell<Option<&'static Location<'static>>>,
}

impl Counters {
    /// Returns the number of the worker's fibers that have started and not ended.
    pub(crate) fn live(&self) -> u64 {
        let ended = self.ended.get();
        let started = self.fibers.get().wrapping_add(self.moved.get());
        started.saturating_sub(ended)
    }

    /// Copies the driver's counts.
    pub(crate) fn set_driver(&self, driver: driver::Counts) {
        self.enters.set(driver.enters);
        self.submissions.set(driver.submissions);
        self.backlog.set(driver.backlog.into());
    }

    pub(crate) fn add_idle(&self, time: Duration) {
        self.sleeps.add(1);
        // 2^64 ns are 584 years.
        self.idle_ns.add(time.as_nanos() as u64);
    }

    pub(crate) fn driver(&self) -> driver::Counts {
        driver::Counts {
            enters: self.enters.get(),
            submissions: self.submissions.get(),
            backlog: self.backlog.get() as u32,
        }
    }
}

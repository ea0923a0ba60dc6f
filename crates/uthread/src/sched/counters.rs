//! What a worker counts: written by the worker alone, read by anybody at any time.

use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_utils::atomic::AtomicCell;

use crate::driver;

/// One count. Relaxed throughout: it orders nothing, and a reader may find it a little old.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Called by the one thread that writes it: no locked instruction.
    pub(crate) fn add(&self, count: u64) {
        self.set(self.get().wrapping_add(count));
    }

    /// Called by the one thread that writes it.
    pub(crate) fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one worker, on cache lines of their own: 128 bytes, as CPUs fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) fibers: Counter,
    pub(crate) ended: Counter,
    pub(crate) switches: Counter,
    pub(crate) steals: Counter,
    pub(crate) injected: Counter,
    pub(crate) sleeps: Counter,
    pub(crate) idle_ns: Counter,
    /// How often queued work woke a worker.
    pub(crate) wakes_sent: Counter,
    /// How often it did not have to.
    pub(crate) wakes_spared: Counter,
    enters: Counter,
    submissions: Counter,
    pub(crate) completions: Counter,
    /// Those of them that were collected for another worker.
    pub(crate) served: Counter,
    /// How many `join`s are between the offer of their second part and the look whether it was taken. Wraps: where fibers
    /// migrate, only the sum of all workers is meant.
    pub(crate) forks: Counter,
    /// Written by the monitor.
    pub(crate) stalls: Counter,
    /// The id of the running fiber, none of which is zero: for the monitor.
    pub(crate) running: Counter,
    /// Where that fiber was spawned, or one before it.
    pub(crate) spawn_site: AtomicCell<Option<&'static Location<'static>>>,
}

impl Counters {
    /// Takes over what the driver counted.
    pub(crate) fn set_driver(&self, driver: driver::Counts) {
        self.enters.set(driver.enters);
        self.submissions.set(driver.submissions);
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
        }
    }
}

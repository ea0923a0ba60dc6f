//! The state that all drivers of a simulation share.

use std::time::{Duration, Instant};

use crate::priorities::Priority;

/// Maximum duration of an operation: some ticks of the timers, so that timeouts win and lose.
const LATENCY_MAX: Duration = Duration::from_millis(2);

/// Number of entries at first: as few as a driver may have, so that it is often full.
const FEW_ENTRIES: usize = 3;

/// The clock, the choices of the seed, and a record of what the drivers did.
pub(crate) struct World {
    pub(super) origin: Instant,
    pub(super) clock: Duration,
    random: fastrand::Rng,
    /// Number of entries in the queue of each driver.
    pub(super) entries: usize,
    /// Maximum time that an operation other than a send has waited to be submitted.
    pub(super) gathered_max: Duration,
    pub(super) sends_gathered_max: Duration,
    /// Number of operations that were done at once.
    pub(super) attempted: usize,
    /// Number of operations that were to be submitted.
    pub(super) gathered: u64,
    /// Number of flushes that have submitted any.
    pub(super) flushes: u64,
    /// In the order of their submission.
    pub(super) submitted: Vec<Submitted>,
}

/// The submission of an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Submitted {
    /// The number of the flush.
    pub(crate) flush: u64,
    pub(crate) priority: Priority,
    /// The number of the operation, in the order of their starts.
    pub(crate) number: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        World {
            origin: Instant::now(),
            clock: Duration::ZERO,
            entries: FEW_ENTRIES,
            gathered_max: Duration::ZERO,
            sends_gathered_max: Duration::ZERO,
            attempted: 0,
            gathered: 0,
            flushes: 0,
            submitted: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Returns the time since the start of the simulation.
    pub(crate) fn clock(&self) -> Duration {
        self.clock
    }

    pub(super) fn now(&self) -> Instant {
        self.origin + self.clock
    }

    pub(crate) fn advance_to(&mut self, clock: Duration) {
        assert!(clock >= self.clock, "time does not go back");
        self.clock = clock;
    }

    /// Gives the queue of each driver so many entries.
    pub(crate) fn set_entries(&mut self, entries: usize) {
        self.entries = entries;
    }

    /// Returns the maximum time that an operation other than a send has waited to be submitted.
    pub(crate) fn gathered_max(&self) -> Duration {
        self.gathered_max
    }

    /// Returns the maximum time that a send has waited to be submitted.
    pub(crate) fn sends_gathered_max(&self) -> Duration {
        self.sends_gathered_max
    }

    /// Returns the number of operations that were done at once.
    pub(crate) fn attempted(&self) -> usize {
        self.attempted
    }

    /// Returns all submissions.
    pub(crate) fn submitted(&self) -> &[Submitted] {
        &self.submitted
    }

    /// Returns a number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.random.u64(..bound)
    }

    pub(super) fn latency(&mut self) -> Duration {
        Duration::from_nanos(self.below(LATENCY_MAX.as_nanos() as u64))
    }
}

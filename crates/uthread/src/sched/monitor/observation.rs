//! The fiber that monopolizes a worker, as the monitor observes it from its own thread.
//!
//! The worker may go on meanwhile, and its thread then waits in its own ring. So the monitor reads
//! which fiber runs, then the state of the thread, and then checks that this fiber still runs.

use std::panic::Location;

use crate::driver::native::blocked::Blocked;
use crate::sched::shared::counters::Counters;

/// The fiber that monopolizes a worker, and the state of the worker's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Observation {
    switches: u64,
    pub(super) fiber: u64,
    pub(super) spawn_site: &'static Location<'static>,
    /// `None` if it runs, or if the kernel does not reveal its state.
    pub(super) blocked: Option<Blocked>,
}

impl Observation {
    /// Observes the worker with these counters; `look` reads the state of its thread. Returns
    /// `None` if it has switched since it had made this number of `switches`, or if it runs no
    /// fiber.
    pub(super) fn observe(
        counters: &Counters,
        switches: u64,
        look: impl FnOnce() -> Option<Blocked>,
    ) -> Option<Observation> {
        let observed = Observation {
            switches,
            fiber: counters.running.get(),
            spawn_site: counters.spawn_site.load()?,
            blocked: look(),
        };
        (observed.fiber != 0 && observed.is_unchanged(counters)).then_some(observed)
    }

    /// Returns `true` if the worker still runs the fiber in the same switch.
    pub(super) fn is_unchanged(&self, counters: &Counters) -> bool {
        counters.running.get() == self.fiber && counters.switches.get() == self.switches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN_RING: Option<Blocked> = Some(Blocked::Other(Some("io_uring_enter")));

    /// Observes a worker that runs fiber 7 in its third switch, and goes on like this before the
    /// state of its thread is read.
    fn observe(change: impl FnOnce(&Counters)) -> Option<(u64, Option<Blocked>)> {
        let counters = Counters::default();
        counters.switches.set(3);
        counters.running.set(7);
        counters.spawn_site.store(Some(Location::caller()));
        let look = || {
            change(&counters);
            IN_RING
        };
        Observation::observe(&counters, 3, look).map(|observed| (observed.fiber, observed.blocked))
    }

    #[test]
    fn a_fiber_that_still_runs_keeps_its_worker() {
        assert_eq!(observe(|_| ()), Some((7, IN_RING)));
    }

    /// Catches a worker that waits in its ring and is reported as a fiber that blocks in
    /// `io_uring_enter`.
    #[test]
    fn a_worker_that_waits_in_its_ring_is_kept_by_no_fiber() {
        assert_eq!(observe(|counters| counters.running.set(0)), None);
    }

    #[test]
    fn a_worker_that_has_switched_is_not_kept() {
        assert_eq!(observe(|counters| counters.switches.add(1)), None);
        let switches_to_another = |counters: &Counters| {
            counters.switches.add(1);
            counters.running.set(8);
        };
        assert_eq!(observe(switches_to_another), None);
    }

    /// Catches a report that names fiber 0 because the worker has ended its turn when the sample is
    /// compared.
    #[test]
    fn a_worker_without_a_fiber_is_not_kept() {
        let counters = Counters::default();
        counters.spawn_site.store(Some(Location::caller()));
        assert_eq!(Observation::observe(&counters, 0, || IN_RING), None);
    }
}

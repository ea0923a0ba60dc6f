//! Picking fibers by their priorities.
//!
//! A worker orders fibers from the moment at which some fiber of its runtime has a priority other than normal. Before,
//! this costs it nothing: the tests that lead here existed before, whether fibers stay and whether the runtime shuts down.

use super::alerts::Alerts;
use super::batch::NEW_FIBER_TURN;
use super::{Worker, current};
use crate::class::Priority;
use crate::fiber::Started;
use crate::sched::classes::{Classes, Pick};

impl Worker {
    /// Makes the workers order fibers by their priorities; this one, whose fiber is the caller, from its next switch on.
    pub(in crate::sched) fn begin_ordering(&self) {
        self.queues.shared.begin_ordering();
        self.order_if_others_do();
    }

    /// Begins to order fibers if the other workers do.
    pub(super) fn order_if_others_do(&self) {
        if let Some(classes) = self.queues.shared.classes()
            && !self.queues.ready.is_ordered()
        {
            self.queues.ready.order(classes, self.queues.migrating);
            self.queues.alerts.set(Alerts::PRIORITIES, true);
            self.io.end_batch(&self.queues);
        }
    }

    /// Takes the fiber to run next in a batch of ordered fibers, in which the classes take turns.
    pub(super) fn next_by_priority(&self, _switch: u64) -> Option<Started> {
        debug_assert!(
            !self.sleep.searching.get(),
            "it must end its search before it runs what any worker may take"
        );
        let fiber = self.next_ordered()?;
        self.queues.announce_rest();
        Some(fiber)
    }

    /// Takes the fiber to run next, if fibers are ordered.
    pub(super) fn next_ordered(&self) -> Option<Started> {
        let classes = self.queues.ready.classes()?;
        loop {
            let has_normal = self.queues.ready.has_normal() || !self.queues.new.is_empty();
            let pick = classes.next_pick(has_normal)?;
            let fiber = match pick.priority {
                Priority::Normal => self.next_normal(&pick),
                _ => self.next_classed(classes, &pick),
            };
            // There is none if another worker has taken it, or if there is no memory to start it.
            if fiber.is_some() {
                return fiber;
            }
        }
    }

    /// Takes a normal fiber, as a worker without priorities does.
    fn next_normal(&self, pick: &Pick) -> Option<Started> {
        let starts_oldest =
            pick.number.is_multiple_of(NEW_FIBER_TURN) && !self.queues.new.is_empty();
        let oldest = starts_oldest.then(|| self.start_oldest()).flatten();
        match self.queues.migrating {
            false => self.next_fiber(oldest),
            true => oldest.or_else(|| self.next_stealable()),
        }
    }

    /// Takes a fiber of another priority: started ones first, and the oldest new one every fourth time.
    fn next_classed(&self, classes: &Classes, pick: &Pick) -> Option<Started> {
        let priority = pick.priority;
        let start_new = || {
            current::set_running(None);
            let new = classes.shared.take_new(priority);
            new.and_then(|fiber| self.fibers.start(fiber, &self.queues, &self.io))
        };
        match pick.number.is_multiple_of(NEW_FIBER_TURN) {
            true => start_new().or_else(|| classes.pop(priority)),
            false => classes.pop(priority).or_else(start_new),
        }
    }
}

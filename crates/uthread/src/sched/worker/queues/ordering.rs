//! Picking fibers by their priorities.
//!
//! A worker orders fibers from the moment at which some fiber of its runtime has a priority other
//! than normal. Until then, priorities cost nothing: the loop gets here by conditions that it tests
//! in any case, whether fibers are spent and whether the runtime shuts down.

use super::Queues;
use super::pick::{NEW_FIBER_TURN, Starter};
use crate::fiber::Started;
use crate::priorities::Priority;
use crate::sched::queues::prioritized::{Pick, Prioritized};
use crate::sched::worker::alerts::Alerts;

impl Queues {
    /// Begins to order fibers if the other workers do. Returns `true` if they were not ordered
    /// before.
    pub(in crate::sched) fn order_if_others_do(&self) -> bool {
        let Some(prioritized) = self.shared.prioritized() else {
            return false;
        };
        if self.ready.is_ordered() {
            return false;
        }
        self.ready.order(prioritized);
        self.alerts.set(Alerts::PRIORITIES, true);
        true
    }

    /// Takes the fiber to run next in a batch of ordered fibers, in which the priorities take
    /// turns.
    pub(in crate::sched) fn next_by_priority(&self, starter: &impl Starter) -> Option<Started> {
        self.next_ordered(starter)
    }

    /// Takes the fiber to run next, if fibers are ordered.
    pub(in crate::sched) fn next_ordered(&self, starter: &impl Starter) -> Option<Started> {
        let prioritized = self.ready.prioritized()?;
        loop {
            let has_normal = self.ready.has_normal() || !self.new.is_empty();
            let pick = prioritized.next_pick(has_normal)?;
            let fiber = match pick.priority {
                Priority::Normal => self.next_normal(&pick, starter),
                _ => next_prioritized(prioritized, &pick, starter),
            };
            // There is none if another worker has taken it, or if there is no memory to start it.
            if fiber.is_some() {
                return fiber;
            }
        }
    }

    /// Takes a normal fiber, as a worker without priorities does.
    fn next_normal(&self, pick: &Pick, starter: &impl Starter) -> Option<Started> {
        let new = self.start_new_in_turn(pick.number, starter);
        self.next_staying(new, starter)
    }
}

/// Takes a fiber of another priority: started ones first, and the oldest new one every fourth time.
fn next_prioritized(
    prioritized: &Prioritized,
    pick: &Pick,
    starter: &impl Starter,
) -> Option<Started> {
    let priority = pick.priority;
    let start_new = || {
        let new = prioritized.take_new(priority);
        new.and_then(|fiber| starter.start(fiber))
    };
    if pick.number.is_multiple_of(NEW_FIBER_TURN) {
        start_new().or_else(|| prioritized.pop(priority))
    } else {
        prioritized.pop(priority).or_else(start_new)
    }
}

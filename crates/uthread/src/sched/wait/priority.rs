//! The priority of the calling fiber.

use super::with_control;
use crate::class::Priority;
use crate::fiber::FiberRef;
use crate::sched::worker::{Worker, current};

/// Returns the priority of the calling fiber; outside of fibers, the normal one.
pub(crate) fn priority() -> Priority {
    with_control(|control| control.limits.priority()).unwrap_or_default()
}

/// Sets the priority of the calling fiber and returns the previous one. Does nothing outside of fibers.
pub(crate) fn set_priority(priority: Priority) -> Priority {
    let before = with_control(|control| control.limits.set_priority(priority));
    if priority != Priority::Normal {
        current::with_fiber(Worker::begin_ordering);
    }
    before.unwrap_or_default()
}

/// Gives a new fiber this priority, or that of the caller. Called before the fiber is queued.
pub(crate) fn pass_priority(fiber: &FiberRef, own: Option<Priority>) {
    let priority = own.unwrap_or_else(priority);
    if priority != Priority::Normal {
        fiber.control().limits.set_priority(priority);
    }
}

//! The protocols of the layer `fiber`, and the waiter that stands in for a fiber.

#[path = "../../uthread/src/fiber/outcome.rs"]
pub(crate) mod outcome;
#[path = "../../uthread/src/fiber/wake.rs"]
pub(crate) mod wake;
#[path = "../../uthread/src/fiber/whereabouts.rs"]
pub(crate) mod whereabouts;

/// A thread of the model that parks.
pub(crate) struct Waiter(loom::thread::Thread);

impl Waiter {
    pub(crate) fn current() -> Waiter {
        Waiter(loom::thread::current())
    }

    pub(crate) fn is_current(&self) -> bool {
        self.0.id() == loom::thread::current().id()
    }

    pub(crate) fn wake(&self) {
        self.0.unpark();
    }
}

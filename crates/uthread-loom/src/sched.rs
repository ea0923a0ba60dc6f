//! The protocols of the layer `sched`.

#[path = "../../uthread/src/sched/door.rs"]
pub(crate) mod door;
#[path = "../../uthread/src/sched/idle.rs"]
pub(crate) mod idle;
#[path = "../../uthread/src/sched/inbox.rs"]
pub(crate) mod inbox;

/// What stands in for a wait: a thread of the model for the fiber, and a shutdown for some of them.
pub(crate) mod wait {
    use std::cell::RefCell;

    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, Ordering};
    use loom::thread::{self, Thread};

    use crate::fiber::Waiter;

    loom::thread_local! {
        static SHUT_DOWN: RefCell<ShutDown> = RefCell::default();
    }

    /// The end of the runtime to which some threads belong.
    #[derive(Clone, Default)]
    pub(crate) struct ShutDown(Arc<AtomicBool>);

    impl ShutDown {
        /// The calling thread is of that runtime.
        pub(crate) fn apply_here(&self) {
            SHUT_DOWN.with(|here| *here.borrow_mut() = self.clone());
        }

        /// As `Worker::cancel_all`: whoever waits is woken, once.
        pub(crate) fn begin(&self, fiber: &Thread) {
            self.0.store(true, Ordering::Release);
            fiber.unpark();
        }
    }

    pub(crate) fn waiter() -> Waiter {
        Waiter::current()
    }

    pub(crate) fn is_caller(waiter: &Waiter) -> bool {
        waiter.is_current()
    }

    pub(crate) fn park_unless_shut_down() -> bool {
        let shut_down = SHUT_DOWN.with(|here| here.borrow().0.load(Ordering::Acquire));
        if !shut_down {
            thread::park();
        }
        !shut_down
    }

    /// As in a destructor, where the call returns.
    pub(crate) fn unwind_if_shut_down() {}

    pub(crate) fn spend_turn() {}
}

//! Who is to be woken: a fiber, or a thread of the operating system.

use std::thread::Thread;

use super::FiberRef;

/// A handle to end the park of whoever waits.
#[derive(Clone)]
pub(crate) enum Waiter {
    Fiber(FiberRef),
    Thread(Thread),
}

impl Waiter {
    pub(crate) fn wake(&self) {
        match self {
            Waiter::Fiber(fiber) => super::wake(fiber),
            Waiter::Thread(thread) => thread.unpark(),
        }
    }
}

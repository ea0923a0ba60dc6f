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

    /// Lets it look whether it may wait, whatever it waits for; of a thread only a park ends.
    pub(crate) fn end_wait(&self) {
        match self {
            Waiter::Fiber(fiber) => super::end_wait(fiber),
            Waiter::Thread(thread) => thread.unpark(),
        }
    }

    /// Ends its `park`: of a fiber that one only, and no other wait.
    pub(crate) fn unpark(&self) {
        match self {
            Waiter::Fiber(fiber) => super::unpark(fiber),
            Waiter::Thread(thread) => thread.unpark(),
        }
    }
}

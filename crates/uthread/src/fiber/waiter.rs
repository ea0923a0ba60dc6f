//! Who is to be woken: a fiber, or a thread of the operating system.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::Thread;

use super::FiberRef;

/// A handle to end the park of whoever waits.
#[derive(Clone)]
pub(crate) enum Waiter {
    Fiber(FiberRef),
    /// It parks or, where it has a bell, waits for that in a system call.
    Thread(Thread, Option<Arc<dyn Bell>>),
}

/// What a thread waits for in the kernel, beside something else there: readable while it rings.
pub(crate) trait Bell: AsFd + Send + Sync {
    fn ring(&self);

    /// Forgets that it rang.
    fn clear(&self);
}

impl Waiter {
    pub(crate) fn wake(&self) {
        match self {
            Waiter::Fiber(fiber) => super::wake(fiber),
            Waiter::Thread(_, Some(bell)) => bell.ring(),
            Waiter::Thread(thread, None) => thread.unpark(),
        }
    }

    /// Lets it look whether it may wait, whatever it waits for; of a thread only a park ends.
    pub(crate) fn end_wait(&self) {
        match self {
            Waiter::Fiber(fiber) => super::end_wait(fiber),
            Waiter::Thread(..) => self.wake(),
        }
    }

    /// Ends its `park`: of a fiber that one only, and no other wait.
    pub(crate) fn unpark(&self) {
        match self {
            Waiter::Fiber(fiber) => super::unpark(fiber),
            Waiter::Thread(..) => self.wake(),
        }
    }
}

//! A handle that wakes a waiting fiber or thread.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::Thread;

use super::FiberRef;

/// Wakes a fiber, or a thread of the operating system.
#[derive(Clone)]
pub(crate) enum WakeHandle {
    Fiber(FiberRef),
    /// A parked thread or, with an observer, whoever waits otherwise; the thread is then that which
    /// has made the handle. The observer is boxed, so that a handle takes two words: each fiber and
    /// each join handle has room for one. A variant of its own for observers would take a tag, and
    /// 3 % more instructions to spawn or park a fiber.
    Thread(Thread, Option<Arc<Box<dyn Observer>>>),
}

const _: () = assert!(size_of::<WakeHandle>() == 2 * size_of::<usize>());

/// Is notified in place of a thread that parks.
pub(crate) trait Observer: Send + Sync {
    fn notify(&self);

    /// Returns the descriptor by which it interrupts a thread, if it does.
    fn interrupt(&self) -> Option<&dyn Interrupt> {
        None
    }
}

/// A descriptor that interrupts a thread which waits in the kernel for other events. It is readable
/// from a notification on until it is cleared.
pub(crate) trait Interrupt: AsFd {
    fn clear(&self);
}

impl WakeHandle {
    pub(crate) fn wake(&self) {
        match self {
            WakeHandle::Fiber(fiber) => super::wake(fiber),
            WakeHandle::Thread(_, Some(observer)) => observer.notify(),
            WakeHandle::Thread(thread, None) => thread.unpark(),
        }
    }

    /// Returns `true` if it is a fiber that its runtime abandons: nothing may be granted to it any
    /// more. Called for a waiter in a queue, under the lock of the queue.
    pub(crate) fn is_abandoned(&self) -> bool {
        match self {
            WakeHandle::Fiber(fiber) => fiber.control().is_abandoned(),
            WakeHandle::Thread(..) => false,
        }
    }

    /// Interrupts a fiber's wait of any kind, so that it checks whether it may wait; of a thread,
    /// ends a park only.
    pub(crate) fn end_wait(&self) {
        match self {
            WakeHandle::Fiber(fiber) => super::end_wait(fiber),
            WakeHandle::Thread(..) => self.wake(),
        }
    }

    /// Ends a `park` of the user's; no other wait of a fiber.
    pub(crate) fn unpark(&self) {
        match self {
            WakeHandle::Fiber(fiber) => super::unpark(fiber),
            WakeHandle::Thread(..) => self.wake(),
        }
    }
}

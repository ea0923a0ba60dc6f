//! A handle that wakes a waiting fiber or thread.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::Thread;

use super::FiberRef;

/// Wakes a fiber, or a thread of the operating system.
#[derive(Clone)]
pub(crate) enum WakeHandle {
    Fiber(FiberRef),
    /// A parked thread or, with an interrupt, a thread that waits for the interrupt in a system
    /// call. The interrupt is boxed, so that a handle takes two words: each fiber and each join
    /// handle has room for one.
    Thread(Thread, Option<Arc<Box<dyn Interrupt>>>),
}

const _: () = assert!(size_of::<WakeHandle>() == 2 * size_of::<usize>());

/// A descriptor that interrupts a thread which waits in the kernel for other events. It is readable
/// while raised.
pub(crate) trait Interrupt: AsFd + Send + Sync {
    fn raise(&self);

    fn clear(&self);
}

impl WakeHandle {
    pub(crate) fn wake(&self) {
        match self {
            WakeHandle::Fiber(fiber) => super::wake(fiber),
            WakeHandle::Thread(_, Some(interrupt)) => interrupt.raise(),
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

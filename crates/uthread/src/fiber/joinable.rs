//! The part of a join handle that leads to the fiber and to its outcome: one counted reference, and
//! a pointer into the fiber that spares each access a virtual call.

use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::thread;

use super::{FiberRef, Outcome, WakeHandle};

pub(crate) struct Joinable<T> {
    /// Always a fiber; in the form that the identity of the fiber has. Dropped as a fiber, which
    /// takes less code.
    fiber: ManuallyDrop<WakeHandle>,
    outcome: NonNull<Outcome<thread::Result<T>>>,
}

#[allow(unsafe_code, reason = "a pointer into a shared value")]
// SAFETY: the pointer is used as a shared reference to an outcome, which is `Sync`: a fiber returns
// a value that is `Send`.
unsafe impl<T> Send for Joinable<T> {}
#[allow(unsafe_code, reason = "a pointer into a shared value")]
// SAFETY: as for `Send`.
unsafe impl<T> Sync for Joinable<T> {}

impl<T> Joinable<T> {
    /// Creates the joinable end of a fiber.
    ///
    /// # Safety
    ///
    /// The outcome is that of the fiber.
    #[allow(unsafe_code, reason = "a pointer into the fiber")]
    pub(super) unsafe fn new(
        fiber: FiberRef,
        outcome: NonNull<Outcome<thread::Result<T>>>,
    ) -> Joinable<T> {
        Joinable {
            fiber: ManuallyDrop::new(WakeHandle::Fiber(fiber)),
            outcome,
        }
    }

    /// Returns the fiber, as its identity contains it.
    pub(crate) fn wake_handle(&self) -> &WakeHandle {
        &self.fiber
    }

    pub(crate) fn fiber(&self) -> &FiberRef {
        match &*self.fiber {
            WakeHandle::Fiber(fiber) => fiber,
            WakeHandle::Thread(..) => unreachable!("the handle was created with a fiber"),
        }
    }

    #[allow(
        unsafe_code,
        reason = "a pointer into a value that the reference keeps"
    )]
    pub(crate) fn outcome(&self) -> &Outcome<thread::Result<T>> {
        // SAFETY: by the contract of `new`, and the reference keeps the fiber.
        unsafe { self.outcome.as_ref() }
    }
}

impl<T> Drop for Joinable<T> {
    #[allow(unsafe_code, reason = "a drop by hand")]
    fn drop(&mut self) {
        // SAFETY: the reference is not used any more, nor dropped with the handle that contains it.
        drop(unsafe { ptr::read(self.fiber()) });
    }
}

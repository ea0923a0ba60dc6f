//! The atomics, locks and cells of the protocols that are checked under `loom`, whose own stand here when
//! a model (crate `uthread-loom`) includes such a file.

pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicIsize, AtomicU8, AtomicU32, AtomicUsize, Ordering, fence,
};
pub(crate) use std::sync::{Mutex, MutexGuard};

/// A cell that hands out its pointer for the length of a closure only, so that `loom` sees when an
/// access begins and ends.
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    pub(crate) fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}

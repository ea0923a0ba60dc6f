//! The items that the included files use from `crate::atomic`: those of loom in place of `std`'s.

pub(crate) use loom::cell::UnsafeCell;
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicIsize, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub(crate) use loom::sync::{Mutex, MutexGuard};

/// Locks `mutex`. A panic ends the model.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

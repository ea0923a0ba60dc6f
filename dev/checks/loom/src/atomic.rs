//! The items that the included files use from `crate::atomic`: those of loom in place of `std`'s.

pub(crate) use loom::cell::UnsafeCell;
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicIsize, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    fence,
};
pub(crate) use loom::sync::{Mutex, MutexGuard};
pub(crate) use loom::thread::yield_now;

/// Locks `mutex`. A panic ends the model.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

/// Replaces what `membarrier(2)` of another thread does to the calling one.
pub(crate) fn fence_of_compiler() {
    fence(Ordering::SeqCst);
}

macro_rules! const_outside_of_models {
    ($(#[$meta:meta])* $vis:vis fn $($rest:tt)*) => {
        $(#[$meta])*
        $vis fn $($rest)*
    };
}
pub(crate) use const_outside_of_models;

//! Atomics, locks and cells for the protocols that are model-checked. The models (crate
//! `uthread-loom`) include the protocol files and provide the types of `loom` in place of this
//! module.

use std::cell::Cell;
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicIsize, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    fence,
};
pub(crate) use std::sync::{Mutex, MutexGuard};
use std::sync::{PoisonError, TryLockError};
pub(crate) use std::thread::yield_now;

/// Locks `mutex`, poisoned or not: no state in this crate is left half changed by a panic.
#[inline]
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
        Err(TryLockError::WouldBlock) => wait_and_lock(mutex),
    }
}

thread_local! {
    static IS_LOCKING: Cell<bool> = const { Cell::new(false) };
}

/// Returns `true` while the caller waits in [`lock`], or is in [`while_locking`].
pub(crate) fn is_locking() -> bool {
    IS_LOCKING.get()
}

/// Calls `action`, whose waits for locks must not suspend the calling fiber.
pub(crate) fn while_locking<R>(action: impl FnOnce() -> R) -> R {
    struct End(bool);
    impl Drop for End {
        fn drop(&mut self) {
            IS_LOCKING.set(self.0);
        }
    }
    let _end = End(IS_LOCKING.replace(true));
    action()
}

/// Locks `mutex`, and says meanwhile that the caller does: a fiber that waits for a lock of the
/// library must not be suspended, as it may be about to wait for something else.
#[cold]
#[inline(never)]
fn wait_and_lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    while_locking(|| mutex.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A cell that lends its pointer only to a closure, so that `loom` sees the start and end of each
/// access.
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    pub(crate) fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}

/// Keeps the order of memory accesses in the code of the calling thread, where another thread's
/// `membarrier(2)` keeps it in the CPU.
#[inline]
pub(crate) fn fence_of_compiler() {
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// Defines a function that is `const` but in the models, whose atomics cannot be created so.
macro_rules! const_outside_of_models {
    ($(#[$meta:meta])* $vis:vis fn $($rest:tt)*) => {
        $(#[$meta])*
        $vis const fn $($rest)*
    };
}
pub(crate) use const_outside_of_models;

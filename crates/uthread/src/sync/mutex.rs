//! A mutual exclusion lock.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{LockResult, TryLockError, TryLockResult};

use super::lock::Lock;
use super::poison::Flag;
use crate::atomic::AtomicU32;
use crate::sched::caller::panics::Since;
use crate::sched::caller::turn;

/// A mutual exclusion lock for fibers and threads in any combination; the counterpart of
/// [`std::sync::Mutex`]. A waiting fiber is suspended, and its worker runs other fibers.
///
/// A guard may be held across any call that suspends the fiber. With a guard of `std`, the next
/// fiber that locks the mutex would block the worker, and forever if this is the worker of the
/// guard's fiber.
///
/// ```
/// use uthread::sync::{Arc, Mutex};
/// use uthread::thread;
///
/// let total = Arc::new(Mutex::new(0));
/// let adders: Vec<_> = (1..=10)
///     .map(|number| {
///         let total = Arc::clone(&total);
///         thread::spawn(move || {
///             let mut total = total.lock().unwrap();
///             thread::yield_now(); // The others wait.
///             *total += number;
///         })
///     })
///     .collect();
/// for adder in adders {
///     adder.join().unwrap();
/// }
/// assert_eq!(*total.lock().unwrap(), 55);
/// ```
///
/// A mutex can be a static:
///
/// ```
/// use uthread::sync::Mutex;
///
/// static NAMES: Mutex<Vec<&str>> = Mutex::new(Vec::new());
///
/// uthread::spawn(|| NAMES.lock().unwrap().push("fiber")).join().unwrap();
/// assert_eq!(*NAMES.lock().unwrap(), ["fiber"]);
/// ```
///
/// # Fairness
///
/// Waiters are queued. Unlocking wakes the first of them, but a running fiber or thread may acquire
/// the mutex before it does. If that happens for more than 100 microseconds, the mutex is handed
/// over to the waiter the next time, so no waiter is overtaken for long.
///
/// # Poisoning
///
/// As in `std`, a guard that is dropped during a panic poisons the mutex. So does a guard that is
/// dropped because its fiber is [cancelled](crate::thread::Cancelled), as the protected data may be
/// half changed in this case, too. Only panics of the guard's own fiber count, not those of another
/// fiber that waits in a destructor on the same thread. The end of a runtime, which unwinds its
/// fibers and fails their calls, poisons nothing.
///
/// ```
/// use uthread::sync::{Arc, Mutex};
///
/// let mutex = Arc::new(Mutex::new(0));
/// let theirs = Arc::clone(&mutex);
/// let _ = uthread::spawn(move || {
///     let _guard = theirs.lock().unwrap();
///     panic!("while it is locked");
/// })
/// .join();
/// assert!(mutex.is_poisoned());
/// *mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = 1;
/// mutex.clear_poison();
/// assert_eq!(*mutex.lock().unwrap(), 1);
/// ```
///
/// # Cancellation
///
/// Locking is not a cancellation point, as in POSIX: a cancelled fiber acquires the lock like any
/// other, so that its destructors can clean up.
pub struct Mutex<T: ?Sized> {
    lock: Lock,
    poison: Flag,
    data: UnsafeCell<T>,
}

#[allow(unsafe_code, reason = "the lock guards the cell")]
// SAFETY: a mutex owns its value, like any container.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
#[allow(unsafe_code, reason = "the lock guards the cell")]
// SAFETY: only the owner of the lock accesses the value. The owner may be another thread each time,
// so the value has to be `Send`, but need not be `Sync`.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T: ?Sized> UnwindSafe for Mutex<T> {}
impl<T: ?Sized> RefUnwindSafe for Mutex<T> {}

/// A guard that gives access to the data of a [`Mutex`] and unlocks it on drop. See the example of
/// [`Mutex::lock`].
///
/// It is not `Send`, as in `std`. Here this is also required for poisoning, which checks whether
/// the fiber that locked the mutex panics.
///
/// ```compile_fail,E0277
/// let mutex = uthread::sync::Mutex::new(1);
/// let guard = mutex.lock().unwrap();
/// uthread::scope(|scope| {
///     scope.spawn(move || drop(guard));
/// });
/// ```
///
/// It does not outlive the mutex:
///
/// ```compile_fail,E0597
/// let guard;
/// {
///     let mutex = uthread::sync::Mutex::new(1);
///     guard = mutex.lock().unwrap();
/// }
/// drop(guard);
/// ```
///
/// It is invariant, as a value with a shorter lifetime could be stored through it:
///
/// ```compile_fail
/// use uthread::sync::MutexGuard;
///
/// fn shorten<'a, 'b>(guard: MutexGuard<'a, &'static str>) -> MutexGuard<'a, &'b str> {
///     guard
/// }
/// ```
#[must_use = "if unused the mutex is unlocked at once"]
#[clippy::has_significant_drop]
pub struct MutexGuard<'a, T: ?Sized + 'a> {
    mutex: &'a Mutex<T>,
    since: Since,
    not_send: PhantomData<*const ()>,
}

#[allow(unsafe_code, reason = "only `Send` is to be denied")]
// SAFETY: a shared guard gives shared access to the value, which is `Sync`.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<T> Mutex<T> {
    /// Creates an unlocked mutex. See the example of [`Mutex`].
    #[must_use]
    pub const fn new(value: T) -> Mutex<T> {
        Mutex {
            lock: Lock::new(AtomicU32::new(0)),
            poison: Flag::new(),
            data: UnsafeCell::new(value),
        }
    }

    /// Consumes the mutex and returns its value.
    ///
    /// # Errors
    ///
    /// `PoisonError` with the value if the mutex is poisoned.
    ///
    /// ```
    /// assert_eq!(uthread::sync::Mutex::new(1).into_inner().unwrap(), 1);
    /// ```
    pub fn into_inner(self) -> LockResult<T> {
        self.poison.judge(self.data.into_inner())
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks the mutex, waiting until it is free. Dropping the guard unlocks it.
    ///
    /// Locking it again while holding the guard waits forever.
    ///
    /// # Errors
    ///
    /// `PoisonError` with the guard if the mutex is poisoned.
    ///
    /// ```
    /// let mutex = uthread::sync::Mutex::new(1);
    /// *mutex.lock().unwrap() += 1;
    /// assert_eq!(*mutex.lock().unwrap(), 2);
    /// ```
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        self.lock.write_as(turn::spend_try_as_holder());
        self.guard()
    }

    /// Tries to lock the mutex without waiting. This may overtake waiters.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] if the mutex is locked; [`TryLockError::Poisoned`] with the
    /// guard if it is poisoned.
    ///
    /// ```
    /// use uthread::sync::{Mutex, TryLockError};
    ///
    /// let mutex = Mutex::new(1);
    /// let guard = mutex.try_lock().unwrap();
    /// assert!(matches!(mutex.try_lock(), Err(TryLockError::WouldBlock)));
    /// drop(guard);
    /// ```
    #[inline]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        if !self.lock.try_write() {
            turn::spend_try();
            return Err(TryLockError::WouldBlock);
        }
        Ok(self.guard()?)
    }

    /// Returns `true` if the mutex is poisoned.
    ///
    /// ```
    /// assert!(!uthread::sync::Mutex::new(1).is_poisoned());
    /// ```
    pub fn is_poisoned(&self) -> bool {
        self.poison.is_set()
    }

    /// Clears the poisoned state, for a caller that has restored the data. See the
    /// [example](Mutex#poisoning) above.
    pub fn clear_poison(&self) {
        self.poison.clear();
    }

    /// Returns a mutable reference to the value. No lock is needed, as the mutex is borrowed
    /// mutably.
    ///
    /// # Errors
    ///
    /// `PoisonError` with the reference if the mutex is poisoned.
    ///
    /// ```
    /// let mut mutex = uthread::sync::Mutex::new(1);
    /// *mutex.get_mut().unwrap() = 2;
    /// assert_eq!(*mutex.lock().unwrap(), 2);
    /// ```
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.poison.judge(self.data.get_mut())
    }

    /// Creates the guard after the caller has locked the mutex.
    #[inline]
    fn guard(&self) -> LockResult<MutexGuard<'_, T>> {
        self.poison.judge(MutexGuard {
            mutex: self,
            since: Since::now(),
            not_send: PhantomData,
        })
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("Mutex");
        match self.try_lock() {
            Ok(guard) => fields.field("data", &&*guard),
            Err(TryLockError::Poisoned(poisoned)) => fields.field("data", &&**poisoned.get_ref()),
            Err(TryLockError::WouldBlock) => fields.field("data", &"<locked>"),
        };
        fields.field("poisoned", &self.is_poisoned());
        fields.finish_non_exhaustive()
    }
}

/// Functions for the condition variable. They take no `self`, which would hide methods of the
/// value.
impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Returns the lock, which the caller holds for writing.
    pub(super) fn lock(guard: &Self) -> &'a Lock {
        &guard.mutex.lock
    }

    /// Returns the moment since which a panic poisons the mutex.
    pub(super) fn since(guard: &mut Self) -> &mut Since {
        &mut guard.since
    }

    /// Returns the guard, as an error if the mutex is poisoned.
    pub(super) fn judge(guard: Self) -> LockResult<MutexGuard<'a, T>> {
        guard.mutex.poison.judge(guard)
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    #[allow(unsafe_code, reason = "the lock guards the cell")]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock for writing, so there is no other reference.
        unsafe { &*self.mutex.data.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    #[allow(unsafe_code, reason = "the lock guards the cell")]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and the guard is borrowed mutably.
        unsafe { &mut *self.mutex.data.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.poison.acknowledge_end(self.since);
        self.mutex.lock.unlock_write();
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

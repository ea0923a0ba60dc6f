//! Mutual exclusion.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{LockResult, TryLockError, TryLockResult};

use super::lock::Lock;
use super::poison::Flag;
use crate::atomic::AtomicU32;
use crate::sched::wait;
use crate::sched::wait::Since;

/// A mutual exclusion by the name of [`std::sync::Mutex`], between fibers and threads in any mix: a fiber that
/// must wait is suspended, and its worker runs others.
///
/// A guard may be held across any call that suspends the fiber, where holding one of `std` would let the next
/// fiber that locks it block the worker, for ever if that is the worker of the fiber that has it.
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
/// What is locked may be a static:
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
/// Those who wait stand in line. A mutex that is set free wakes the first of them, and whoever is running may
/// take it before that one does: then it is handed over the next time, so that nobody is passed over for long.
///
/// # Poisoning
///
/// As `std`'s: a guard that is dropped by a panic poisons the mutex. So does one that is dropped because its
/// fiber is [cancelled](crate::thread::Cancelled), as what it protects may be half changed just as well. It is
/// the fiber's own panic that counts, not that of another one which waits in a destructor on the same
/// thread. The end of a runtime, which unwinds its fibers and fails their calls, poisons nothing.
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
/// Taking a lock is no point of cancellation, as in POSIX: a cancelled fiber gets it like any other, so that its
/// destructors can clean up.
pub struct Mutex<T: ?Sized> {
    lock: Lock,
    poison: Flag,
    data: UnsafeCell<T>,
}

#[allow(unsafe_code, reason = "the lock guards the cell")]
// SAFETY: it owns its value, like any container.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
#[allow(unsafe_code, reason = "the lock guards the cell")]
// SAFETY: the value is reached by the owner of the lock, one at a time; it may be another thread each time,
// and so has to be `Send`, but need not be `Sync`.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T: ?Sized> UnwindSafe for Mutex<T> {}
impl<T: ?Sized> RefUnwindSafe for Mutex<T> {}

/// The right to what a [`Mutex`] protects, until it is dropped; see the example of [`Mutex::lock`].
///
/// It is not `Send`, as `std`'s, and for another reason besides: poisoning tells whether the fiber panicked that
/// took it.
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
/// As a value of a shorter life could be stored through it, it is not taken for a guard of one:
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
    /// A mutex that is free; see the example of [`Mutex`].
    #[must_use]
    pub const fn new(value: T) -> Mutex<T> {
        Mutex {
            lock: Lock::new(AtomicU32::new(0)),
            poison: Flag::new(),
            data: UnsafeCell::new(value),
        }
    }

    /// The value, which nobody can have locked.
    ///
    /// # Errors
    ///
    /// The value, if the mutex is poisoned.
    ///
    /// ```
    /// assert_eq!(uthread::sync::Mutex::new(1).into_inner().unwrap(), 1);
    /// ```
    pub fn into_inner(self) -> LockResult<T> {
        self.poison.judge(self.data.into_inner())
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the mutex is free, and locks it until the guard is dropped.
    ///
    /// Locking it again before that waits for ever.
    ///
    /// # Errors
    ///
    /// The guard all the same, if the mutex is poisoned.
    ///
    /// ```
    /// let mutex = uthread::sync::Mutex::new(1);
    /// *mutex.lock().unwrap() += 1;
    /// assert_eq!(*mutex.lock().unwrap(), 2);
    /// ```
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        self.lock.write();
        self.guard()
    }

    /// Locks the mutex if that is possible at once. It may be before others who wait.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] while somebody else has it; the guard all the same, if the mutex is
    /// poisoned.
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
            wait::spend_try();
            return Err(TryLockError::WouldBlock);
        }
        Ok(self.guard()?)
    }

    /// Whether the mutex is poisoned.
    ///
    /// ```
    /// assert!(!uthread::sync::Mutex::new(1).is_poisoned());
    /// ```
    pub fn is_poisoned(&self) -> bool {
        self.poison.is_set()
    }

    /// Takes the mark of the poisoning away, for who has put right what is protected. There is an
    /// [example](Mutex#poisoning) above.
    pub fn clear_poison(&self) {
        self.poison.clear();
    }

    /// The value, which nobody can have locked.
    ///
    /// # Errors
    ///
    /// The value, if the mutex is poisoned.
    ///
    /// ```
    /// let mut mutex = uthread::sync::Mutex::new(1);
    /// *mutex.get_mut().unwrap() = 2;
    /// assert_eq!(*mutex.lock().unwrap(), 2);
    /// ```
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.poison.judge(self.data.get_mut())
    }

    /// The guard of the caller, who has just locked it.
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

/// For a condition variable. None of them takes `self`, which would hide a method of the value.
impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// The lock, which the caller has for writing.
    pub(super) fn lock(guard: &Self) -> &'a Lock {
        &guard.mutex.lock
    }

    /// Since when a panic poisons the mutex.
    pub(super) fn since(guard: &mut Self) -> &mut Since {
        &mut guard.since
    }

    /// The guard, as an error if the mutex is poisoned by now.
    pub(super) fn judge(guard: Self) -> LockResult<MutexGuard<'a, T>> {
        guard.mutex.poison.judge(guard)
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    #[allow(unsafe_code, reason = "the lock guards the cell")]
    fn deref(&self) -> &T {
        // SAFETY: the guard has the lock for writing, so nobody else has a reference.
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

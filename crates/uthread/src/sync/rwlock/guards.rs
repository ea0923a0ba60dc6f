//! The guards of a reader-writer lock.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::RwLock;
use crate::sched::caller::panics::Since;
use crate::sync::lock::Lock;

/// A guard that gives shared access to the data of a [`RwLock`] and unlocks it on drop. See the
/// example of [`RwLock::read`].
///
/// It is not `Send`, as in `std`:
///
/// ```compile_fail,E0277
/// let lock = uthread::sync::RwLock::new(1);
/// let reader = lock.read().unwrap();
/// uthread::scope(|scope| {
///     scope.spawn(move || drop(reader));
/// });
/// ```
///
/// It is covariant, like a shared reference:
///
/// ```
/// use uthread::sync::{RwLock, RwLockReadGuard};
///
/// fn longer<'a>(guard: &RwLockReadGuard<'_, &'a str>, other: &'a str) -> &'a str {
///     if guard.len() > other.len() { **guard } else { other }
/// }
///
/// fn shorten<'a, 'b>(guard: RwLockReadGuard<'a, &'static str>) -> RwLockReadGuard<'a, &'b str> {
///     guard
/// }
///
/// let lock = RwLock::new("a static string");
/// let local = String::from("a local one");
/// assert_eq!(longer(&shorten(lock.read().unwrap()), &local), "a static string");
/// ```
#[must_use = "if unused the lock is released at once"]
#[clippy::has_significant_drop]
pub struct RwLockReadGuard<'a, T: ?Sized + 'a> {
    /// Not a reference to the `RwLock`, which is invariant in `T`: a read guard is covariant, as in
    /// `std`.
    data: NonNull<T>,
    lock: &'a Lock,
}

/// A guard that gives exclusive access to the data of a [`RwLock`] and unlocks it on drop. See the
/// example of [`RwLock::write`].
///
/// It is not `Send`, as in `std`:
///
/// ```compile_fail,E0277
/// let lock = uthread::sync::RwLock::new(1);
/// let writer = lock.write().unwrap();
/// uthread::scope(|scope| {
///     scope.spawn(move || drop(writer));
/// });
/// ```
///
/// It does not outlive the lock:
///
/// ```compile_fail,E0597
/// let writer;
/// {
///     let lock = uthread::sync::RwLock::new(1);
///     writer = lock.write().unwrap();
/// }
/// drop(writer);
/// ```
///
/// It is invariant, as a value with a shorter lifetime could be stored through it:
///
/// ```compile_fail
/// use uthread::sync::RwLockWriteGuard;
///
/// fn shorten<'a, 'b>(guard: RwLockWriteGuard<'a, &'static str>) -> RwLockWriteGuard<'a, &'b str> {
///     guard
/// }
/// ```
#[must_use = "if unused the lock is released at once"]
#[clippy::has_significant_drop]
pub struct RwLockWriteGuard<'a, T: ?Sized + 'a> {
    lock: &'a RwLock<T>,
    since: Since,
    not_send: PhantomData<*const ()>,
}

#[allow(unsafe_code, reason = "only `Send` is to be denied")]
// SAFETY: a shared guard gives shared access to the value, which is `Sync`.
unsafe impl<T: ?Sized + Sync> Sync for RwLockReadGuard<'_, T> {}
#[allow(unsafe_code, reason = "only `Send` is to be denied")]
// SAFETY: as for the read guard.
unsafe impl<T: ?Sized + Sync> Sync for RwLockWriteGuard<'_, T> {}

impl<'a, T: ?Sized> RwLockReadGuard<'a, T> {
    /// Creates the guard after the caller has locked for reading.
    #[inline]
    pub(super) fn new(lock: &'a RwLock<T>) -> RwLockReadGuard<'a, T> {
        RwLockReadGuard {
            data: lock.data_pointer(),
            lock: &lock.lock,
        }
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Creates the guard after the caller has locked for writing.
    #[inline]
    pub(super) fn new(lock: &'a RwLock<T>) -> RwLockWriteGuard<'a, T> {
        RwLockWriteGuard {
            lock,
            since: Since::now(),
            not_send: PhantomData,
        }
    }

    /// Converts the write lock into a read lock. No other writer can acquire the lock in between.
    /// Waiting readers before the next waiting writer acquire the lock, too.
    ///
    /// ```
    /// use uthread::sync::{RwLock, RwLockWriteGuard};
    ///
    /// let lock = RwLock::new(1);
    /// let mut writer = lock.write().unwrap();
    /// *writer = 2;
    /// let reader = RwLockWriteGuard::downgrade(writer);
    /// assert_eq!((*reader, *lock.read().unwrap()), (2, 2));
    /// assert!(lock.try_write().is_err());
    /// ```
    pub fn downgrade(writer: RwLockWriteGuard<'a, T>) -> RwLockReadGuard<'a, T> {
        let lock = ManuallyDrop::new(writer).lock;
        lock.lock.downgrade();
        RwLockReadGuard::new(lock)
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    #[allow(unsafe_code, reason = "the lock guards the cell")]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock for reading, so there is no mutable reference.
        unsafe { self.data.as_ref() }
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    #[allow(unsafe_code, reason = "the lock guards the cell")]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock for writing, so there is no other reference.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    #[allow(unsafe_code, reason = "the lock guards the cell")]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and the guard is borrowed mutably.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.unlock_read();
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.poison.acknowledge_end(self.since);
        self.lock.lock.unlock_write();
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockReadGuard<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockWriteGuard<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

//! What readers and writers have of a lock.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::RwLock;
use crate::sched::wait::Since;
use crate::sync::lock::Lock;

/// The right of one reader to what a [`RwLock`] protects, until it is dropped; see the example of [`RwLock::read`].
///
/// It is not `Send`, as `std`'s:
///
/// ```compile_fail,E0277
/// let lock = uthread::sync::RwLock::new(1);
/// let reader = lock.read().unwrap();
/// uthread::scope(|scope| {
///     scope.spawn(move || drop(reader));
/// });
/// ```
///
/// Like a reference it may be taken for one of a shorter life:
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
/// let lock = RwLock::new("for ever");
/// let local = String::from("a while");
/// assert_eq!(longer(&shorten(lock.read().unwrap()), &local), "for ever");
/// ```
#[must_use = "if unused the lock is given back at once"]
#[clippy::has_significant_drop]
pub struct RwLockReadGuard<'a, T: ?Sized + 'a> {
    /// Not the `RwLock`, which is invariant in `T`: a guard that only reads is covariant, as `std`'s.
    data: NonNull<T>,
    lock: &'a Lock,
}

/// The right of the one writer to what a [`RwLock`] protects, until it is dropped; see the example of
/// [`RwLock::write`].
///
/// It is not `Send`, as `std`'s:
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
/// As a value of a shorter life could be stored through it, it is not taken for a guard of one:
///
/// ```compile_fail
/// use uthread::sync::RwLockWriteGuard;
///
/// fn shorten<'a, 'b>(guard: RwLockWriteGuard<'a, &'static str>) -> RwLockWriteGuard<'a, &'b str> {
///     guard
/// }
/// ```
#[must_use = "if unused the lock is given back at once"]
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
// SAFETY: as of the reader's.
unsafe impl<T: ?Sized + Sync> Sync for RwLockWriteGuard<'_, T> {}

impl<'a, T: ?Sized> RwLockReadGuard<'a, T> {
    /// The guard of the caller, who has just locked it for reading.
    #[inline]
    pub(super) fn new(lock: &'a RwLock<T>) -> RwLockReadGuard<'a, T> {
        RwLockReadGuard {
            data: lock.data_pointer(),
            lock: &lock.lock,
        }
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// The guard of the caller, who has just locked it for writing.
    #[inline]
    pub(super) fn new(lock: &'a RwLock<T>) -> RwLockWriteGuard<'a, T> {
        RwLockWriteGuard {
            lock,
            since: Since::now(),
            not_send: PhantomData,
        }
    }

    /// Goes on as a reader, without a moment in which somebody else could write. Readers who wait before the next
    /// writer read too from now on.
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
        // SAFETY: the guard has the lock for reading, so nobody has a mutable reference.
        unsafe { self.data.as_ref() }
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    #[allow(unsafe_code, reason = "the lock guards the cell")]
    fn deref(&self) -> &T {
        // SAFETY: the guard has the lock for writing, so nobody else has a reference.
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

//! A lock for many readers or one writer.

mod guards;

use std::cell::UnsafeCell;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::sync::{LockResult, TryLockError, TryLockResult};

pub use guards::{RwLockReadGuard, RwLockWriteGuard};

use super::lock::Lock;
use super::poison::Flag;
use crate::atomic::AtomicU32;
use crate::sched::wait;

/// A lock for many readers or one writer by the name of [`std::sync::RwLock`], between fibers and threads in any
/// mix: a fiber that must wait is suspended, and its worker runs others.
///
/// ```
/// use uthread::sync::RwLock;
///
/// let lock = RwLock::new(5);
/// {
///     let one = lock.read().unwrap();
///     let other = lock.read().unwrap();
///     assert_eq!((*one, *other), (5, 5));
/// }
/// {
///     let mut writer = lock.write().unwrap();
///     *writer += 1;
/// }
/// assert_eq!(*lock.read().unwrap(), 6);
/// ```
///
/// # Fairness
///
/// Who waits stands in line, readers and writers alike. A reader that comes while somebody waits stands behind, so
/// that readers who come and go do not keep a writer waiting for ever; and a writer lets the readers in who came
/// before the next one. Therefore a fiber that has a read guard must not ask for another one: a writer may be
/// waiting between the two, for ever. (The same holds of `std`'s, which leaves it to the system.)
///
/// # Poisoning and cancellation
///
/// As of a [`Mutex`](super::Mutex#poisoning); only guards of writers poison.
pub struct RwLock<T: ?Sized> {
    lock: Lock,
    poison: Flag,
    data: UnsafeCell<T>,
}

#[allow(unsafe_code, reason = "the lock guards the cell")]
// SAFETY: it owns its value, like any container.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
#[allow(unsafe_code, reason = "the lock guards the cell")]
// SAFETY: a writer alone may move the value away, so it has to be `Send`; readers share it, so it has to be
// `Sync`.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T: ?Sized> UnwindSafe for RwLock<T> {}
impl<T: ?Sized> RefUnwindSafe for RwLock<T> {}

impl<T> RwLock<T> {
    /// A lock that is free; see the example of [`RwLock`].
    #[must_use]
    pub const fn new(value: T) -> RwLock<T> {
        RwLock {
            lock: Lock::new(AtomicU32::new(0)),
            poison: Flag::new(),
            data: UnsafeCell::new(value),
        }
    }

    /// The value, which nobody can have locked.
    ///
    /// # Errors
    ///
    /// The value, if the lock is poisoned.
    ///
    /// ```
    /// assert_eq!(uthread::sync::RwLock::new(1).into_inner().unwrap(), 1);
    /// ```
    pub fn into_inner(self) -> LockResult<T> {
        self.poison.judge(self.data.into_inner())
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until there is no writer, nor any in line, and locks for reading until the guard is dropped.
    ///
    /// # Errors
    ///
    /// The guard all the same, if the lock is poisoned.
    ///
    /// # Panics
    ///
    /// With more than 2^30 - 1 readers at a time.
    ///
    /// ```
    /// let lock = uthread::sync::RwLock::new(1);
    /// assert_eq!(*lock.read().unwrap(), 1);
    /// ```
    #[inline]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        self.lock.read();
        self.poison.judge(RwLockReadGuard::new(self))
    }

    /// Locks for reading if that is possible at once: not while there is a writer, or somebody waits.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] if it is not; the guard all the same, if the lock is poisoned.
    ///
    /// ```
    /// let lock = uthread::sync::RwLock::new(1);
    /// let reader = lock.try_read().unwrap();
    /// assert!(lock.try_read().is_ok());
    /// # drop(reader);
    /// ```
    #[inline]
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        if !self.lock.try_read() {
            wait::spend_try();
            return Err(TryLockError::WouldBlock);
        }
        Ok(self.poison.judge(RwLockReadGuard::new(self))?)
    }

    /// Waits until there is neither a reader nor a writer, and locks for writing until the guard is dropped.
    ///
    /// # Errors
    ///
    /// The guard all the same, if the lock is poisoned.
    ///
    /// ```
    /// let lock = uthread::sync::RwLock::new(1);
    /// *lock.write().unwrap() = 2;
    /// assert_eq!(*lock.read().unwrap(), 2);
    /// ```
    #[inline]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        self.lock.write();
        self.poison.judge(RwLockWriteGuard::new(self))
    }

    /// Locks for writing if that is possible at once. It may be before others who wait.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] while there is a reader or a writer; the guard all the same, if the lock is
    /// poisoned.
    ///
    /// ```
    /// let lock = uthread::sync::RwLock::new(1);
    /// let reader = lock.read().unwrap();
    /// assert!(lock.try_write().is_err());
    /// drop(reader);
    /// assert!(lock.try_write().is_ok());
    /// ```
    #[inline]
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        if !self.lock.try_write() {
            wait::spend_try();
            return Err(TryLockError::WouldBlock);
        }
        Ok(self.poison.judge(RwLockWriteGuard::new(self))?)
    }

    /// Whether the lock is poisoned.
    ///
    /// ```
    /// assert!(!uthread::sync::RwLock::new(1).is_poisoned());
    /// ```
    pub fn is_poisoned(&self) -> bool {
        self.poison.is_set()
    }

    /// Takes the mark of the poisoning away, for who has put right what is protected.
    ///
    /// ```
    /// use uthread::sync::{Arc, RwLock};
    ///
    /// let lock = Arc::new(RwLock::new(1));
    /// let theirs = Arc::clone(&lock);
    /// let _ = uthread::spawn(move || {
    ///     let _writer = theirs.write().unwrap();
    ///     panic!("while it is locked");
    /// })
    /// .join();
    /// assert!(lock.is_poisoned());
    /// lock.clear_poison();
    /// assert!(lock.read().is_ok());
    /// ```
    pub fn clear_poison(&self) {
        self.poison.clear();
    }

    /// The value, which nobody can have locked.
    ///
    /// # Errors
    ///
    /// The value, if the lock is poisoned.
    ///
    /// ```
    /// let mut lock = uthread::sync::RwLock::new(1);
    /// *lock.get_mut().unwrap() = 2;
    /// assert_eq!(*lock.read().unwrap(), 2);
    /// ```
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.poison.judge(self.data.get_mut())
    }

    fn data_pointer(&self) -> NonNull<T> {
        NonNull::new(self.data.get()).expect("a cell is somewhere")
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> RwLock<T> {
        RwLock::new(value)
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> RwLock<T> {
        RwLock::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("RwLock");
        match self.try_read() {
            Ok(guard) => fields.field("data", &&*guard),
            Err(TryLockError::Poisoned(poisoned)) => fields.field("data", &&**poisoned.get_ref()),
            Err(TryLockError::WouldBlock) => fields.field("data", &format_args!("<locked>")),
        };
        fields.field("poisoned", &self.is_poisoned());
        fields.finish_non_exhaustive()
    }
}

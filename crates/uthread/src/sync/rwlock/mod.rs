//! A reader-writer lock.

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
use crate::sched::caller::turn;

/// A lock for many readers or one writer; the counterpart of [`std::sync::RwLock`]. Fibers and
/// threads may use it in any combination. A waiting fiber is suspended, and its worker runs other
/// fibers.
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
/// Readers and writers wait in one queue. A reader that arrives while another fiber or thread waits
/// is queued too, so a stream of readers cannot delay a writer forever; and a writer hands the lock
/// over to the readers that arrived before the next writer. A fiber that holds a read guard must
/// therefore not lock for reading again: if a writer has been queued between the two, both wait
/// forever. The same holds for `std`, which leaves the policy to the system.
///
/// # Poisoning and cancellation
///
/// The same rules as for a [`Mutex`](super::Mutex#poisoning). Only the guards of writers poison the
/// lock.
pub struct RwLock<T: ?Sized> {
    lock: Lock,
    poison: Flag,
    data: UnsafeCell<T>,
}

#[allow(unsafe_code, reason = "the lock guards the cell")]
// SAFETY: a lock owns its value, like any container.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
#[allow(unsafe_code, reason = "the lock guards the cell")]
// SAFETY: a writer can move the value away, so it has to be `Send`; readers share it, so it has to
// be `Sync`.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T: ?Sized> UnwindSafe for RwLock<T> {}
impl<T: ?Sized> RefUnwindSafe for RwLock<T> {}

impl<T> RwLock<T> {
    /// Creates an unlocked lock. See the example of [`RwLock`].
    #[must_use]
    pub const fn new(value: T) -> RwLock<T> {
        RwLock {
            lock: Lock::new(AtomicU32::new(0)),
            poison: Flag::new(),
            data: UnsafeCell::new(value),
        }
    }

    /// Consumes the lock and returns its value.
    ///
    /// # Errors
    ///
    /// `PoisonError` with the value if the lock is poisoned.
    ///
    /// ```
    /// assert_eq!(uthread::sync::RwLock::new(1).into_inner().unwrap(), 1);
    /// ```
    pub fn into_inner(self) -> LockResult<T> {
        self.poison.judge(self.data.into_inner())
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Locks for reading, waiting while there is a writer or a queue. Dropping the guard unlocks
    /// it.
    ///
    /// # Errors
    ///
    /// `PoisonError` with the guard if the lock is poisoned.
    ///
    /// # Panics
    ///
    /// Panics if there are more than 2^30 - 1 readers at a time.
    ///
    /// ```
    /// let lock = uthread::sync::RwLock::new(1);
    /// assert_eq!(*lock.read().unwrap(), 1);
    /// ```
    #[inline]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        turn::spend_try();
        self.lock.read();
        self.poison.judge(RwLockReadGuard::new(self))
    }

    /// Tries to lock for reading without waiting.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] if there is a writer or a queue; [`TryLockError::Poisoned`]
    /// with the guard if the lock is poisoned.
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
            turn::spend_try();
            return Err(TryLockError::WouldBlock);
        }
        Ok(self.poison.judge(RwLockReadGuard::new(self))?)
    }

    /// Locks for writing, waiting while there is a reader or a writer. Dropping the guard unlocks
    /// it.
    ///
    /// # Errors
    ///
    /// `PoisonError` with the guard if the lock is poisoned.
    ///
    /// ```
    /// let lock = uthread::sync::RwLock::new(1);
    /// *lock.write().unwrap() = 2;
    /// assert_eq!(*lock.read().unwrap(), 2);
    /// ```
    #[inline]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        turn::spend_try();
        self.lock.write();
        self.poison.judge(RwLockWriteGuard::new(self))
    }

    /// Tries to lock for writing without waiting. This may overtake waiters.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] if there is a reader or a writer; [`TryLockError::Poisoned`]
    /// with the guard if the lock is poisoned.
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
            turn::spend_try();
            return Err(TryLockError::WouldBlock);
        }
        Ok(self.poison.judge(RwLockWriteGuard::new(self))?)
    }

    /// Returns `true` if the lock is poisoned.
    ///
    /// ```
    /// assert!(!uthread::sync::RwLock::new(1).is_poisoned());
    /// ```
    pub fn is_poisoned(&self) -> bool {
        self.poison.is_set()
    }

    /// Clears the poisoned state, for a caller that has restored the data.
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

    /// Returns a mutable reference to the value. No locking is needed, as the lock is borrowed
    /// mutably.
    ///
    /// # Errors
    ///
    /// `PoisonError` with the reference if the lock is poisoned.
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

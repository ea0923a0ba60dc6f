//! A value that is set once.

use std::fmt;

use super::once::Once;
use crate::sched::caller::turn;

/// A cell whose value is set once; the counterpart of [`std::sync::OnceLock`]. The first fiber or
/// thread sets it, the others wait.
///
/// ```
/// use uthread::sync::OnceLock;
///
/// static SETTINGS: OnceLock<String> = OnceLock::new();
///
/// fn settings() -> &'static str {
///     SETTINGS.get_or_init(|| "read from a file".to_owned())
/// }
/// assert_eq!(settings(), "read from a file");
/// assert_eq!(settings(), settings());
/// ```
///
/// # Cancellation
///
/// [`get_or_init`](OnceLock::get_or_init) and [`set`](OnceLock::set) are not cancellation points,
/// like locking. [`wait`](OnceLock::wait) is one, as the value may never be set.
pub struct OnceLock<T> {
    /// Makes fibers wait for each other, so that the cell is never contended.
    once: Once,
    value: std::sync::OnceLock<T>,
}

impl<T> OnceLock<T> {
    /// Creates an empty cell. See the example of [`OnceLock`].
    #[must_use]
    pub const fn new() -> OnceLock<T> {
        OnceLock {
            once: Once::new(),
            value: std::sync::OnceLock::new(),
        }
    }

    /// Returns the value if it is set, without waiting. A loop of such calls lets other fibers run
    /// now and then.
    ///
    /// ```
    /// let cell = uthread::sync::OnceLock::from(1);
    /// assert_eq!(cell.get(), Some(&1));
    /// ```
    #[inline]
    pub fn get(&self) -> Option<&T> {
        let value = self.value.get();
        if value.is_none() {
            turn::spend_try();
        }
        value
    }

    /// Returns a mutable reference to the value if it is set.
    ///
    /// ```
    /// let mut cell = uthread::sync::OnceLock::from(1);
    /// *cell.get_mut().unwrap() = 2;
    /// assert_eq!(cell.get(), Some(&2));
    /// ```
    #[inline]
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut()
    }

    /// Waits until the value is set.
    ///
    /// ```
    /// use uthread::sync::{Arc, OnceLock};
    ///
    /// let cell = Arc::new(OnceLock::new());
    /// let theirs = Arc::clone(&cell);
    /// uthread::spawn(move || theirs.set("delivered").unwrap());
    /// assert_eq!(*cell.wait(), "delivered");
    /// ```
    pub fn wait(&self) -> &T {
        self.once.wait_force();
        self.initialized()
    }

    /// Sets the value. Waits while another fiber or thread is setting it.
    ///
    /// # Errors
    ///
    /// Returns `value` if the value is set already.
    ///
    /// ```
    /// let cell = uthread::sync::OnceLock::new();
    /// assert_eq!(cell.set(1), Ok(()));
    /// assert_eq!(cell.set(2), Err(2));
    /// ```
    #[inline]
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.once
            .call_once_force(|_| drop(value.take().map(|value| self.value.set(value))));
        value.map_or(Ok(()), Err)
    }

    /// Returns the value, initializing it with `f` if it is not set. Waits while another fiber or
    /// thread is setting it.
    ///
    /// `f` must not use the same cell: it would wait for itself.
    ///
    /// # Panics
    ///
    /// Panics with the payload of `f` if it panics. The cell remains empty then, and can be set
    /// later.
    ///
    /// ```
    /// let cell = uthread::sync::OnceLock::new();
    /// assert_eq!(cell.get_or_init(|| 1), &1);
    /// assert_eq!(cell.get_or_init(|| unreachable!()), &1);
    /// ```
    #[inline]
    pub fn get_or_init<F: FnOnce() -> T>(&self, f: F) -> &T {
        if let Some(value) = self.value.get() {
            return value;
        }
        self.once.call_once_force(|_| drop(self.value.set(f())));
        self.initialized()
    }

    /// Consumes the cell and returns the value if it is set.
    ///
    /// ```
    /// assert_eq!(uthread::sync::OnceLock::from(1).into_inner(), Some(1));
    /// ```
    #[inline]
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }

    /// Takes the value if it is set, leaving the cell empty. It can be set again.
    ///
    /// ```
    /// let mut cell = uthread::sync::OnceLock::from(1);
    /// assert_eq!(cell.take(), Some(1));
    /// assert_eq!(cell.set(2), Ok(()));
    /// ```
    #[inline]
    pub fn take(&mut self) -> Option<T> {
        std::mem::take(self).into_inner()
    }

    fn initialized(&self) -> &T {
        self.value.get().expect("the value is set")
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> OnceLock<T> {
        let cell = OnceLock::new();
        let set = cell.set(value);
        debug_assert!(set.is_ok(), "the cell is new");
        cell
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> OnceLock<T> {
        match self.get() {
            Some(value) => OnceLock::from(value.clone()),
            None => OnceLock::new(),
        }
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    fn eq(&self, other: &OnceLock<T>) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceLock<T> {}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(formatter)
    }
}

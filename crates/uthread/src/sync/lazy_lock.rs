//! A value that is initialized on first access.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Mutex;

use super::once_lock::OnceLock;

use crate::atomic::lock;

/// A value that is initialized on first access; the counterpart of [`std::sync::LazyLock`]. The
/// first fiber or thread runs the initializer, the others wait.
///
/// ```
/// use uthread::sync::LazyLock;
///
/// static WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| "plain blocking code".split(' ').collect());
///
/// assert_eq!(WORDS.len(), 3);
/// ```
///
/// # Poisoning
///
/// If the initializer panics, or its fiber is [cancelled](crate::thread::Cancelled) in it, each
/// later access panics.
///
/// ```should_panic
/// use uthread::sync::LazyLock;
///
/// let lazy: LazyLock<u32> = LazyLock::new(|| panic!("each time"));
/// let _ = std::panic::catch_unwind(|| *lazy);
/// println!("{}", *lazy);
/// ```
pub struct LazyLock<T, F = fn() -> T> {
    value: OnceLock<T>,
    /// The initializer, taken by the fiber or thread that runs it, so the lock is never contended.
    /// If both this and the value are empty, the lock is poisoned.
    make: Mutex<Option<F>>,
}

// Same bounds as in `std`: the captures of the initializer are exposed to the first caller.
impl<T: RefUnwindSafe + UnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}
impl<T: UnwindSafe, F: UnwindSafe> UnwindSafe for LazyLock<T, F> {}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// Creates a value that `f` initializes on first access. See the example of [`LazyLock`].
    #[must_use]
    pub const fn new(f: F) -> LazyLock<T, F> {
        LazyLock {
            value: OnceLock::new(),
            make: Mutex::new(Some(f)),
        }
    }

    /// Returns the value, running the initializer if it has not run, or waiting for it if it is
    /// running.
    ///
    /// # Panics
    ///
    /// Panics if the initializer panics, or has panicked before.
    ///
    /// ```
    /// use uthread::sync::LazyLock;
    /// let lazy = LazyLock::new(|| 1);
    /// assert_eq!(LazyLock::force(&lazy), &1);
    /// ```
    #[inline]
    pub fn force(this: &LazyLock<T, F>) -> &T {
        this.value.get_or_init(|| {
            let mut make = lock(&this.make);
            let taken = make.take();
            drop(make);
            taken.unwrap_or_else(|| panic_poisoned())()
        })
    }

    /// Returns the value, running the initializer if it has not run.
    ///
    /// # Panics
    ///
    /// Panics if the initializer panics, or has panicked before.
    ///
    /// ```
    /// use uthread::sync::LazyLock;
    /// let mut lazy = LazyLock::new(|| 1);
    /// *LazyLock::force_mut(&mut lazy) += 1;
    /// assert_eq!(*lazy, 2);
    /// ```
    #[inline]
    pub fn force_mut(this: &mut LazyLock<T, F>) -> &mut T {
        LazyLock::force(this);
        this.value
            .get_mut()
            .expect("the value was made by the call before")
    }
}

impl<T, F> LazyLock<T, F> {
    /// Returns the value if it is initialized, without waiting.
    ///
    /// ```
    /// use uthread::sync::LazyLock;
    /// let lazy = LazyLock::new(|| 1);
    /// assert_eq!(LazyLock::get(&lazy), None);
    /// let _ = LazyLock::force(&lazy);
    /// assert_eq!(LazyLock::get(&lazy), Some(&1));
    /// ```
    #[inline]
    pub fn get(this: &LazyLock<T, F>) -> Option<&T> {
        this.value.get()
    }

    /// Returns the value if it is initialized.
    ///
    /// ```
    /// use uthread::sync::LazyLock;
    /// let mut lazy = LazyLock::new(|| 1);
    /// assert_eq!(LazyLock::get_mut(&mut lazy), None);
    /// ```
    #[inline]
    pub fn get_mut(this: &mut LazyLock<T, F>) -> Option<&mut T> {
        this.value.get_mut()
    }
}

#[cold]
fn panic_poisoned() -> ! {
    panic!("LazyLock instance has previously been poisoned")
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        LazyLock::force(self)
    }
}

impl<T, F: FnOnce() -> T> DerefMut for LazyLock<T, F> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        LazyLock::force_mut(self)
    }
}

impl<T: Default> Default for LazyLock<T> {
    fn default() -> LazyLock<T> {
        LazyLock::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = formatter.debug_tuple("LazyLock");
        match LazyLock::get(self) {
            Some(value) => tuple.field(value),
            None => tuple.field(&format_args!("<uninit>")),
        };
        tuple.finish()
    }
}

//! One-time initialization.

mod progress;

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use crate::atomic::AtomicU32;
use crate::sched::caller::turn;
use progress::Progress;

/// One-time initialization by the first fiber or thread, while the others wait; the counterpart of
/// [`std::sync::Once`].
///
/// ```
/// use uthread::sync::Once;
///
/// static START: Once = Once::new();
///
/// START.call_once(|| println!("the first time"));
/// START.call_once(|| unreachable!());
/// ```
///
/// # Cancellation
///
/// [`call_once`](Once::call_once) is not a cancellation point, like locking. The closure may be
/// cancelled, which poisons the `Once` as a panic does. [`wait`](Once::wait) is a cancellation
/// point, as no call may ever come.
pub struct Once {
    progress: Progress,
}

/// The state passed to the closure of [`Once::call_once_force`]. See the example there.
pub struct OnceState {
    poisoned: bool,
    /// Makes the type not `Sync`, as in `std`.
    not_sync: PhantomData<Cell<()>>,
}

impl OnceState {
    /// Returns `true` if an earlier call has panicked.
    ///
    /// ```
    /// uthread::sync::Once::new().call_once_force(|state| assert!(!state.is_poisoned()));
    /// ```
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }
}

#[allow(clippy::new_without_default, reason = "`std`'s has none")]
impl Once {
    /// Creates a `Once` that is not completed. See the example of [`Once`].
    #[must_use]
    pub const fn new() -> Once {
        Once {
            progress: Progress::new(AtomicU32::new(0)),
        }
    }

    /// Calls `f` if this is the first call. Otherwise waits until the first call has returned; its
    /// effects are visible then. See the [example](Once) above.
    ///
    /// `f` must not use the same `Once`: it would wait for itself.
    ///
    /// # Panics
    ///
    /// Panics with the payload of `f` if it panics, and if an earlier call has panicked.
    #[inline]
    #[track_caller]
    pub fn call_once<F: FnOnce()>(&self, f: F) {
        if !self.progress.is_complete() {
            let mut f = Some(f);
            self.progress
                .run(false, &mut |_| f.take().into_iter().for_each(|f| f()));
        }
    }

    /// Calls `f` if no call has completed, also if an earlier call has panicked. Otherwise works
    /// like [`call_once`](Once::call_once).
    ///
    /// # Panics
    ///
    /// Panics with the payload of `f` if it panics.
    ///
    /// ```
    /// use std::panic::catch_unwind;
    /// use uthread::sync::Once;
    ///
    /// let once = Once::new();
    /// assert!(catch_unwind(|| once.call_once(|| panic!("at first"))).is_err());
    /// assert!(catch_unwind(|| once.call_once(|| ())).is_err());
    /// once.call_once_force(|state| assert!(state.is_poisoned()));
    /// once.call_once(|| unreachable!());
    /// ```
    #[inline]
    pub fn call_once_force<F: FnOnce(&OnceState)>(&self, f: F) {
        if !self.progress.is_complete() {
            let mut f = Some(f);
            self.progress.run(true, &mut |poisoned| {
                let state = OnceState {
                    poisoned,
                    not_sync: PhantomData,
                };
                f.take().into_iter().for_each(|f| f(&state));
            });
        }
    }

    /// Returns `true` if a call has completed; its effects are visible then.
    ///
    /// ```
    /// let once = uthread::sync::Once::new();
    /// assert!(!once.is_completed());
    /// once.call_once(|| ());
    /// assert!(once.is_completed());
    /// ```
    #[inline]
    pub fn is_completed(&self) -> bool {
        let completed = self.progress.is_complete();
        if !completed {
            turn::spend_try();
        }
        completed
    }

    /// Waits until a call has completed.
    ///
    /// # Panics
    ///
    /// Panics if a call has panicked.
    ///
    /// ```
    /// use uthread::sync::{Arc, Once};
    ///
    /// let ready = Arc::new(Once::new());
    /// let theirs = Arc::clone(&ready);
    /// uthread::spawn(move || theirs.call_once(|| ()));
    /// ready.wait();
    /// assert!(ready.is_completed());
    /// ```
    #[track_caller]
    pub fn wait(&self) {
        self.progress.wait(false);
    }

    /// Waits until a call has completed, also if an earlier call has panicked.
    ///
    /// ```
    /// let once = uthread::sync::Once::new();
    /// let _ = std::panic::catch_unwind(|| once.call_once(|| panic!("at first")));
    /// uthread::scope(|scope| {
    ///     scope.spawn(|| once.call_once_force(|_| ()));
    ///     once.wait_force();
    /// });
    /// ```
    pub fn wait_force(&self) {
        self.progress.wait(true);
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Once").finish_non_exhaustive()
    }
}

impl fmt::Debug for OnceState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OnceState")
            .field("poisoned", &self.poisoned)
            .finish()
    }
}

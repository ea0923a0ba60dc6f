//! What is to be done once.

mod progress;

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use crate::atomic::AtomicU32;
use crate::sched::wait;
use progress::Progress;

/// Lets something be done once, by the name of [`std::sync::Once`], whichever fiber or thread comes first: the others
/// wait until it is done.
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
/// [`call_once`](Once::call_once) is no point of cancellation, as taking a lock is none; what it calls may be
/// cancelled, which poisons as a panic does. [`wait`](Once::wait) is one: nobody need ever come.
pub struct Once {
    progress: Progress,
}

/// What [`Once::call_once_force`] finds, as in the example there.
pub struct OnceState {
    poisoned: bool,
    /// It is not shared, as `std`'s.
    not_sync: PhantomData<Cell<()>>,
}

impl OnceState {
    /// Whether it was begun before, and panicked.
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
    /// Nothing is done yet; see the example of [`Once`].
    #[must_use]
    pub const fn new() -> Once {
        Once {
            progress: Progress::new(AtomicU32::new(0)),
        }
    }

    /// Calls `f` if it is the first call, and otherwise waits until that of the first has returned: what it did is
    /// visible then. There is an [example](Once) above.
    ///
    /// `f` must not use this very `Once`: it would wait for itself.
    ///
    /// # Panics
    ///
    /// With the panic of `f`; and in each later call, if one has panicked.
    #[inline]
    #[track_caller]
    pub fn call_once<F: FnOnce()>(&self, f: F) {
        if !self.progress.is_complete() {
            let mut f = Some(f);
            self.progress
                .run(false, &mut |_| f.take().into_iter().for_each(|f| f()));
        }
    }

    /// As [`call_once`](Once::call_once), but tries again what has panicked.
    ///
    /// # Panics
    ///
    /// With the panic of `f`.
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

    /// Whether a call has returned: what it did is visible then.
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
            wait::spend_try();
        }
        completed
    }

    /// Waits until a call has returned.
    ///
    /// # Panics
    ///
    /// When one has panicked.
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

    /// The same, but waits on when one has panicked.
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

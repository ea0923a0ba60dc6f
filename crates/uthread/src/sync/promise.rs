//! A value that one side promises and any number wait for: the futures of EMPER.
//!
//! It is set once, and then borrowed by all. Where one side only waits, and takes the value, a
//! [`oneshot`](super::oneshot) is smaller.
//!
//! ```
//! use uthread::sync::promise;
//!
//! let (promise, promised) = promise::channel();
//! let waiting = [promised.clone(), promised].map(|promised| {
//!     uthread::spawn(move || promised.wait().copied())
//! });
//! promise.keep(42);
//! for fiber in waiting {
//!     assert_eq!(fiber.join().unwrap(), Ok(42));
//! }
//! ```
//!
//! | who | does | wakes |
//! | --- | --- | --- |
//! | [`Promise::keep`] | sets the value | all who wait |
//! | the drop of the promise | breaks it: nothing comes | all who wait |
//!
//! Who waits and is cancelled is unwound, as with [`mpsc`](super::mpsc#cancellation).

use std::fmt;
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

pub use std::sync::mpsc::RecvError;

use super::notify_mutex::{NotifyMutex, WaiterId};
use super::select::{Case, Event, Place};
use crate::sched::wait;

struct Shared<T> {
    value: OnceLock<T>,
    is_settled: NotifyMutex<bool>,
}

/// A promise, and the handle to wait for it.
///
/// ```
/// let (promise, promised) = uthread::sync::promise::channel();
/// promise.keep("kept");
/// assert_eq!(promised.wait(), Ok(&"kept"));
/// ```
#[must_use]
pub fn channel<T>() -> (Promise<T>, Promised<T>) {
    let shared = Arc::new(Shared {
        value: OnceLock::new(),
        is_settled: NotifyMutex::new(false),
    });
    let promise = Promise {
        shared: Arc::clone(&shared),
    };
    (promise, Promised { shared })
}

/// The side that delivers; see the example of [`channel`]. Dropped without a value, it is broken,
/// which is an error to who waits.
///
/// It is kept once:
///
/// ```compile_fail,E0382
/// let (promise, _promised) = uthread::sync::promise::channel();
/// promise.keep(1);
/// promise.keep(2);
/// ```
pub struct Promise<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Promise<T> {
    /// Delivers the value, without waiting. If nobody is left to see it, it is dropped.
    ///
    /// ```
    /// let (promise, promised) = uthread::sync::promise::channel();
    /// uthread::spawn(move || promise.keep(7));
    /// assert_eq!(promised.wait(), Ok(&7));
    /// ```
    pub fn keep(self, value: T) {
        // Nobody else has set it; `drop` settles it.
        let _ = self.shared.value.set(value);
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.shared.is_settled.change(|settled| *settled = true);
    }
}

/// The side that waits; see the example of [`channel`]. Clone it for more of them.
///
/// Those who share a value must be allowed to:
///
/// ```compile_fail,E0277
/// let (promise, promised) = uthread::sync::promise::channel();
/// uthread::spawn(move || promised.wait().is_ok());
/// promise.keep(std::cell::Cell::new(1));
/// ```
pub struct Promised<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Promised<T> {
    /// Waits for the value.
    ///
    /// # Errors
    ///
    /// When the promise is broken.
    ///
    /// ```
    /// use uthread::sync::promise::{self, RecvError};
    ///
    /// let (promise, promised) = promise::channel::<i32>();
    /// uthread::spawn(move || drop(promise));
    /// assert_eq!(promised.wait(), Err(RecvError));
    /// ```
    pub fn wait(&self) -> Result<&T, RecvError> {
        // Without a deadline it is either there or will not come.
        self.wait_until(None).map_err(|_| RecvError)
    }

    /// Waits for the value so long at most.
    ///
    /// # Errors
    ///
    /// When it did not come in time, or the promise is broken.
    ///
    /// ```
    /// use std::sync::mpsc::RecvTimeoutError;
    /// use std::time::Duration;
    ///
    /// let (promise, promised) = uthread::sync::promise::channel();
    /// let soon = Duration::from_millis(1);
    /// assert_eq!(promised.wait_timeout(soon), Err(RecvTimeoutError::Timeout));
    /// promise.keep(1);
    /// assert_eq!(promised.wait_timeout(soon), Ok(&1));
    /// ```
    pub fn wait_timeout(&self, timeout: Duration) -> Result<&T, RecvTimeoutError> {
        self.wait_until(Some(wait::after(wait::now(), timeout)))
    }

    fn wait_until(&self, deadline: Option<Instant>) -> Result<&T, RecvTimeoutError> {
        if self.shared.value.get().is_none() {
            let mutex = &self.shared.is_settled;
            mutex.wait(deadline, |settled| settled.then_some(()))?;
        }
        let value = self.shared.value.get();
        value.ok_or(RecvTimeoutError::Disconnected)
    }

    /// The value if it is there.
    ///
    /// # Errors
    ///
    /// When it is not there yet, or the promise is broken.
    ///
    /// ```
    /// use std::sync::mpsc::TryRecvError;
    ///
    /// let (promise, promised) = uthread::sync::promise::channel::<i32>();
    /// assert_eq!(promised.try_get(), Err(TryRecvError::Empty));
    /// drop(promise);
    /// assert_eq!(promised.try_get(), Err(TryRecvError::Disconnected));
    /// ```
    pub fn try_get(&self) -> Result<&T, TryRecvError> {
        wait::spend_turn();
        let settled = self.shared.is_settled.with(|settled| *settled);
        let missing = match settled {
            true => TryRecvError::Disconnected,
            false => TryRecvError::Empty,
        };
        self.shared.value.get().ok_or(missing)
    }
}

impl<T> Clone for Promised<T> {
    fn clone(&self) -> Promised<T> {
        Promised {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T> fmt::Debug for Promise<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Promise").finish_non_exhaustive()
    }
}

impl<T: fmt::Debug> fmt::Debug for Promised<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Promised");
        shown.field("value", &self.shared.value.get()).finish()
    }
}

/// The case of a choice that a promise is kept or broken; made by [`select::wait`](super::select::wait).
pub(crate) fn case<T>(promised: &Promised<T>) -> Case<Settled<'_, T>> {
    Case::new(Settled {
        promised,
        waiter_id: None,
    })
}

/// That a promise is kept or broken; see the example of [`select::wait`](super::select::wait).
#[derive(Debug)]
pub struct Settled<'a, T> {
    promised: &'a Promised<T>,
    waiter_id: Option<WaiterId>,
}

impl<'a, T> Event for Settled<'a, T> {
    type Output = Result<&'a T, RecvError>;

    fn attempt(&mut self) -> Option<Result<&'a T, RecvError>> {
        let shared = &self.promised.shared;
        let settled = shared.is_settled.with(|settled| *settled);
        settled.then(|| shared.value.get().ok_or(RecvError))
    }

    fn enlist(&mut self, place: Place) -> bool {
        let mutex = &self.promised.shared.is_settled;
        self.waiter_id = mutex.enlist(|| place.wake_handle(), |settled| *settled);
        self.waiter_id.is_some()
    }

    fn withdraw(&mut self) {
        if let Some(waiter_id) = self.waiter_id.take() {
            self.promised.shared.is_settled.withdraw(waiter_id);
        }
    }

    fn cut_off(&mut self) -> Result<&'a T, RecvError> {
        Err(RecvError)
    }
}

//! A write-once value that any number of fibers wait for: the futures of EMPER.
//!
//! The value is set once, and then borrowed by all. If a single waiter takes the value, a
//! [`oneshot`](super::oneshot) is smaller.
//!
//! ```
//! use uthread::sync::promise;
//!
//! let (promise, waiter) = promise::channel();
//! let waiting = [waiter.clone(), waiter].map(|waiter| {
//!     uthread::spawn(move || waiter.wait().copied())
//! });
//! promise.set(42);
//! for fiber in waiting {
//!     assert_eq!(fiber.join().unwrap(), Ok(42));
//! }
//! ```
//!
//! | event | effect | wakes |
//! | --- | --- | --- |
//! | [`Promise::set`] | sets the value | all waiters |
//! | the promise is dropped | breaks the promise | all waiters |
//!
//! A cancelled waiter is unwound, as with [`mpsc`](super::mpsc#cancellation).

use std::fmt;
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

pub use std::sync::mpsc::RecvError;

use super::change::Notified;
use super::notify_mutex::{NotifyMutex, WaiterId};
use super::selection::ArmHandle;
use crate::sched::caller::{self, turn};

struct Shared<T> {
    value: OnceLock<T>,
    is_settled: NotifyMutex<bool>,
}

/// Creates a promise, and a handle that waits for its value.
///
/// ```
/// let (promise, waiter) = uthread::sync::promise::channel();
/// promise.set("set");
/// assert_eq!(waiter.wait(), Ok(&"set"));
/// ```
#[must_use]
pub fn channel<T>() -> (Promise<T>, Waiter<T>) {
    let shared = Arc::new(Shared {
        value: OnceLock::new(),
        is_settled: NotifyMutex::new(false),
    });
    let promise = Promise {
        shared: Arc::clone(&shared),
    };
    (promise, Waiter { shared })
}

/// The side that sets the value; see the example of [`channel`]. A promise that is dropped without
/// a value is broken, which its waiters see as an error.
///
/// It is set at most once:
///
/// ```compile_fail,E0382
/// let (promise, _promised) = uthread::sync::promise::channel();
/// promise.set(1);
/// promise.set(2);
/// ```
pub struct Promise<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Promise<T> {
    /// Sets the value and wakes all waiters, without waiting. Without a waiter the value is
    /// dropped.
    ///
    /// ```
    /// let (promise, waiter) = uthread::sync::promise::channel();
    /// uthread::spawn(move || promise.set(7));
    /// assert_eq!(waiter.wait(), Ok(&7));
    /// ```
    pub fn set(self, value: T) {
        // Not set before; `drop` wakes the waiters.
        let _ = self.shared.value.set(value);
        drop(self);
        turn::spend_try();
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.shared.is_settled.change(|settled| *settled = true);
    }
}

/// The side that waits; see the example of [`channel`]. Clone it for more waiters.
///
/// They share the value, so its type must allow that:
///
/// ```compile_fail,E0277
/// let (promise, waiter) = uthread::sync::promise::channel();
/// uthread::spawn(move || waiter.wait().is_ok());
/// promise.set(std::cell::Cell::new(1));
/// ```
pub struct Waiter<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Waiter<T> {
    /// Waits for the value.
    ///
    /// # Errors
    ///
    /// `RecvError` if the promise is broken.
    ///
    /// ```
    /// use uthread::sync::promise::{self, RecvError};
    ///
    /// let (promise, waiter) = promise::channel::<i32>();
    /// uthread::spawn(move || drop(promise));
    /// assert_eq!(waiter.wait(), Err(RecvError));
    /// ```
    pub fn wait(&self) -> Result<&T, RecvError> {
        // Without a deadline the value is either set or never will be.
        self.wait_until(None).map_err(|_| RecvError)
    }

    /// Waits for the value, giving up after `timeout`.
    ///
    /// # Errors
    ///
    /// `Timeout` if the value was not set in time; `Disconnected` if the promise is broken.
    ///
    /// ```
    /// use std::sync::mpsc::RecvTimeoutError;
    /// use std::time::Duration;
    ///
    /// let (promise, waiter) = uthread::sync::promise::channel();
    /// let soon = Duration::from_millis(1);
    /// assert_eq!(waiter.wait_timeout(soon), Err(RecvTimeoutError::Timeout));
    /// promise.set(1);
    /// assert_eq!(waiter.wait_timeout(soon), Ok(&1));
    /// ```
    pub fn wait_timeout(&self, timeout: Duration) -> Result<&T, RecvTimeoutError> {
        self.wait_until(Some(caller::after(caller::now(), timeout)))
    }

    fn wait_until(&self, deadline: Option<Instant>) -> Result<&T, RecvTimeoutError> {
        if self.shared.value.get().is_none() {
            let mutex = &self.shared.is_settled;
            mutex.wait(deadline, |settled| settled.then_some(()))?;
        }
        let value = self.shared.value.get();
        value.ok_or(RecvTimeoutError::Disconnected)
    }

    /// Returns the value without waiting.
    ///
    /// # Errors
    ///
    /// `Empty` if the value is not set yet; `Disconnected` if the promise is broken.
    ///
    /// ```
    /// use std::sync::mpsc::TryRecvError;
    ///
    /// let (promise, waiter) = uthread::sync::promise::channel::<i32>();
    /// assert_eq!(waiter.try_get(), Err(TryRecvError::Empty));
    /// drop(promise);
    /// assert_eq!(waiter.try_get(), Err(TryRecvError::Disconnected));
    /// ```
    pub fn try_get(&self) -> Result<&T, TryRecvError> {
        turn::spend();
        let settled = self.shared.is_settled.with(|settled| *settled);
        let missing = if settled {
            TryRecvError::Disconnected
        } else {
            TryRecvError::Empty
        };
        self.shared.value.get().ok_or(missing)
    }
}

impl<T> Clone for Waiter<T> {
    fn clone(&self) -> Waiter<T> {
        Waiter {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T> fmt::Debug for Promise<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Promise").finish_non_exhaustive()
    }
}

impl<T: fmt::Debug> fmt::Debug for Waiter<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Waiter");
        shown.field("value", &self.shared.value.get()).finish()
    }
}

impl<'a, T> Notified for &'a Waiter<T> {
    type Output = Result<&'a T, RecvError>;

    fn take(&mut self) -> Option<Result<&'a T, RecvError>> {
        let settled = self.shared.is_settled.with(|settled| *settled);
        settled.then(|| self.shared.value.get().ok_or(RecvError))
    }

    fn enlist(&self, handle: ArmHandle) -> Option<WaiterId> {
        let mutex = &self.shared.is_settled;
        mutex.enlist(|| handle.wake_handle(), |settled| *settled)
    }

    fn withdraw(&self, id: WaiterId) {
        self.shared.is_settled.withdraw(id);
    }

    fn closed() -> Result<&'a T, RecvError> {
        Err(RecvError)
    }
}

//! Watch channels: keep only the latest value, for any number of receivers. The names are those of
//! Tokio's `sync::watch`.
//!
//! Use one for a configuration, a state or a progress that others follow: a receiver that is too
//! slow skips values, and no sender waits for it.
//!
//! ```
//! use uthread::sync::watch;
//!
//! let (sender, mut level) = watch::channel(1);
//! assert_eq!(*level.borrow(), 1);
//! let following = uthread::spawn(move || {
//!     while let Ok(new) = level.changed() {
//!         assert!(*new == 2 || *new == 3);
//!     }
//!     *level.borrow()
//! });
//! sender.send(2).unwrap();
//! sender.send(3).unwrap();
//! drop(sender);
//! assert_eq!(following.join().unwrap(), 3);
//! ```
//!
//! | event | effect | wakes |
//! | --- | --- | --- |
//! | [`Sender::send`] | replaces the value | all waiting receivers |
//! | [`Receiver::changed`] | marks the latest value as seen by this receiver | nobody: senders never wait for receivers |
//! | the last sender is dropped | closes the channel; the latest value stays | all waiting receivers |
//!
//! # Snapshots instead of guards
//!
//! Methods that read the value return an `Arc` of it. Tokio's return a guard, and a sender waits
//! while one exists: a guard held across a call that waits, or while the same fiber sends, would be
//! a deadlock. A snapshot may be held for any time, and never changes. Code that dereferences the
//! guard works unchanged; only `receiver.borrow().clone()` clones the `Arc`.
//!
//! A cancelled receiver is unwound, as with [`mpsc`](super::mpsc#cancellation).

use std::fmt;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

pub use std::sync::mpsc::{RecvError, SendError};

use super::change::Notified;
use super::mutex::{Mutex, MutexGuard};
use super::notify_mutex::{NotifyMutex, WaiterId};
use super::selection::ArmHandle;
use crate::sched::caller::{self, turn};

struct Shared<T> {
    latest: NotifyMutex<Versioned<T>>,
    /// Locked by each sender while it replaces the value, so that `send_modify` can run the
    /// program's code without the lock of `latest` and lose no value. A poisoned lock is no error:
    /// the value is complete at any time.
    sending: Mutex<()>,
}

struct Versioned<T> {
    value: Arc<T>,
    /// Number of values sent so far.
    version: u64,
    senders: usize,
    receivers: usize,
}

/// Creates a channel with an initial value, which counts as seen by the receiver.
///
/// ```
/// use uthread::sync::watch;
///
/// let (sender, mut receiver) = watch::channel("initial");
/// assert_eq!(receiver.has_changed(), Ok(false));
/// sender.send("next").unwrap();
/// assert_eq!(receiver.changed().as_deref(), Ok(&"next"));
/// ```
#[must_use]
pub fn channel<T>(initial: T) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        latest: NotifyMutex::new(Versioned {
            value: Arc::new(initial),
            version: 0,
            senders: 1,
            receivers: 1,
        }),
        sending: Mutex::new(()),
    });
    let receiver = Receiver {
        shared: Arc::clone(&shared),
        seen: 0,
    };
    (Sender { shared }, receiver)
}

/// The sending side of a [`channel`]. Clone it for more senders. See the example there.
///
/// Receivers share the value, so the type must be `Sync`:
///
/// ```compile_fail,E0277
/// let (sender, _receiver) = uthread::sync::watch::channel(std::cell::Cell::new(0));
/// uthread::spawn(move || sender.send(std::cell::Cell::new(1)).is_ok());
/// ```
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    /// Replaces the value, and wakes all waiting receivers. Waits only while another sender is in
    /// [`send_modify`](Sender::send_modify).
    ///
    /// # Errors
    ///
    /// `SendError` with the value if there is no receiver; the channel keeps the old value. To
    /// replace it nevertheless, use [`send_replace`](Sender::send_replace).
    ///
    /// ```
    /// use uthread::sync::watch::{self, SendError};
    ///
    /// let (sender, receiver) = watch::channel(1);
    /// assert_eq!(sender.send(2), Ok(()));
    /// drop(receiver);
    /// assert_eq!(sender.send(3), Err(SendError(3)));
    /// assert_eq!(*sender.borrow(), 2);
    /// ```
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        let value = Arc::new(value);
        let sending = self.start_sending();
        let sent = self.shared.latest.change(|latest| match latest.receivers {
            0 => Err(value),
            _ => Ok(latest.replace(value)),
        });
        // Before the old value is dropped, whose destructor may send.
        drop(sending);
        match sent {
            Ok(_old) => Ok(()),
            Err(value) => Err(SendError(
                Arc::into_inner(value).expect("no receiver has seen the value"),
            )),
        }
    }

    /// Replaces the value even if there is no receiver, and returns the old one. Receivers that
    /// [subscribe](Sender::subscribe) later find the new value.
    ///
    /// ```
    /// let (sender, _) = uthread::sync::watch::channel(1);
    /// assert_eq!(*sender.send_replace(2), 1);
    /// assert_eq!(*sender.subscribe().borrow(), 2);
    /// ```
    pub fn send_replace(&self, value: T) -> Arc<T> {
        let value = Arc::new(value);
        let _sending = self.start_sending();
        let latest = &self.shared.latest;
        latest.change(|latest| latest.replace(value))
    }

    /// Sends a modified clone of the value, even if there is no receiver. No value that another
    /// sender sends in the meantime is lost: that sender waits.
    ///
    /// `modify` may wait, but if it sends to the same channel, it waits forever. If it panics, the
    /// value does not change.
    ///
    /// ```
    /// let (sender, mut receiver) = uthread::sync::watch::channel(vec![1]);
    /// sender.send_modify(|numbers| numbers.push(2));
    /// assert_eq!(*receiver.changed().unwrap(), [1, 2]);
    /// ```
    pub fn send_modify(&self, modify: impl FnOnce(&mut T))
    where
        T: Clone,
    {
        let sending = self.start_sending();
        let latest = &self.shared.latest;
        let current = latest.with(|latest| Arc::clone(&latest.value));
        let mut value = T::clone(&current);
        modify(&mut value);
        let value = Arc::new(value);
        let _old = latest.change(|latest| latest.replace(value));
        // Before the old value is dropped, whose destructor may send.
        drop(sending);
    }

    /// Returns the latest value.
    ///
    /// ```
    /// let (sender, receiver) = uthread::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// assert_eq!(*sender.borrow(), 2);
    /// # drop(receiver);
    /// ```
    #[must_use]
    pub fn borrow(&self) -> Arc<T> {
        turn::spend();
        let latest = &self.shared.latest;
        latest.with(|latest| Arc::clone(&latest.value))
    }

    /// Creates a receiver, which counts the latest value as seen.
    ///
    /// ```
    /// let (sender, _) = uthread::sync::watch::channel(1);
    /// let mut late = sender.subscribe();
    /// assert_eq!(late.has_changed(), Ok(false));
    /// sender.send(2).unwrap();
    /// assert_eq!(late.changed().as_deref(), Ok(&2));
    /// ```
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        let seen = self.shared.latest.with(|latest| {
            latest.receivers += 1;
            latest.version
        });
        Receiver {
            shared: Arc::clone(&self.shared),
            seen,
        }
    }

    /// Returns the number of receivers.
    ///
    /// ```
    /// let (sender, receiver) = uthread::sync::watch::channel(1);
    /// let other = receiver.clone();
    /// assert_eq!(sender.receiver_count(), 2);
    /// # drop(other);
    /// ```
    #[must_use]
    pub fn receiver_count(&self) -> usize {
        self.shared.latest.with(|latest| latest.receivers)
    }

    fn start_sending(&self) -> MutexGuard<'_, ()> {
        let sending = self.shared.sending.lock();
        sending.unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.shared.latest.with(|latest| latest.senders += 1);
        Sender {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let ended = self.shared.latest.with(|latest| {
            latest.senders -= 1;
            latest.senders == 0
        });
        if ended {
            self.shared.latest.change(|_| ());
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sender").finish_non_exhaustive()
    }
}

/// The receiving side of a [`channel`]. See the example there. Clone it for more receivers: a clone
/// has seen the same values.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The version that this receiver has seen.
    seen: u64,
}

impl<T> Receiver<T> {
    /// Waits for a value that this receiver has not seen, marks it as seen, and returns it. Tokio's
    /// returns no value.
    ///
    /// If several values were sent since the last call, it returns the latest.
    ///
    /// # Errors
    ///
    /// `RecvError` if all senders are gone and the receiver has seen the latest value.
    ///
    /// ```
    /// use uthread::sync::watch::{self, RecvError};
    ///
    /// let (sender, mut receiver) = watch::channel(0);
    /// uthread::spawn(move || assert!((1..=3).all(|n| sender.send(n).is_ok()))).join().unwrap();
    /// assert_eq!(receiver.changed().as_deref(), Ok(&3));
    /// assert_eq!(receiver.changed(), Err(RecvError));
    /// ```
    pub fn changed(&mut self) -> Result<Arc<T>, RecvError> {
        // Without a deadline there is a value, or there will never be one.
        self.changed_until(None).map_err(|_| RecvError)
    }

    /// Waits for a value that this receiver has not seen, like [`changed`](Receiver::changed),
    /// giving up after `timeout`.
    ///
    /// # Errors
    ///
    /// `Timeout` if no value was sent in time; `Disconnected` if all senders are gone and the
    /// receiver has seen the latest value.
    ///
    /// ```
    /// use std::sync::mpsc::RecvTimeoutError;
    /// use std::time::Duration;
    ///
    /// let (sender, mut receiver) = uthread::sync::watch::channel(0);
    /// let soon = Duration::from_millis(1);
    /// assert_eq!(receiver.changed_timeout(soon), Err(RecvTimeoutError::Timeout));
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.changed_timeout(soon).as_deref(), Ok(&1));
    /// ```
    pub fn changed_timeout(&mut self, timeout: Duration) -> Result<Arc<T>, RecvTimeoutError> {
        self.changed_until(Some(caller::after(caller::now(), timeout)))
    }

    fn changed_until(&mut self, deadline: Option<Instant>) -> Result<Arc<T>, RecvTimeoutError> {
        let seen = &mut self.seen;
        let latest = &self.shared.latest;
        let changed = latest.wait(deadline, |latest| latest.change_since(seen))?;
        changed.map_err(RecvTimeoutError::from)
    }

    /// Returns `true` if there is a value that this receiver has not seen, without waiting.
    ///
    /// # Errors
    ///
    /// `RecvError` if all senders are gone and the receiver has seen the latest value. Tokio's also
    /// fails if it has not.
    ///
    /// ```
    /// use uthread::sync::watch::{self, RecvError};
    ///
    /// let (sender, mut receiver) = watch::channel(0);
    /// assert_eq!(receiver.has_changed(), Ok(false));
    /// sender.send(1).unwrap();
    /// drop(sender);
    /// assert_eq!(receiver.has_changed(), Ok(true));
    /// assert_eq!(*receiver.borrow_and_update(), 1);
    /// assert_eq!(receiver.has_changed(), Err(RecvError));
    /// ```
    pub fn has_changed(&self) -> Result<bool, RecvError> {
        turn::spend();
        let seen = self.seen;
        self.shared.latest.with(|latest| {
            let changed = latest.version != seen;
            if changed || latest.senders > 0 {
                Ok(changed)
            } else {
                Err(RecvError)
            }
        })
    }

    /// Returns the latest value without marking it as seen: the next [`changed`](Receiver::changed)
    /// returns it again.
    ///
    /// ```
    /// let (sender, receiver) = uthread::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// assert_eq!(*receiver.borrow(), 2);
    /// assert_eq!(receiver.has_changed(), Ok(true));
    /// ```
    #[must_use]
    pub fn borrow(&self) -> Arc<T> {
        turn::spend();
        let latest = &self.shared.latest;
        latest.with(|latest| Arc::clone(&latest.value))
    }

    /// Returns the latest value, and marks it as seen.
    ///
    /// ```
    /// let (sender, mut receiver) = uthread::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// assert_eq!(*receiver.borrow_and_update(), 2);
    /// assert_eq!(receiver.has_changed(), Ok(false));
    /// ```
    pub fn borrow_and_update(&mut self) -> Arc<T> {
        turn::spend();
        let seen = &mut self.seen;
        self.shared.latest.with(|latest| latest.see(seen))
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        self.shared.latest.with(|latest| latest.receivers += 1);
        Receiver {
            shared: Arc::clone(&self.shared),
            seen: self.seen,
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.latest.with(|latest| latest.receivers -= 1);
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Receiver").finish_non_exhaustive()
    }
}

impl<T> Versioned<T> {
    /// Replaces the value, and returns the old one, to be dropped without the lock.
    fn replace(&mut self, value: Arc<T>) -> Arc<T> {
        self.version += 1;
        std::mem::replace(&mut self.value, value)
    }

    /// Returns the value, and marks it as seen.
    fn see(&self, seen: &mut u64) -> Arc<T> {
        *seen = self.version;
        Arc::clone(&self.value)
    }

    fn has_something(&self, seen: u64) -> bool {
        self.version != seen || self.senders == 0
    }

    /// Returns a value that was not seen, or an error if there will be none. Returns `None` if the
    /// receiver has to wait.
    fn change_since(&self, seen: &mut u64) -> Option<Result<Arc<T>, RecvError>> {
        if self.version != *seen {
            return Some(Ok(self.see(seen)));
        }
        (self.senders == 0).then_some(Err(RecvError))
    }
}

impl<T> Notified for &mut Receiver<T> {
    type Output = Result<Arc<T>, RecvError>;

    fn take(&mut self) -> Option<Result<Arc<T>, RecvError>> {
        let Receiver { shared, seen } = &mut **self;
        shared.latest.with(|latest| latest.change_since(seen))
    }

    fn enlist(&self, handle: ArmHandle) -> Option<WaiterId> {
        let ready = |latest: &Versioned<T>| latest.has_something(self.seen);
        self.shared.latest.enlist(|| handle.wake_handle(), ready)
    }

    fn withdraw(&self, id: WaiterId) {
        self.shared.latest.withdraw(id);
    }

    fn closed() -> Result<Arc<T>, RecvError> {
        Err(RecvError)
    }
}

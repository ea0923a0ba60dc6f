//! Channels with many senders and many receivers: each value is received by one of them. The names
//! are those of the unstable `std::sync::mpmc`.
//!
//! Both ends can be cloned, and used by fibers and threads in any combination. The error types are
//! those of [`mpsc`](super::mpsc).
//!
//! ```
//! use uthread::sync::mpmc;
//!
//! let (sender, jobs) = mpmc::sync_channel(4);
//! let workers = [(); 3].map(|()| {
//!     let jobs = jobs.clone();
//!     uthread::spawn(move || jobs.iter().sum::<u32>())
//! });
//! (1..=100).for_each(|job| sender.send(job).unwrap());
//! drop(sender);
//! let sums = workers.map(|worker| worker.join().unwrap());
//! assert_eq!(sums.iter().sum::<u32>(), 5050);
//! ```
//!
//! # Fairness
//!
//! Waiting receivers are woken in the order in which they arrived, as are senders that wait for
//! space. A receiver that does not have to wait may overtake one that was woken but has not run
//! yet.
//!
//! # Cancellation
//!
//! A cancelled caller is unwound where it would have to wait, as with
//! [`mpsc`](super::mpsc#cancellation). Calls with a timeout return their timeout error instead.

#![allow(
    clippy::inline_always,
    reason = "hot paths, whose instructions are counted"
)]

mod contents;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

use super::channel::selecting::{Received, Sent};
use super::channel::{Channel, UNBOUNDED};
use super::channel_ends::{impl_receiver, impl_senders};
use super::selection::{Receive, Transmit};
use crate::sched::caller;

/// Creates a channel without a bound: [`Sender::send`] never waits, and unreceived values take
/// memory. If senders may be faster than the receivers, prefer [`sync_channel`].
///
/// ```
/// let (sender, receiver) = uthread::sync::mpmc::channel();
/// let other = receiver.clone();
/// sender.send(1).unwrap();
/// sender.send(2).unwrap();
/// assert_eq!(receiver.recv(), Ok(1));
/// assert_eq!(other.recv(), Ok(2));
/// ```
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    sync_channel(UNBOUNDED)
}

/// Creates a channel that holds at most `bound` values: [`Sender::send`] waits while it is full.
/// With bound 0, it waits until a receiver waits for the value (a *rendezvous*).
///
/// Space is allocated as needed, so a large bound takes no memory by itself.
///
/// ```
/// let (sender, receiver) = uthread::sync::mpmc::sync_channel(1);
/// sender.send(1).unwrap();
/// uthread::spawn(move || sender.send(2).unwrap());
/// assert_eq!(receiver.recv(), Ok(1));
/// assert_eq!(receiver.recv(), Ok(2));
/// ```
#[must_use]
pub fn sync_channel<T>(bound: usize) -> (Sender<T>, Receiver<T>) {
    let channel = Arc::new(Channel::new(bound));
    let sender = Sender {
        channel: Arc::clone(&channel),
    };
    (sender, Receiver { channel })
}

/// The sending side of a [`channel`] or [`sync_channel`]. Clone it for more senders. See the
/// examples there.
///
/// When the last sender is dropped, the receivers return the remaining values and then errors.
pub struct Sender<T> {
    channel: Arc<Channel<T>>,
}

impl<T> Sender<T> {
    /// Sends a value, waiting until there is space for it or a receiver waits. Never waits if the
    /// channel has no bound.
    ///
    /// # Errors
    ///
    /// `SendError` with the value if all receivers are gone, or are dropped while the call waits.
    ///
    /// ```
    /// use uthread::sync::mpmc::{self, SendError};
    ///
    /// let (sender, receiver) = mpmc::sync_channel(1);
    /// sender.send(1).unwrap();
    /// drop(receiver);
    /// assert_eq!(sender.send(2), Err(SendError(2)));
    /// ```
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.channel.send(value)
    }

    /// Sends a value, waiting at most for `timeout`.
    ///
    /// # Errors
    ///
    /// `Timeout` with the value if there is no space in time; `Disconnected` with the value if all
    /// receivers are gone.
    ///
    /// ```
    /// use std::time::Duration;
    /// use uthread::sync::mpmc::{self, SendTimeoutError};
    ///
    /// let (sender, receiver) = mpmc::sync_channel(1);
    /// let soon = Duration::from_millis(1);
    /// assert_eq!(sender.send_timeout(1, soon), Ok(()));
    /// assert_eq!(sender.send_timeout(2, soon), Err(SendTimeoutError::Timeout(2)));
    /// drop(receiver);
    /// assert_eq!(sender.send_timeout(3, soon), Err(SendTimeoutError::Disconnected(3)));
    /// ```
    pub fn send_timeout(&self, value: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        self.send_deadline(value, caller::after(caller::now(), timeout))
    }

    /// Sends a value, waiting at most until `deadline`.
    ///
    /// # Errors
    ///
    /// The errors of [`send_timeout`](Sender::send_timeout).
    ///
    /// ```
    /// use uthread::sync::mpmc::{self, SendTimeoutError};
    /// use uthread::time::Instant;
    ///
    /// let (sender, _receiver) = mpmc::sync_channel(1);
    /// assert_eq!(sender.send_deadline(1, Instant::now()), Ok(()));
    /// assert_eq!(sender.send_deadline(2, Instant::now()), Err(SendTimeoutError::Timeout(2)));
    /// ```
    pub fn send_deadline(&self, value: T, deadline: Instant) -> Result<(), SendTimeoutError<T>> {
        let sent = self.channel.send_deadline(value, deadline);
        sent.map_err(|error| match error {
            TrySendError::Full(value) => SendTimeoutError::Timeout(value),
            TrySendError::Disconnected(value) => SendTimeoutError::Disconnected(value),
        })
    }

    /// Sends a value without waiting. With bound 0, this succeeds only if a receiver waits.
    ///
    /// # Errors
    ///
    /// `Full` with the value if there is no space; `Disconnected` with the value if all receivers
    /// are gone.
    ///
    /// ```
    /// use uthread::sync::mpmc::{self, TrySendError};
    ///
    /// let (sender, _receiver) = mpmc::sync_channel(1);
    /// assert_eq!(sender.try_send(1), Ok(()));
    /// assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
    /// ```
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.channel.try_send(value)
    }
}

/// The receiving side of a [`channel`] or [`sync_channel`]. Clone or share it for more receivers.
/// See the examples there.
///
/// Dropping the last receiver drops the values not yet received; waiting senders get theirs back.
pub struct Receiver<T> {
    channel: Arc<Channel<T>>,
}

impl<T> Receiver<T> {
    /// Receives the next value, waiting for it if necessary.
    ///
    /// # Errors
    ///
    /// `RecvError` if all senders are gone and no value is left.
    ///
    /// ```
    /// use uthread::sync::mpmc::{self, RecvError};
    ///
    /// let (sender, receiver) = mpmc::channel();
    /// uthread::spawn(move || sender.send(1).unwrap());
    /// assert_eq!(receiver.recv(), Ok(1));
    /// assert_eq!(receiver.recv(), Err(RecvError));
    /// ```
    pub fn recv(&self) -> Result<T, RecvError> {
        self.channel.recv()
    }

    /// Receives the next value, waiting at most for `timeout`.
    ///
    /// # Errors
    ///
    /// `Timeout` if no value arrives in time; `Disconnected` if all senders are gone and no value
    /// is left.
    ///
    /// ```
    /// use std::time::Duration;
    /// use uthread::sync::mpmc::{self, RecvTimeoutError};
    ///
    /// let (sender, receiver) = mpmc::channel();
    /// let soon = Duration::from_millis(5);
    /// assert_eq!(receiver.recv_timeout(soon), Err(RecvTimeoutError::Timeout));
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.recv_timeout(soon), Ok(1));
    /// ```
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_deadline(caller::after(caller::now(), timeout))
    }

    /// Receives the next value, waiting at most until `deadline`.
    ///
    /// # Errors
    ///
    /// The errors of [`recv_timeout`](Receiver::recv_timeout).
    ///
    /// ```
    /// use uthread::sync::mpmc::{self, RecvTimeoutError};
    /// use uthread::time::Instant;
    ///
    /// let (sender, receiver) = mpmc::channel();
    /// assert_eq!(receiver.recv_deadline(Instant::now()), Err(RecvTimeoutError::Timeout));
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.recv_deadline(Instant::now()), Ok(1));
    /// ```
    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.channel.recv_deadline(deadline)
    }

    /// Receives the next value without waiting. With bound 0, this succeeds only if a sender waits.
    ///
    /// # Errors
    ///
    /// `Empty` if there is no value yet; `Disconnected` if all senders are gone and no value is
    /// left.
    ///
    /// ```
    /// use uthread::sync::mpmc::{self, TryRecvError};
    ///
    /// let (sender, receiver) = mpmc::channel();
    /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// ```
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.channel.try_recv()
    }

    /// Returns an iterator that waits for each value, until all senders are gone.
    ///
    /// ```
    /// let (sender, receiver) = uthread::sync::mpmc::sync_channel(3);
    /// uthread::spawn(move || (1..=10).for_each(|number| sender.send(number).unwrap()));
    /// assert_eq!(receiver.iter().sum::<i32>(), 55);
    /// ```
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// Returns an iterator over the values that are available without waiting.
    ///
    /// ```
    /// let (sender, receiver) = uthread::sync::mpmc::channel();
    /// (1..=3).for_each(|number| sender.send(number).unwrap());
    /// assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2, 3]);
    /// ```
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        self.channel.add_receiver();
        Receiver {
            channel: Arc::clone(&self.channel),
        }
    }
}

impl_senders!(Sender);
impl_receiver!("mpmc");

/// The reason why [`Sender::send_timeout`] has not sent the value. See the example there.
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "programs match or construct it")]
pub enum SendTimeoutError<T> {
    /// There was no space for the value in time.
    Timeout(T),
    /// All receivers are gone.
    Disconnected(T),
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            SendTimeoutError::Timeout(_) => "Timeout(..)",
            SendTimeoutError::Disconnected(_) => "Disconnected(..)",
        })
    }
}

impl<T> fmt::Display for SendTimeoutError<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            SendTimeoutError::Timeout(_) => "timed out waiting on send operation",
            SendTimeoutError::Disconnected(_) => "sending on a disconnected channel",
        })
    }
}

impl<T> std::error::Error for SendTimeoutError<T> {}

//! Channels with many senders and one receiver, with the names of `std::sync::mpsc`. Both ends may
//! be used by fibers and threads in any combination.
//!
//! A waiting fiber is suspended, and its worker runs other fibers; a thread outside the runtime
//! blocks. The error types are those of `std`.
//!
//! ```
//! use uthread::sync::mpsc;
//!
//! let (sender, receiver) = mpsc::channel();
//! for part in 0..3 {
//!     let sender = sender.clone();
//!     uthread::spawn(move || sender.send(part * 10).unwrap());
//! }
//! drop(sender);
//! let mut parts: Vec<i32> = receiver.iter().collect();
//! parts.sort();
//! assert_eq!(parts, [0, 10, 20]);
//! ```
//!
//! # Fairness
//!
//! Senders that wait for space are served in the order in which they arrived. A fiber whose calls
//! never have to wait, such as [`try_recv`](Receiver::try_recv) or
//! [`try_send`](SyncSender::try_send), lets the other fibers of its worker run after 128 calls at
//! the latest.
//!
//! # Cancellation
//!
//! If a fiber is [cancelled](crate::JoinHandle::cancel), its [deadline](crate::timeout) has passed
//! or its runtime is [dropped](crate::Runtime#dropping), a call that would have to wait unwinds the
//! fiber, as the errors of `std` have no variant for this. The value to be sent is dropped. In a
//! destructor, where the fiber cannot be unwound, the call returns as if the other side were gone.
//! Calls that need not wait succeed.
#![allow(
    clippy::inline_always,
    reason = "hot paths, whose instructions are counted"
)]

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
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
/// memory. If senders may be faster than the receiver, prefer [`sync_channel`].
///
/// ```
/// let (sender, receiver) = uthread::sync::mpsc::channel();
/// uthread::spawn(move || sender.send("from a fiber").unwrap());
/// assert_eq!(receiver.recv(), Ok("from a fiber"));
/// ```
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let channel = Arc::new(Channel::new(UNBOUNDED));
    let sender = Sender {
        channel: Arc::clone(&channel),
    };
    (sender, Receiver::new(channel))
}

/// Creates a channel that holds at most `bound` values: [`SyncSender::send`] waits while it is
/// full. With bound 0, it waits until the value is received (a *rendezvous*).
///
/// Space is allocated as needed, so a large bound takes no memory by itself.
///
/// ```
/// let (sender, receiver) = uthread::sync::mpsc::sync_channel(1);
/// sender.send(1).unwrap();
/// uthread::spawn(move || sender.send(2).unwrap());
/// assert_eq!(receiver.recv(), Ok(1));
/// assert_eq!(receiver.recv(), Ok(2));
/// ```
#[must_use]
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    let channel = Arc::new(Channel::new(bound));
    let sender = SyncSender {
        channel: Arc::clone(&channel),
    };
    (sender, Receiver::new(channel))
}

/// The sending side of a [`channel`]. Clone it for more senders. See the example there.
///
/// When the last sender is dropped, the receiver returns the remaining values and then errors.
pub struct Sender<T> {
    channel: Arc<Channel<T>>,
}

impl<T> Sender<T> {
    /// Sends a value without waiting.
    ///
    /// # Errors
    ///
    /// `SendError` with the value if the receiver is gone. `Ok` does not guarantee that the value
    /// is received: the receiver may be dropped later.
    ///
    /// ```
    /// use uthread::sync::mpsc::{self, SendError};
    ///
    /// let (sender, receiver) = mpsc::channel();
    /// sender.send(1).unwrap();
    /// drop(receiver);
    /// assert_eq!(sender.send(2), Err(SendError(2)));
    /// ```
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        match self.channel.try_send(value) {
            Ok(()) => Ok(()),
            // A channel without a bound is never full.
            Err(TrySendError::Full(value) | TrySendError::Disconnected(value)) => {
                Err(SendError(value))
            }
        }
    }
}

/// The sending side of a [`sync_channel`]. Clone it for more senders. See the example there.
pub struct SyncSender<T> {
    channel: Arc<Channel<T>>,
}

impl<T> SyncSender<T> {
    /// Sends a value, waiting until there is space for it. With bound 0, waits until it is
    /// received.
    ///
    /// # Errors
    ///
    /// `SendError` with the value if the receiver is gone, or is dropped while the call waits.
    ///
    /// ```
    /// let (sender, receiver) = uthread::sync::mpsc::sync_channel(0);
    /// let sending = uthread::spawn(move || sender.send("hand to hand"));
    /// assert_eq!(receiver.recv(), Ok("hand to hand"));
    /// assert_eq!(sending.join().unwrap(), Ok(()));
    /// ```
    #[inline(always)]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.channel.send(value)
    }

    /// Sends a value without waiting. With bound 0, this succeeds only if a receiver waits.
    ///
    /// # Errors
    ///
    /// `Full` with the value if there is no space; `Disconnected` with the value if the receiver is
    /// gone.
    ///
    /// ```
    /// use uthread::sync::mpsc::{self, TrySendError};
    ///
    /// let (sender, receiver) = mpsc::sync_channel(1);
    /// assert_eq!(sender.try_send(1), Ok(()));
    /// assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
    /// drop(receiver);
    /// assert_eq!(sender.try_send(3), Err(TrySendError::Disconnected(3)));
    /// ```
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.channel.try_send(value)
    }
}

/// The receiving side of a [`channel`] or [`sync_channel`]. See the examples there. Dropping it
/// drops the values not yet received; waiting senders get theirs back.
///
/// It can be sent to other fibers and threads, but not shared:
///
/// ```compile_fail,E0277
/// let (sender, receiver) = uthread::sync::mpsc::channel::<i32>();
/// uthread::scope(|scope| {
///     scope.spawn(|| receiver.recv());
///     scope.spawn(|| receiver.recv());
/// });
/// ```
pub struct Receiver<T> {
    channel: Arc<Channel<T>>,
    /// Makes the receiver not `Sync`: the channel supports one waiting receiver.
    not_shared: PhantomData<Cell<()>>,
}

impl<T> Receiver<T> {
    fn new(channel: Arc<Channel<T>>) -> Receiver<T> {
        Receiver {
            channel,
            not_shared: PhantomData,
        }
    }

    /// Receives the next value, waiting for it if necessary.
    ///
    /// # Errors
    ///
    /// `RecvError` if all senders are gone and no value is left.
    ///
    /// ```
    /// use uthread::sync::mpsc::{self, RecvError};
    ///
    /// let (sender, receiver) = mpsc::channel();
    /// uthread::spawn(move || sender.send(1).unwrap());
    /// assert_eq!(receiver.recv(), Ok(1));
    /// assert_eq!(receiver.recv(), Err(RecvError));
    /// ```
    #[inline(always)]
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
    /// use uthread::sync::mpsc::{self, RecvTimeoutError};
    ///
    /// let (sender, receiver) = mpsc::channel();
    /// let soon = Duration::from_millis(5);
    /// assert_eq!(receiver.recv_timeout(soon), Err(RecvTimeoutError::Timeout));
    /// uthread::spawn(move || sender.send(1).unwrap());
    /// let late = Duration::from_secs(60);
    /// assert_eq!(receiver.recv_timeout(late), Ok(1));
    /// assert_eq!(receiver.recv_timeout(late), Err(RecvTimeoutError::Disconnected));
    /// ```
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_deadline(caller::after(caller::now(), timeout))
    }

    /// Receives the next value, waiting at most until `deadline`. `std` has this method in nightly
    /// builds.
    ///
    /// # Errors
    ///
    /// The errors of [`recv_timeout`](Receiver::recv_timeout).
    ///
    /// ```
    /// use uthread::sync::mpsc::{self, RecvTimeoutError};
    /// use uthread::time::Instant;
    ///
    /// let (sender, receiver) = mpsc::channel();
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
    /// use uthread::sync::mpsc::{self, TryRecvError};
    ///
    /// let (sender, receiver) = mpsc::channel();
    /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    /// sender.send(1).unwrap();
    /// drop(sender);
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
    /// ```
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.channel.try_recv()
    }

    /// Returns an iterator that waits for each value, until all senders are gone.
    ///
    /// ```
    /// let (sender, receiver) = uthread::sync::mpsc::sync_channel(3);
    /// uthread::spawn(move || (1..=10).for_each(|number| sender.send(number).unwrap()));
    /// assert_eq!(receiver.iter().sum::<i32>(), 55);
    /// ```
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// Returns an iterator over the values that are available without waiting.
    ///
    /// ```
    /// let (sender, receiver) = uthread::sync::mpsc::channel();
    /// assert_eq!(receiver.try_iter().next(), None);
    /// (1..=3).for_each(|number| sender.send(number).unwrap());
    /// assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2, 3]);
    /// ```
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }
}

impl_senders!(Sender, SyncSender);
impl_receiver!("mpsc");

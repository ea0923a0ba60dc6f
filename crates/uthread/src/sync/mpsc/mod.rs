//! Channels by the names of `std::sync::mpsc`: many senders, one receiver, between fibers and threads in
//! any mix.
//!
//! A fiber that must wait is suspended, and its worker runs others; a thread outside the runtime
//! blocks. The errors are `std`'s own types.
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
//! Senders that wait for room are served in the order in which they came. A fiber whose calls never have
//! to wait still lets the others of its worker run after 128 calls at the latest, also where these are
//! [`try_recv`](Receiver::try_recv) or [`try_send`](SyncSender::try_send).
//!
//! # Cancellation
//!
//! Once a fiber is [cancelled](crate::JoinHandle::cancel), its [time](crate::timeout) is over or its runtime
//! [dropped](crate::Runtime#dropping), a call that waits, or would have to, does not return but unwinds
//! the caller, as these errors have no room for that reason. A
//! value to be sent is dropped. In a destructor, where unwinding is no way out, the call returns as if
//! the other side were gone. Calls that need not wait work on.

mod channel;
mod selecting;

mod iter;

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

use super::select::{Receive, Transmit};
use crate::sched::wait;
use channel::Channel;
pub use iter::{IntoIter, Iter, TryIter};
use selecting::{Received, Sent};

/// The bound of a channel that has none: memory is one.
const UNBOUNDED: usize = usize::MAX;

/// A channel without a bound: [`Sender::send`] never waits, and what was sent and not received takes
/// memory. Better bound what can run ahead, with [`sync_channel`].
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

/// A channel that holds at most `bound` values: [`SyncSender::send`] waits while it is full. With bound 0
/// it waits until the value is received (a *rendezvous*).
///
/// Room is made as it is needed, so that a large bound costs nothing by itself.
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

/// The sending side of a [`channel`], as in the example there; clone it for more senders. When the last one is
/// dropped, the receiver gets what is left and then errors.
pub struct Sender<T> {
    channel: Arc<Channel<T>>,
}

impl<T> Sender<T> {
    /// Sends a value, without waiting.
    ///
    /// # Errors
    ///
    /// With the value, if the receiver is gone. `Ok` is no promise that it will be received: the
    /// receiver may be dropped later.
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
            // Without a bound it is never full.
            Err(TrySendError::Full(value) | TrySendError::Disconnected(value)) => {
                Err(SendError(value))
            }
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.channel.add_sender();
        Sender {
            channel: Arc::clone(&self.channel),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.channel.remove_sender();
    }
}

impl<'a, T> Transmit<'a, T> for &'a Sender<T> {
    type Event = Sent<'a, T>;

    fn event(self, value: &'a mut Option<T>) -> Sent<'a, T> {
        Sent::new(&self.channel, value)
    }
}

impl<T> UnwindSafe for Sender<T> {}
impl<T> RefUnwindSafe for Sender<T> {}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sender").finish_non_exhaustive()
    }
}

/// The sending side of a [`sync_channel`], as in the example there; otherwise as [`Sender`].
pub struct SyncSender<T> {
    channel: Arc<Channel<T>>,
}

impl<T> SyncSender<T> {
    /// Sends a value once there is room for it; with bound 0, once it is received.
    ///
    /// # Errors
    ///
    /// With the value, if the receiver is gone, or goes while the call waits.
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

    /// Sends a value if that needs no waiting: if there is room, or with bound 0 a receiver that waits.
    ///
    /// # Errors
    ///
    /// With the value, if there is no room or the receiver is gone.
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

impl<T> Clone for SyncSender<T> {
    fn clone(&self) -> SyncSender<T> {
        self.channel.add_sender();
        SyncSender {
            channel: Arc::clone(&self.channel),
        }
    }
}

impl<T> Drop for SyncSender<T> {
    fn drop(&mut self) {
        self.channel.remove_sender();
    }
}

impl<'a, T> Transmit<'a, T> for &'a SyncSender<T> {
    type Event = Sent<'a, T>;

    fn event(self, value: &'a mut Option<T>) -> Sent<'a, T> {
        Sent::new(&self.channel, value)
    }
}

impl<T> UnwindSafe for SyncSender<T> {}
impl<T> RefUnwindSafe for SyncSender<T> {}

impl<T> fmt::Debug for SyncSender<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SyncSender").finish_non_exhaustive()
    }
}

/// The receiving side of a [`channel`] or [`sync_channel`], as in the examples there. Dropped, it drops the
/// values not yet received, and senders that wait get theirs back.
///
/// It moves between fibers and threads, but only one at a time has it:
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
    /// The channel knows of one receiver that waits.
    not_shared: PhantomData<Cell<()>>,
}

impl<T> Receiver<T> {
    fn new(channel: Arc<Channel<T>>) -> Receiver<T> {
        Receiver {
            channel,
            not_shared: PhantomData,
        }
    }

    /// Receives the next value, waiting for it.
    ///
    /// # Errors
    ///
    /// When all senders are gone and nothing is left.
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

    /// Receives the next value, waiting for it so long at most.
    ///
    /// # Errors
    ///
    /// When none came in time, or all senders are gone and nothing is left.
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
        let deadline = wait::after(wait::now(), timeout);
        self.channel.recv_deadline(deadline)
    }

    /// Receives the next value if one is there, or with bound 0 if a sender waits.
    ///
    /// # Errors
    ///
    /// When nothing is there, now or for ever.
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

    /// What is received, until all senders are gone; waits for each value.
    ///
    /// ```
    /// let (sender, receiver) = uthread::sync::mpsc::sync_channel(3);
    /// uthread::spawn(move || (1..=10).for_each(|number| sender.send(number).unwrap()));
    /// assert_eq!(receiver.iter().sum::<i32>(), 55);
    /// ```
    pub fn iter(&self) -> Iter<'_, T> {
        Iter::new(self)
    }

    /// What can be received without waiting.
    ///
    /// ```
    /// let (sender, receiver) = uthread::sync::mpsc::channel();
    /// assert_eq!(receiver.try_iter().next(), None);
    /// (1..=3).for_each(|number| sender.send(number).unwrap());
    /// assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2, 3]);
    /// ```
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter::new(self)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.channel.remove_receiver();
    }
}

impl<'a, T> Receive for &'a Receiver<T> {
    type Event = Received<'a, T>;

    fn event(self) -> Received<'a, T> {
        Received::new(&self.channel)
    }
}

impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Receiver").finish_non_exhaustive()
    }
}

//! A channel for a single value: the future of a value that another fiber or thread will deliver.
//!
//! The names are those of `std::sync::oneshot`, which is not stable yet. A channel is one
//! allocation, and sending and receiving take no lock. If several waiters need the value, use a
//! [`promise`](super::promise).
//!
//! ```
//! use uthread::sync::oneshot;
//!
//! let (sender, receiver) = oneshot::channel();
//! uthread::spawn(move || sender.send("the answer").unwrap());
//! assert_eq!(receiver.recv(), Ok("the answer"));
//! ```
//!
//! | event | effect | wakes |
//! | --- | --- | --- |
//! | [`Sender::send`] | stores the value, or returns it if the receiver is gone | the receiver |
//! | the sender is dropped | disconnects the channel | the receiver |
//! | the receiver is dropped | fails a later send, or drops the stored value | nobody: a sender never waits |
//!
//! A cancelled receiver is unwound, as with [`mpsc`](super::mpsc#cancellation).

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

pub use std::sync::mpsc::{RecvError, SendError};

use super::selection::{ArmHandle, Event, Receive};
use crate::fiber::Outcome;
use crate::sched::caller::{self, cancellation, turn, wait};

/// Creates a channel for one value.
///
/// ```
/// let (sender, receiver) = uthread::sync::oneshot::channel();
/// sender.send(1).unwrap();
/// assert_eq!(receiver.recv(), Ok(1));
/// ```
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let outcome = Arc::new(Outcome::new());
    let sender = Sender {
        outcome: Some(Arc::clone(&outcome)),
    };
    (sender, Receiver { outcome })
}

/// The sending side of a [`channel`]. See the example there. Dropping it ends the receiver's wait
/// with an error.
///
/// It can send only once:
///
/// ```compile_fail,E0382
/// let (sender, _receiver) = uthread::sync::oneshot::channel();
/// sender.send(1);
/// sender.send(2);
/// ```
pub struct Sender<T> {
    /// `None` once the value was sent. An outcome of `None` means that the sender was dropped.
    outcome: Option<Arc<Outcome<Option<T>>>>,
}

impl<T> Sender<T> {
    /// Sends the value without waiting.
    ///
    /// # Errors
    ///
    /// `SendError` with the value if the receiver is gone. `Ok` does not guarantee that the value
    /// is received.
    ///
    /// ```
    /// use uthread::sync::oneshot::{self, SendError};
    ///
    /// let (sender, receiver) = oneshot::channel();
    /// drop(receiver);
    /// assert_eq!(sender.send(1), Err(SendError(1)));
    /// ```
    pub fn send(mut self, value: T) -> Result<(), SendError<T>> {
        let outcome = self.outcome.take().expect("a sender sends once");
        match outcome.deliver(Some(value)).flatten() {
            Some(value) => Err(SendError(value)),
            None => Ok(()),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if let Some(outcome) = &self.outcome {
            outcome.deliver(None);
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sender").finish_non_exhaustive()
    }
}

/// The receiving side of a [`channel`]. See the example there. Dropping it drops a value that was
/// sent: a panic of its destructor passes through, as with [`mpsc`](super::mpsc).
///
/// A method that consumes the receiver without receiving a value returns the receiver in its error.
/// To wait for several events, lend the receiver to [`select!`](crate::select):
/// `recv(&mut receiver)`.
///
/// It can receive only once:
///
/// ```compile_fail,E0382
/// let (_sender, receiver) = uthread::sync::oneshot::channel::<i32>();
/// receiver.recv();
/// receiver.recv();
/// ```
///
/// Its type must be `Send` for the value to move between fibers:
///
/// ```compile_fail,E0277
/// let (sender, receiver) = uthread::sync::oneshot::channel();
/// uthread::spawn(move || receiver.recv().map(drop));
/// sender.send(std::rc::Rc::new(1)).unwrap();
/// ```
pub struct Receiver<T> {
    outcome: Arc<Outcome<Option<T>>>,
}

impl<T> Receiver<T> {
    /// Receives the value, waiting for it if necessary.
    ///
    /// # Errors
    ///
    /// `RecvError` if the sender is dropped without sending a value.
    ///
    /// ```
    /// use uthread::sync::oneshot::{self, RecvError};
    ///
    /// let (sender, receiver) = oneshot::channel::<i32>();
    /// uthread::spawn(move || drop(sender));
    /// assert_eq!(receiver.recv(), Err(RecvError));
    /// ```
    pub fn recv(self) -> Result<T, RecvError> {
        turn::spend();
        while !self.has_come() {
            let may_wait = wait::park_unless_cancelled();
            self.outcome.withdraw();
            if cancellation::is_cancelled() {
                cancellation::vanish_if_abandoned(cancellation::IN_A_CALL);
            }
            if !may_wait && !self.outcome.is_done() {
                cancellation::unwind_if_cancelled();
                return Err(RecvError);
            }
        }
        self.take()
    }

    /// Receives the value, waiting at most for the given time.
    ///
    /// # Errors
    ///
    /// `Timeout` with the receiver if no value arrives in time; `Disconnected` if the sender is
    /// dropped without sending a value.
    ///
    /// ```
    /// use std::time::Duration;
    /// use uthread::sync::oneshot::{self, RecvTimeoutError};
    ///
    /// let (sender, receiver) = oneshot::channel();
    /// let Err(RecvTimeoutError::Timeout(receiver)) = receiver.recv_timeout(Duration::ZERO) else {
    ///     panic!("nothing was sent")
    /// };
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.recv_timeout(Duration::ZERO).unwrap(), 1);
    /// ```
    pub fn recv_timeout(self, timeout: Duration) -> Result<T, RecvTimeoutError<T>> {
        turn::spend();
        let deadline = caller::after(caller::now(), timeout);
        if wait::await_outcome(&self.outcome, deadline) {
            self.take().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            Err(RecvTimeoutError::Timeout(self))
        }
    }

    /// Receives the value without waiting.
    ///
    /// # Errors
    ///
    /// `Empty` with the receiver if no value was sent yet; `Disconnected` if the sender is dropped
    /// without sending a value.
    ///
    /// ```
    /// use uthread::sync::oneshot::{self, TryRecvError};
    ///
    /// let (sender, receiver) = oneshot::channel::<i32>();
    /// let Err(TryRecvError::Empty(receiver)) = receiver.try_recv() else {
    ///     panic!("nothing was sent")
    /// };
    /// drop(sender);
    /// assert!(matches!(receiver.try_recv(), Err(TryRecvError::Disconnected)));
    /// ```
    pub fn try_recv(self) -> Result<T, TryRecvError<T>> {
        turn::spend();
        if self.outcome.is_done() {
            self.take().map_err(|_| TryRecvError::Disconnected)
        } else {
            Err(TryRecvError::Empty(self))
        }
    }

    /// Returns `true` if the channel has a value or is disconnected. Otherwise the caller will be
    /// woken for either.
    fn has_come(&self) -> bool {
        self.outcome.is_done() || !self.outcome.await_done(caller::wake_handle())
    }

    /// Returns the value. Fails if the sender is gone, or if the value was taken before.
    fn take(&self) -> Result<T, RecvError> {
        self.outcome.take_value().flatten().ok_or(RecvError)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        drop(self.outcome.abandon());
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Receiver").finish_non_exhaustive()
    }
}

/// The reason why [`Receiver::try_recv`] has returned no value. See the example there.
#[allow(clippy::exhaustive_enums, reason = "programs match or construct it")]
pub enum TryRecvError<T> {
    /// No value was sent yet.
    Empty(Receiver<T>),
    /// The sender is gone.
    Disconnected,
}

impl<T> fmt::Display for TryRecvError<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryRecvError::Empty(_) => mpsc::TryRecvError::Empty.fmt(formatter),
            TryRecvError::Disconnected => mpsc::TryRecvError::Disconnected.fmt(formatter),
        }
    }
}

impl<T> fmt::Debug for TryRecvError<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryRecvError::Empty(_) => formatter.write_str("Empty(..)"),
            TryRecvError::Disconnected => formatter.write_str("Disconnected"),
        }
    }
}

impl<T> std::error::Error for TryRecvError<T> {}

/// The reason why [`Receiver::recv_timeout`] has returned no value. See the example there.
#[allow(clippy::exhaustive_enums, reason = "programs match or construct it")]
pub enum RecvTimeoutError<T> {
    /// No value arrived in time.
    Timeout(Receiver<T>),
    /// The sender is gone.
    Disconnected,
}

impl<T> fmt::Display for RecvTimeoutError<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvTimeoutError::Timeout(_) => mpsc::RecvTimeoutError::Timeout.fmt(formatter),
            RecvTimeoutError::Disconnected => mpsc::RecvTimeoutError::Disconnected.fmt(formatter),
        }
    }
}

impl<T> fmt::Debug for RecvTimeoutError<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvTimeoutError::Timeout(_) => formatter.write_str("Timeout(..)"),
            RecvTimeoutError::Disconnected => formatter.write_str("Disconnected"),
        }
    }
}

impl<T> std::error::Error for RecvTimeoutError<T> {}

impl<T> UnwindSafe for Sender<T> {}
impl<T> RefUnwindSafe for Sender<T> {}
impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}

impl<T> Receive for &mut Receiver<T> {
    type Event = Self;

    fn event(self) -> Self {
        self
    }
}

impl<T> Event for &mut Receiver<T> {
    type Output = Result<T, RecvError>;

    fn try_complete(&mut self) -> Option<Result<T, RecvError>> {
        self.outcome.is_done().then(|| self.take())
    }

    fn enlist(&mut self, handle: ArmHandle) -> bool {
        self.outcome.await_done(handle.wake_handle())
    }

    fn withdraw(&mut self) {
        self.outcome.withdraw();
    }

    fn cut_off(&mut self) -> Result<T, RecvError> {
        Err(RecvError)
    }
}

//! Broadcast channels: each receiver gets every value. The names are those of Tokio's
//! `sync::broadcast`.
//!
//! A channel keeps a fixed number of values. Senders never wait: a receiver that is too slow loses
//! the oldest values, and learns how many.
//!
//! ```
//! use uthread::sync::broadcast;
//!
//! let (sender, mut receiver) = broadcast::channel(16);
//! let mut other = sender.subscribe();
//! sender.send("to all").unwrap();
//! assert_eq!(receiver.recv(), Ok("to all"));
//! assert_eq!(other.recv(), Ok("to all"));
//! ```
//!
//! | event | effect | wakes |
//! | --- | --- | --- |
//! | [`Sender::send`] | appends a value; drops the oldest if the channel is full | all waiting receivers |
//! | [`Receiver::recv`] | takes the receiver's next value, and removes it from the channel if no other receiver needs it | nobody: senders never wait |
//! | the last sender is dropped | closes the channel; remaining values can be received | all waiting receivers |
//!
//! A cancelled receiver is unwound, as with [`mpsc`](super::mpsc#cancellation).

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

pub use std::sync::mpsc::SendError;

use super::change::{Change, Notified};
use super::notify_mutex::{NotifyMutex, WaiterId};
use super::selection::{ArmHandle, Receive};
use crate::sched::caller::{self, turn};

struct Ring<T> {
    /// The values that some receiver has not received yet, in order; the last one is at position
    /// `next - 1`. At most `capacity`.
    values: VecDeque<Slot<T>>,
    capacity: usize,
    /// The position of the next value, which is the number of values sent so far.
    next: u64,
    senders: usize,
    receivers: usize,
}

struct Slot<T> {
    value: Arc<T>,
    /// Number of receivers that have not received this value. Never smaller than that of an older
    /// value.
    receivers: usize,
}

/// Creates a channel that keeps the last `capacity` values for receivers that have not received
/// them yet.
///
/// Each value is allocated separately, and space for the values is allocated as needed.
///
/// # Panics
///
/// Panics if `capacity` is zero.
///
/// ```
/// let (sender, mut receiver) = uthread::sync::broadcast::channel(2);
/// sender.send(1).unwrap();
/// assert_eq!(receiver.recv(), Ok(1));
/// ```
#[must_use]
#[track_caller]
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(
        capacity > 0,
        "the capacity of a broadcast channel must not be zero"
    );
    let ring = Arc::new(NotifyMutex::new(Ring {
        values: VecDeque::new(),
        capacity,
        next: 0,
        senders: 1,
        receivers: 1,
    }));
    let receiver = Receiver {
        ring: Arc::clone(&ring),
        position: 0,
    };
    (Sender { ring }, receiver)
}

/// The sending side of a [`channel`]. Clone it for more senders. See the example there.
///
/// Receivers share the values, so the type must be `Sync`:
///
/// ```compile_fail,E0277
/// let (sender, _receiver) = uthread::sync::broadcast::channel(1);
/// uthread::spawn(move || sender.send(std::cell::Cell::new(1)).is_ok());
/// ```
pub struct Sender<T> {
    ring: Arc<NotifyMutex<Ring<T>>>,
}

impl<T> Sender<T> {
    /// Sends a value to all current receivers, without waiting. Returns their number.
    ///
    /// # Errors
    ///
    /// `SendError` with the value if there is no receiver. More receivers can
    /// [subscribe](Sender::subscribe) later.
    ///
    /// ```
    /// use uthread::sync::broadcast::{self, SendError};
    ///
    /// let (sender, receiver) = broadcast::channel(1);
    /// assert_eq!(sender.send(1), Ok(1));
    /// drop(receiver);
    /// assert_eq!(sender.send(2), Err(SendError(2)));
    /// ```
    pub fn send(&self, value: T) -> Result<usize, SendError<T>> {
        turn::spend();
        let value = Arc::new(value);
        let sent = self.ring.change(|ring| match ring.receivers {
            0 => Err(value),
            receivers => Ok((receivers, ring.push(value))),
        });
        match sent {
            Ok((receivers, _oldest)) => Ok(receivers),
            Err(value) => Err(SendError(
                Arc::into_inner(value).expect("no receiver has seen the value"),
            )),
        }
    }

    /// Creates a receiver of the values that are sent from now on.
    ///
    /// ```
    /// let (sender, _receiver) = uthread::sync::broadcast::channel(2);
    /// sender.send(1).unwrap();
    /// let mut late = sender.subscribe();
    /// sender.send(2).unwrap();
    /// assert_eq!(late.recv(), Ok(2));
    /// ```
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        let position = self.ring.with(|ring| {
            ring.receivers += 1;
            ring.next
        });
        Receiver {
            ring: Arc::clone(&self.ring),
            position,
        }
    }

    /// Returns the number of receivers.
    ///
    /// ```
    /// let (sender, _receiver) = uthread::sync::broadcast::channel::<i32>(1);
    /// assert_eq!(sender.receiver_count(), 1);
    /// ```
    #[must_use]
    pub fn receiver_count(&self) -> usize {
        self.ring.with(|ring| ring.receivers)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.ring.with(|ring| ring.senders += 1);
        Sender {
            ring: Arc::clone(&self.ring),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let ended = self.ring.with(|ring| {
            ring.senders -= 1;
            ring.senders == 0
        });
        if ended {
            self.ring.change(|_| ());
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sender").finish_non_exhaustive()
    }
}

/// The receiving side of a [`channel`]. See the example there.
pub struct Receiver<T> {
    ring: Arc<NotifyMutex<Ring<T>>>,
    /// The position of the next value to receive.
    position: u64,
}

impl<T: Clone> Receiver<T> {
    /// Receives the next value, waiting for it if necessary. The last receiver of a value gets the
    /// value itself, others a clone.
    ///
    /// # Errors
    ///
    /// `Lagged` with the number of values that this receiver has missed; the next call returns the
    /// oldest value that is left. `Closed` if all senders are dropped and no value is left.
    ///
    /// ```
    /// use uthread::sync::broadcast::{self, RecvError};
    ///
    /// let (sender, mut receiver) = broadcast::channel(2);
    /// uthread::spawn(move || assert!((1..=3).all(|n| sender.send(n).is_ok()))).join().unwrap();
    /// assert_eq!(receiver.recv(), Err(RecvError::Lagged(1)));
    /// assert_eq!(receiver.recv(), Ok(2));
    /// assert_eq!(receiver.recv(), Ok(3));
    /// assert_eq!(receiver.recv(), Err(RecvError::Closed));
    /// ```
    pub fn recv(&mut self) -> Result<T, RecvError> {
        match self.recv_until(None) {
            Ok(value) => Ok(value),
            Err(RecvTimeoutError::Lagged(missed)) => Err(RecvError::Lagged(missed)),
            Err(RecvTimeoutError::Closed | RecvTimeoutError::Timeout) => Err(RecvError::Closed),
        }
    }

    /// Receives the next value, waiting at most for `timeout`.
    ///
    /// # Errors
    ///
    /// `Timeout` if no value arrives in time; `Lagged` and `Closed` as for
    /// [`recv`](Receiver::recv).
    ///
    /// ```
    /// use std::time::Duration;
    /// use uthread::sync::broadcast::{self, RecvTimeoutError};
    ///
    /// let (_sender, mut receiver) = broadcast::channel::<i32>(2);
    /// let soon = Duration::from_millis(1);
    /// assert_eq!(receiver.recv_timeout(soon), Err(RecvTimeoutError::Timeout));
    /// ```
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_until(Some(caller::after(caller::now(), timeout)))
    }

    fn recv_until(&mut self, deadline: Option<Instant>) -> Result<T, RecvTimeoutError> {
        let position = &mut self.position;
        let taken = self.ring.wait(deadline, |ring| ring.take(position));
        match taken {
            Ok(taken) => Ok(clone_of(taken?)),
            Err(mpsc::RecvTimeoutError::Timeout) => Err(RecvTimeoutError::Timeout),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(RecvTimeoutError::Closed),
        }
    }

    /// Receives the next value without waiting.
    ///
    /// # Errors
    ///
    /// `Empty` if there is no value yet; `Lagged` and `Closed` as for [`recv`](Receiver::recv).
    ///
    /// ```
    /// use uthread::sync::broadcast::{self, TryRecvError};
    ///
    /// let (sender, mut receiver) = broadcast::channel(2);
    /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// ```
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        turn::spend();
        match self.take() {
            Some(Ok(value)) => Ok(value),
            Some(Err(RecvError::Lagged(missed))) => Err(TryRecvError::Lagged(missed)),
            Some(Err(RecvError::Closed)) => Err(TryRecvError::Closed),
            None => Err(TryRecvError::Empty),
        }
    }

    fn take(&mut self) -> Option<Result<T, RecvError>> {
        let position = &mut self.position;
        let taken = self.ring.with(|ring| ring.take(position))?;
        Some(taken.map(clone_of))
    }
}

/// Returns the value, or a clone if others hold it too. Called without the lock: cloning and
/// dropping run user code.
fn clone_of<T: Clone>(value: Arc<T>) -> T {
    Arc::unwrap_or_clone(value)
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let _unread = self.ring.with(|ring| ring.leave(self.position));
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Receiver").finish_non_exhaustive()
    }
}

impl<T> Ring<T> {
    /// Returns the position of the oldest value.
    fn oldest(&self) -> u64 {
        self.next - self.values.len() as u64
    }

    /// Appends a value for all receivers, and returns the oldest value if it had to be removed.
    fn push(&mut self, value: Arc<T>) -> Option<Slot<T>> {
        let is_full = self.values.len() == self.capacity;
        let lost = is_full.then(|| self.values.pop_front()).flatten();
        self.values.push_back(Slot {
            value,
            receivers: self.receivers,
        });
        self.next += 1;
        lost
    }

    fn has_something(&self, position: u64) -> bool {
        position < self.next || self.senders == 0
    }

    /// Returns the next value of a receiver, or an error, and advances its position. Returns `None`
    /// if the receiver has to wait.
    fn take(&mut self, position: &mut u64) -> Option<Result<Arc<T>, RecvError>> {
        if !self.has_something(*position) {
            return None;
        }
        let oldest = self.oldest();
        if let Some(missed) = oldest.checked_sub(*position).filter(|missed| *missed > 0) {
            *position = oldest;
            return Some(Err(RecvError::Lagged(missed)));
        }
        let Some(slot) = self.values.get_mut((*position - oldest) as usize) else {
            return Some(Err(RecvError::Closed));
        };
        *position += 1;
        slot.receivers -= 1;
        if slot.receivers > 0 {
            return Some(Ok(Arc::clone(&slot.value)));
        }
        // All receivers have received the older values, so this one is at the front.
        let received = self.values.pop_front();
        received.map(|slot| Ok(slot.value))
    }

    /// Removes a receiver at this position, and returns the values that no other receiver needs.
    fn leave(&mut self, position: u64) -> Vec<Slot<T>> {
        self.receivers -= 1;
        let first = position.saturating_sub(self.oldest()) as usize;
        self.values
            .iter_mut()
            .skip(first)
            .for_each(|slot| slot.receivers -= 1);
        let received = self.values.partition_point(|slot| slot.receivers == 0);
        self.values.drain(..received).collect()
    }
}

impl<T: Clone> Receive for &mut Receiver<T> {
    type Event = Change<Self>;

    fn event(self) -> Change<Self> {
        Change::new(self)
    }
}

impl<T: Clone> Notified for &mut Receiver<T> {
    type Output = Result<T, RecvError>;

    fn take(&mut self) -> Option<Result<T, RecvError>> {
        Receiver::take(self)
    }

    fn enlist(&self, handle: ArmHandle) -> Option<WaiterId> {
        let ready = |ring: &Ring<T>| ring.has_something(self.position);
        self.ring.enlist(|| handle.wake_handle(), ready)
    }

    fn withdraw(&self, id: WaiterId) {
        self.ring.withdraw(id);
    }

    fn closed() -> Result<T, RecvError> {
        Err(RecvError::Closed)
    }
}

/// The reason why [`Receiver::recv`] has returned no value. See the example there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "programs match or construct it")]
pub enum RecvError {
    /// All senders are dropped, and no value is left.
    Closed,
    /// The receiver was too slow and has missed this number of values.
    Lagged(u64),
}

/// The reason why [`Receiver::try_recv`] has returned no value. See the example there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "programs match or construct it")]
pub enum TryRecvError {
    /// There is no value yet.
    Empty,
    /// All senders are dropped, and no value is left.
    Closed,
    /// The receiver was too slow and has missed this number of values.
    Lagged(u64),
}

/// The reason why [`Receiver::recv_timeout`] has returned no value. See the example there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "programs match or construct it")]
pub enum RecvTimeoutError {
    /// No value arrived in time.
    Timeout,
    /// All senders are dropped, and no value is left.
    Closed,
    /// The receiver was too slow and has missed this number of values.
    Lagged(u64),
}

impl From<RecvError> for RecvTimeoutError {
    fn from(error: RecvError) -> RecvTimeoutError {
        match error {
            RecvError::Closed => RecvTimeoutError::Closed,
            RecvError::Lagged(missed) => RecvTimeoutError::Lagged(missed),
        }
    }
}

const CLOSED: &str = "receiving on a closed broadcast";

fn lagged(missed: u64, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(formatter, "the receiver lagged behind by {missed} values")
}

impl fmt::Display for RecvError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::Closed => formatter.write_str(CLOSED),
            RecvError::Lagged(missed) => lagged(*missed, formatter),
        }
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryRecvError::Empty => formatter.write_str("receiving on an empty broadcast"),
            TryRecvError::Closed => formatter.write_str(CLOSED),
            TryRecvError::Lagged(missed) => lagged(*missed, formatter),
        }
    }
}

impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvTimeoutError::Timeout => formatter.write_str("timed out waiting on a broadcast"),
            RecvTimeoutError::Closed => formatter.write_str(CLOSED),
            RecvTimeoutError::Lagged(missed) => lagged(*missed, formatter),
        }
    }
}

impl std::error::Error for RecvError {}
impl std::error::Error for TryRecvError {}
impl std::error::Error for RecvTimeoutError {}

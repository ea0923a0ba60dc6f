//! Receiving from a channel that has several receivers, and its arm of a selection.

use std::sync::mpsc::{RecvError, RecvTimeoutError, TryRecvError, TrySendError};
use std::time::Instant;

use super::channel::{Channel, ROOM_KEPT_MAX, Receiving, State};
use super::receivers::Receivers;
use super::side::Side;
use crate::atomic::MutexGuard;
use crate::sched::caller::{self, cancellation, turn, wait};
use crate::sync::notify_mutex::{Attempt, retry_until};
use crate::sync::selection::{ArmHandle, Event};

impl<T> Channel<T> {
    /// Creates a channel with one sender and the first of several receivers.
    pub(crate) fn shared(bound: usize) -> Channel<T> {
        let channel = Channel::new(bound);
        let mut state = channel.lock();
        state.receiver = Receiving::Several;
        state.receivers = Some(Box::new(Receivers::one()));
        drop(state);
        channel
    }

    /// Sends a value, waiting at most until the deadline. Returns `Full` if there was no space
    /// until then.
    /// Returns the number of values that wait to be received, without those of senders that wait
    /// for space.
    pub(crate) fn len(&self) -> usize {
        self.lock().queue.len().min(self.bound)
    }

    pub(crate) fn send_deadline(&self, value: T, deadline: Instant) -> Result<(), TrySendError<T>> {
        turn::spend();
        let Some(ticket) = self.put_or_join_line(value)? else {
            return Ok(());
        };
        loop {
            let shut_down = cancellation::is_cancelled();
            let may_wait = !shut_down && caller::now() < deadline;
            let mut state = self.lock();
            if !state.is_in_line(ticket) {
                drop(state);
                if shut_down {
                    cancellation::vanish_if_abandoned(cancellation::IN_A_CALL);
                }
                return Ok(());
            }
            if state.receiver_gone {
                return Err(TrySendError::Disconnected(state.leave_line(ticket)));
            }
            if !may_wait {
                let value = state.leave_line(ticket);
                drop(state);
                if shut_down {
                    cancellation::vanish_if_abandoned(cancellation::IN_A_CALL);
                    cancellation::count_early_end();
                }
                return Err(TrySendError::Full(value));
            }
            drop(state);
            wait::park_deadline(deadline);
        }
    }

    /// Receives a value, waiting at most until the deadline.
    ///
    /// # Errors
    ///
    /// `Timeout` at the deadline, or, if there is one, when the caller is cancelled; `Disconnected`
    /// if all senders are gone, or if the caller is cancelled but cannot be unwound.
    pub(crate) fn recv_shared(&self, deadline: Option<Instant>) -> Result<T, RecvTimeoutError> {
        let mut ticket = None;
        retry_until(deadline, |attempt| {
            self.receive_shared(&mut ticket, attempt)
        })?
        .map_err(RecvTimeoutError::from)
    }

    /// Takes a value, or reports that all senders are gone. Returns `None` if there is neither, and
    /// enlists the caller if it may wait.
    fn receive_shared(
        &self,
        ticket: &mut Option<u64>,
        attempt: Attempt,
    ) -> Option<Result<T, RecvError>> {
        let mut state = self.lock();
        if attempt == Attempt::Leave {
            self.leave_shared(state, ticket.take()?);
            return None;
        }
        let result = state.take_shared(self.bound);
        let waits = attempt == Attempt::Wait && result.is_none();
        let receivers = state.receivers();
        let waiting = ticket.filter(|ticket| receivers.is_waiting(*ticket));
        match (waiting, waits) {
            (None, true) => *ticket = Some(receivers.enlist(Side::Waits(caller::wake_handle()))),
            (Some(ticket), false) => receivers.withdraw(ticket),
            _ => {}
        }
        drop(state);
        Some(result?.map(Taken::hand_over))
    }

    /// Removes an abandoned receiver. If it was chosen for a value, chooses another one.
    #[cold]
    fn leave_shared(&self, mut state: MutexGuard<'_, State<T>>, ticket: u64) {
        let has_value = state.queue.len() > state.receivers().reserved();
        let receivers = state.receivers();
        let mut chosen = None;
        if receivers.is_waiting(ticket) {
            receivers.withdraw(ticket);
        } else if has_value {
            chosen = receivers.take_chosen();
        }
        drop(state);
        chosen.iter().for_each(Side::wake);
    }

    pub(crate) fn try_recv_shared(&self) -> Result<T, TryRecvError> {
        turn::spend();
        let taken = self.lock().take_shared(self.bound);
        match taken {
            Some(Ok(taken)) => Ok(taken.hand_over()),
            Some(Err(RecvError)) => Err(TryRecvError::Disconnected),
            None => Err(TryRecvError::Empty),
        }
    }

    /// Counts a new receiver.
    pub(crate) fn add_receiver(&self) {
        self.lock().receivers().count += 1;
    }

    /// Counts a dropped receiver. The last one closes the channel.
    pub(crate) fn remove_shared_receiver(&self) {
        let mut state = self.lock();
        let receivers = state.receivers();
        receivers.count -= 1;
        let is_last = receivers.count == 0;
        drop(state);
        if is_last {
            self.remove_receiver();
        }
    }
}

/// A value that was taken, and the sender whose value has left the line, if any.
struct Taken<T> {
    value: T,
    sender: Option<Side>,
}

impl<T> Taken<T> {
    /// Wakes the sender and returns the value. Called without the lock.
    fn hand_over(self) -> T {
        if let Some(sender) = self.sender {
            sender.wake();
        }
        self.value
    }
}

impl<T> State<T> {
    /// Takes a value that is not reserved, or reports that all senders are gone. Returns `None` if
    /// there is neither.
    fn take_shared(&mut self, bound: usize) -> Option<Result<Taken<T>, RecvError>> {
        if self.queue.len() > self.receivers().reserved() {
            return self.take_front(bound).map(Ok);
        }
        if let Some(first) = self.take_first() {
            // The reserved values are older.
            self.queue.push_back(first.value);
            let sender = first.sender;
            let value = self.queue.pop_front()?;
            return Some(Ok(Taken { value, sender }));
        }
        (self.senders == 0).then_some(Err(RecvError))
    }

    /// Takes the first value of the queue: moves the first value of the line up, or frees the
    /// memory of a burst.
    fn take_front(&mut self, bound: usize) -> Option<Taken<T>> {
        let value = self.queue.pop_front()?;
        let mut sender = None;
        if self.queue.len() < bound
            && let Some(first) = self.take_first()
        {
            self.queue.push_back(first.value);
            sender = first.sender;
        } else if self.queue.is_empty() && self.queue.capacity() > ROOM_KEPT_MAX {
            self.queue = std::collections::VecDeque::new();
        }
        Some(Taken { value, sender })
    }
}

/// The event that one of several receivers can receive a value.
pub struct SharedReceived<'a, T> {
    channel: &'a Channel<T>,
    /// The ticket of the receiver while it is enlisted.
    ticket: Option<u64>,
}

impl<'a, T> SharedReceived<'a, T> {
    pub(crate) fn new(channel: &'a Channel<T>) -> SharedReceived<'a, T> {
        SharedReceived {
            channel,
            ticket: None,
        }
    }
}

impl<T> Event for SharedReceived<'_, T> {
    type Output = Result<T, RecvError>;

    fn try_complete(&mut self) -> Option<Result<T, RecvError>> {
        let taken = self.channel.lock().take_shared(self.channel.bound)?;
        Some(taken.map(Taken::hand_over))
    }

    fn enlist(&mut self, handle: ArmHandle) -> bool {
        let mut state = self.channel.lock();
        let has_come = state.queue.len() > state.receivers().reserved()
            || state.senders == 0
            || state.line.iter().any(|in_line| {
                let sender = in_line.sender.as_ref();
                sender.is_none_or(|sender| sender.may_meet(&handle))
            });
        if !has_come {
            self.ticket = Some(state.receivers().enlist(Side::Selects(handle)));
        }
        !has_come
    }

    fn withdraw(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.channel.lock().receivers().withdraw(ticket);
        }
    }

    fn claimed(&mut self) -> Result<T, RecvError> {
        self.ticket = None;
        let mut state = self.channel.lock();
        state.receivers().redeem();
        let taken = state.take_front(self.channel.bound);
        drop(state);
        Ok(taken.expect("a value is reserved for it").hand_over())
    }

    fn cut_off(&mut self) -> Result<T, RecvError> {
        Err(RecvError)
    }
}

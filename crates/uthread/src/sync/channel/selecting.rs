//! The ends of a channel as arms of a selection.
//!
//! A selection that enlists may meet a blocked sender or a waiting receiver at once. It does not
//! meet another selection that has just ended, which will try again and find this one enlisted; nor
//! does a selection that has both ends as arms meet itself.

use std::sync::mpsc::{RecvError, SendError, TryRecvError, TrySendError};

use super::waiter::Waiter;
use super::{Channel, Taken};
use crate::sync::selection::{ArmHandle, Event};

/// The event that a value can be received.
pub struct Received<'a, T> {
    channel: &'a Channel<T>,
    /// The ticket of the receiver while it is enlisted.
    ticket: Option<u64>,
}

impl<'a, T> Received<'a, T> {
    pub(crate) fn new(channel: &'a Channel<T>) -> Received<'a, T> {
        Received {
            channel,
            ticket: None,
        }
    }
}

impl<T> Event for Received<'_, T> {
    type Output = Result<T, RecvError>;

    fn try_complete(&mut self) -> Option<Result<T, RecvError>> {
        match self.channel.try_recv_unspent() {
            Ok(value) => Some(Ok(value)),
            Err(TryRecvError::Disconnected) => Some(Err(RecvError)),
            Err(TryRecvError::Empty) => None,
        }
    }

    fn enlist(&mut self, handle: ArmHandle) -> bool {
        let mut state = self.channel.lock();
        let has_come = state.has_free_value()
            || state.senders == 0
            || state.blocked.any(|sender| sender.may_meet(&handle));
        if !has_come {
            self.ticket = Some(state.waiting.add(Waiter::Selects(handle)));
        }
        !has_come
    }

    fn withdraw(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.channel.lock().waiting.withdraw(ticket);
        }
    }

    fn claimed(&mut self) -> Result<T, RecvError> {
        self.ticket = None;
        let mut state = self.channel.lock();
        state.waiting.redeem();
        match self.channel.take(state, &mut None) {
            Taken::Value(value) => Ok(value),
            Taken::Closed | Taken::Nothing(_) => unreachable!("a value was reserved for it"),
        }
    }

    fn cut_off(&mut self) -> Result<T, RecvError> {
        Err(RecvError)
    }
}

/// The event that a value was sent.
pub struct Sent<'a, T> {
    channel: &'a Channel<T>,
    value: &'a mut Option<T>,
    /// The ticket of the value while the sender is enlisted.
    ticket: Option<u64>,
}

impl<'a, T> Sent<'a, T> {
    pub(crate) fn new(channel: &'a Channel<T>, value: &'a mut Option<T>) -> Sent<'a, T> {
        Sent {
            channel,
            value,
            ticket: None,
        }
    }
}

impl<T> Event for Sent<'_, T> {
    type Output = Result<(), SendError<T>>;

    fn try_complete(&mut self) -> Option<Result<(), SendError<T>>> {
        match self.channel.try_send_unspent(self.value.take()?) {
            Ok(()) => Some(Ok(())),
            Err(TrySendError::Disconnected(value)) => Some(Err(SendError(value))),
            Err(TrySendError::Full(value)) => {
                *self.value = Some(value);
                None
            }
        }
    }

    fn enlist(&mut self, handle: ArmHandle) -> bool {
        let mut state = self.channel.lock();
        let may_come = state.receivers == 0
            || state.queue.len() < self.channel.bound
            || self.channel.can_wake_usual(&state)
            || state.waiting.may_meet(&handle);
        if may_come {
            return false;
        }
        let value = self.value.take();
        self.ticket = value.map(|value| state.blocked.add(value, Waiter::Selects(handle)));
        true
    }

    fn withdraw(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            *self.value = self.channel.lock().blocked.remove(ticket);
        }
    }

    fn claimed(&mut self) -> Result<(), SendError<T>> {
        self.ticket = None;
        Ok(())
    }

    fn cut_off(&mut self) -> Result<(), SendError<T>> {
        self.value
            .take()
            .map_or(Ok(()), |value| Err(SendError(value)))
    }
}

//! The ends of a channel as arms of a selection.
//!
//! A selection that enlists may meet a value in the line or a waiting receiver at once. It does not
//! meet another selection that has just ended, which will try again and find this one enlisted; nor
//! does a selection that has both ends as arms meet itself.

use std::sync::mpsc::{RecvError, SendError, TryRecvError, TrySendError};

use super::channel::{Channel, Receiving};
use super::side::Side;
use crate::sync::selection::{ArmHandle, Event};

/// The event that a value can be received.
pub struct Received<'a, T> {
    channel: &'a Channel<T>,
}

impl<'a, T> Received<'a, T> {
    pub(crate) fn new(channel: &'a Channel<T>) -> Received<'a, T> {
        Received { channel }
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
        let has_come = !state.queue.is_empty()
            || state.senders == 0
            || state.line.iter().any(|in_line| {
                let sender = in_line.sender.as_ref();
                sender.is_none_or(|sender| sender.may_meet(&handle))
            });
        if !has_come {
            state.receiver = Receiving::Unusual(Side::Selects(handle));
        }
        !has_come
    }

    fn withdraw(&mut self) {
        self.channel.lock().receiver = Receiving::Not;
    }

    fn claimed(&mut self) -> Result<T, RecvError> {
        self.try_complete().expect("a value was put there for it")
    }

    fn cut_off(&mut self) -> Result<T, RecvError> {
        Err(RecvError)
    }
}

/// The event that a value was sent.
pub struct Sent<'a, T> {
    channel: &'a Channel<T>,
    value: &'a mut Option<T>,
    /// The ticket of the value while it is in the line.
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
        let may_come = state.receiver_gone
            || state.queue.len() < self.channel.bound
            || match &state.receiver {
                Receiving::Not => false,
                Receiving::Usual => true,
                Receiving::Unusual(receiver) => receiver.may_meet(&handle),
                Receiving::Several => state.receivers().may_meet(&handle),
            };
        if may_come {
            return false;
        }
        let value = self.value.take();
        self.ticket = value.map(|value| state.join_line(value, Side::Selects(handle)));
        true
    }

    fn withdraw(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            *self.value = self.channel.lock().try_leave_line(ticket);
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

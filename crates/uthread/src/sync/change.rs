//! A change of the state in a [`NotifyMutex`](super::notify_mutex::NotifyMutex) as the event of a selection.

use super::notify_mutex::WaiterId;
use super::selection::{ArmHandle, Event};

/// References to receivers that wait for a change of the state that they share with the senders.
pub trait Notified {
    type Output;

    /// Returns what has changed, if anything has.
    fn take(&mut self) -> Option<Self::Output>;

    /// Registers a waiter for the next change, unless there is something to take.
    fn enlist(&self, handle: ArmHandle) -> Option<WaiterId>;

    /// Removes a registered waiter.
    fn withdraw(&self, id: WaiterId);

    /// Returns the result of a receiver whose senders are gone.
    fn closed() -> Self::Output;
}

/// The event that a receiver has something to take.
pub struct Change<R> {
    receiver: R,
    waiter_id: Option<WaiterId>,
}

impl<R> Change<R> {
    pub(crate) fn new(receiver: R) -> Change<R> {
        Change {
            receiver,
            waiter_id: None,
        }
    }
}

impl<R: Notified> Event for Change<R> {
    type Output = R::Output;

    fn try_complete(&mut self) -> Option<R::Output> {
        self.receiver.take()
    }

    fn enlist(&mut self, handle: ArmHandle) -> bool {
        self.waiter_id = self.receiver.enlist(handle);
        self.waiter_id.is_some()
    }

    fn withdraw(&mut self) {
        if let Some(waiter_id) = self.waiter_id.take() {
            self.receiver.withdraw(waiter_id);
        }
    }

    fn cut_off(&mut self) -> R::Output {
        R::closed()
    }
}

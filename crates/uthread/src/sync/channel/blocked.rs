//! Senders whose values have no space in the queue of their channel, in the order of their calls.

use std::collections::VecDeque;

use super::waiter::Waiter;

pub(super) struct BlockedSenders<T> {
    /// By ticket. Bounded by the number of fibers and threads.
    senders: VecDeque<BlockedSender<T>>,
    next_ticket: u64,
}

pub(super) struct BlockedSender<T> {
    ticket: u64,
    pub(super) value: T,
    /// `None` once the sender was woken because the receivers are gone.
    pub(super) sender: Option<Waiter>,
}

impl<T> BlockedSenders<T> {
    /// Appends a value and its sender, and returns the ticket.
    pub(super) fn add(&mut self, value: T, sender: Waiter) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.senders.push_back(BlockedSender {
            ticket,
            value,
            sender: Some(sender),
        });
        ticket
    }

    /// Removes the first sender whose value can be claimed.
    #[inline]
    pub(super) fn take_first(&mut self) -> Option<BlockedSender<T>> {
        match &self.senders.front()?.sender {
            Some(Waiter::Waits(sender)) if !sender.is_abandoned() => self.senders.pop_front(),
            _ => self.claim_first(),
        }
    }

    #[cold]
    fn claim_first(&mut self) -> Option<BlockedSender<T>> {
        let can_be_claimed = |sender: &Option<Waiter>| sender.as_ref().is_none_or(Waiter::claim);
        let mut senders = self.senders.iter();
        let index = senders.position(|blocked| can_be_claimed(&blocked.sender))?;
        self.senders.remove(index)
    }

    /// Returns `true` if `accepts` accepts a sender whose value can be claimed.
    pub(super) fn any(&self, accepts: impl Fn(&Waiter) -> bool) -> bool {
        let mut senders = self.senders.iter();
        senders.any(|blocked| blocked.sender.as_ref().is_none_or(&accepts))
    }

    /// Returns `true` if the value with this ticket was not taken.
    pub(super) fn contains(&self, ticket: u64) -> bool {
        self.find(ticket).is_ok()
    }

    /// Removes a value, or returns `None` if it was taken.
    pub(super) fn remove(&mut self, ticket: u64) -> Option<T> {
        let index = self.find(ticket).ok()?;
        self.senders.remove(index).map(|blocked| blocked.value)
    }

    /// Takes those who wait, to be woken when the receivers are gone. The values stay.
    pub(super) fn take_waiters(&mut self) -> Vec<Waiter> {
        let senders = self.senders.iter_mut();
        senders
            .filter_map(|blocked| blocked.sender.take())
            .collect()
    }

    fn find(&self, ticket: u64) -> Result<usize, usize> {
        self.senders
            .binary_search_by_key(&ticket, |blocked| blocked.ticket)
    }
}

impl<T> Default for BlockedSenders<T> {
    fn default() -> BlockedSenders<T> {
        BlockedSenders {
            senders: VecDeque::new(),
            next_ticket: 0,
        }
    }
}

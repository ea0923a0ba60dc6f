//! The waiting receivers of a channel.
//!
//! ```text
//!   a value is put    choose the receiver that has waited for longest and can be claimed, and wake it
//!   it has woken up   it takes a value if there is one, and otherwise waits again
//!   it was claimed    it takes a value: one is reserved for it
//! ```
//!
//! Every chosen receiver inspects the queue before it does anything else, so no wake-up is lost:
//! while receivers wait, the queue has no more values than there are chosen receivers on their way.
//! Other receivers may overtake a chosen one, and take any value that is not reserved.

use std::collections::VecDeque;
use std::mem;

use super::waiter::Waiter;
use crate::sched::caller;
use crate::sync::selection::ArmHandle;

#[derive(Default)]
pub(super) struct WaitingReceivers {
    /// `true` while the usual receiver waits, and has waited for longer than the others.
    pub(super) usual: bool,
    /// The others by ticket. Bounded by the number of fibers and threads.
    others: VecDeque<(u64, Waiter)>,
    next_ticket: u64,
    /// Number of claimed selections that have not taken their values yet. The queue has at least as
    /// many values.
    reserved: usize,
}

impl WaitingReceivers {
    pub(super) fn has_no_others(&self) -> bool {
        self.others.is_empty()
    }

    /// Removes the first of the others that can be claimed, to be woken for a value. If it is a
    /// selection, the value is reserved for it.
    #[inline]
    pub(super) fn choose(&mut self) -> Option<Waiter> {
        if self.others.is_empty() {
            return None;
        }
        self.choose_other()
    }

    #[cold]
    fn choose_other(&mut self) -> Option<Waiter> {
        let index = self.others.iter().position(|(_, other)| other.claim())?;
        let (_, chosen) = self.others.remove(index)?;
        if let Waiter::Selects(_) = chosen {
            self.reserved += 1;
        }
        Some(chosen)
    }

    /// Removes all others, to be woken when the senders are gone.
    pub(super) fn take_others(&mut self) -> VecDeque<(u64, Waiter)> {
        mem::take(&mut self.others)
    }

    /// Returns the number of values that only claimed selections may take.
    pub(super) fn reserved(&self) -> usize {
        self.reserved
    }

    /// Ends the reservation of a claimed selection.
    pub(super) fn redeem(&mut self) {
        self.reserved -= 1;
    }

    /// Appends the caller to the others, unless it waits with its ticket already.
    #[cold]
    pub(super) fn await_with(&mut self, ticket: &mut Option<u64>) {
        if ticket.is_none_or(|ticket| self.find(ticket).is_err()) {
            *ticket = Some(self.add(Waiter::Waits(caller::wake_handle())));
        }
    }

    /// Appends a receiver to the others, and returns its ticket.
    pub(super) fn add(&mut self, receiver: Waiter) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.others.push_back((ticket, receiver));
        ticket
    }

    /// Removes one of the others. Returns `false` if it was chosen.
    pub(super) fn withdraw(&mut self, ticket: u64) -> bool {
        let found = self.find(ticket);
        found.is_ok_and(|index| self.others.remove(index).is_some())
    }

    fn find(&self, ticket: u64) -> Result<usize, usize> {
        self.others.binary_search_by_key(&ticket, |(id, _)| *id)
    }

    /// Returns `true` if `selection` could claim one of the others.
    pub(super) fn may_meet(&self, selection: &ArmHandle) -> bool {
        self.others
            .iter()
            .any(|(_, other)| other.may_meet(selection))
    }
}

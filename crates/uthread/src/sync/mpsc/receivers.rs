//! The receivers of a channel that has several.
//!
//! ```text
//!   a value is put    choose the first waiting receiver that can be claimed, and wake it
//!   it has woken up   it takes a value if there is one, and otherwise waits again
//!   it was claimed    it takes a value: one is reserved for it
//! ```
//!
//! Every chosen receiver inspects the queue before it does anything else, so no wake-up is lost:
//! while receivers wait, the queue has no more values than there are chosen receivers on their way.
//! Other receivers may overtake a chosen one, and take any value that is not reserved.

use std::collections::VecDeque;
use std::mem;

use super::side::Side;
use crate::sync::selection::ArmHandle;

pub(crate) struct Receivers {
    /// Number of receivers, waiting or not.
    pub(super) count: usize,
    /// Waiting receivers by ticket. Bounded by the number of fibers and threads.
    waiting: VecDeque<(u64, Side)>,
    next_ticket: u64,
    /// The receiver that was chosen for the value which is about to be put.
    chosen: Option<Side>,
    /// Number of claimed selections that have not taken their values yet. The queue has at least as
    /// many values.
    reserved: usize,
}

impl Receivers {
    pub(super) fn one() -> Receivers {
        Receivers {
            count: 1,
            waiting: VecDeque::new(),
            next_ticket: 0,
            chosen: None,
            reserved: 0,
        }
    }

    /// Chooses a waiting receiver for a value. Returns `false` if there is none.
    pub(super) fn choose(&mut self) -> bool {
        if self.chosen.is_some() {
            return true;
        }
        let index = self.waiting.iter().position(|(_, side)| side.claim());
        let chosen = index.and_then(|index| self.waiting.remove(index));
        self.chosen = chosen.map(|(_, side)| side);
        if let Some(Side::Selects(_)) = self.chosen {
            self.reserved += 1;
        }
        self.chosen.is_some()
    }

    /// Returns the chosen receiver, to be woken for a value that was put.
    pub(super) fn take_chosen(&mut self) -> Option<Side> {
        self.choose();
        self.chosen.take()
    }

    /// Removes all waiting receivers, to be woken at the end of the channel.
    pub(super) fn take_all(&mut self) -> VecDeque<(u64, Side)> {
        mem::take(&mut self.waiting)
    }

    /// Returns the number of values that only claimed selections may take.
    pub(super) fn reserved(&self) -> usize {
        self.reserved
    }

    /// Ends the reservation of a claimed selection.
    pub(super) fn redeem(&mut self) {
        self.reserved -= 1;
    }

    /// Appends a waiting receiver, and returns its ticket.
    pub(super) fn enlist(&mut self, side: Side) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting.push_back((ticket, side));
        ticket
    }

    /// Returns `true` if the receiver waits and was not chosen.
    pub(super) fn is_waiting(&self, ticket: u64) -> bool {
        self.find(ticket).is_ok()
    }

    /// Removes a receiver, unless it was chosen.
    pub(super) fn withdraw(&mut self, ticket: u64) {
        if let Ok(index) = self.find(ticket) {
            self.waiting.remove(index);
        }
    }

    fn find(&self, ticket: u64) -> Result<usize, usize> {
        self.waiting.binary_search_by_key(&ticket, |(id, _)| *id)
    }

    /// Returns `true` if `other`, an arm of another selection, could claim a waiting receiver.
    pub(super) fn may_meet(&self, other: &ArmHandle) -> bool {
        self.waiting.iter().any(|(_, side)| side.may_meet(other))
    }
}

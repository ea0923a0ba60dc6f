//! The calls that wait for a thread of the pool. Each leaves the queue once:
//!
//! ```text
//!   queued --begin, by a thread---------> the thread runs it to its end
//!          --withdraw, by its submitter-> the submitter has it again, and it never runs
//! ```
//!
//! Both happen under the lock of the pool, so that one side gets the call and the other one learns that it came too late. A
//! call may borrow from its submitter, who returns after it has withdrawn the call, or after it has been told of its end.

use std::collections::BTreeMap;

/// Names a call from when it was queued on. No two have the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// First in, first out. Bounded by the number of fibers: each waits for one call.
pub(crate) struct Queue<J> {
    /// By age, as tickets only grow; and quick to withdraw from, wherever a call is.
    jobs: BTreeMap<Ticket, J>,
    next: u64,
}

impl<J> Queue<J> {
    pub(crate) const fn new() -> Queue<J> {
        Queue {
            jobs: BTreeMap::new(),
            next: 0,
        }
    }

    pub(crate) fn push(&mut self, job: J) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.jobs.insert(ticket, job);
        ticket
    }

    /// Takes the oldest, to run it.
    pub(crate) fn begin(&mut self) -> Option<J> {
        self.jobs.pop_first().map(|(_, job)| job)
    }

    /// Takes this one back; none if it has begun.
    pub(crate) fn withdraw(&mut self, ticket: Ticket) -> Option<J> {
        self.jobs.remove(&ticket)
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }
}

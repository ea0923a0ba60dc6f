//! The queue of calls for the pool's threads. Each call leaves it once:
//!
//! ```text
//!   queued --begin, by a thread---------> the thread runs it to its end
//!          --withdraw, by its submitter-> the submitter gets it back, and it never runs
//! ```
//!
//! Both happen under the lock of the pool, so exactly one side gets the call. A call may borrow
//! from its submitter, which returns only after it has withdrawn the call or was notified of its
//! end.

use std::collections::BTreeMap;

use slab::Slab;

/// Identifies a queued call. Tickets are unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(usize);

/// A first-in, first-out queue. Bounded by the number of fibers, as each waits for one call.
pub(crate) struct Queue<J> {
    /// The places of the jobs, ordered by age, as tickets increase. A map, so that any call can be
    /// withdrawn quickly; of numbers, so that it shares its code with the maps of stacks.
    places: BTreeMap<usize, usize>,
    jobs: Slab<J>,
    next: usize,
}

impl<J> Queue<J> {
    pub(crate) const fn new() -> Queue<J> {
        Queue {
            places: BTreeMap::new(),
            jobs: Slab::new(),
            next: 0,
        }
    }

    pub(crate) fn push(&mut self, job: J) -> Ticket {
        let ticket = self.next;
        self.next += 1;
        self.places.insert(ticket, self.jobs.insert(job));
        Ticket(ticket)
    }

    /// Removes the oldest job, to run it.
    pub(crate) fn begin(&mut self) -> Option<J> {
        let (_, place) = self.places.pop_first()?;
        Some(self.jobs.remove(place))
    }

    /// Removes the job with this ticket. Returns `None` if it has started.
    pub(crate) fn withdraw(&mut self, Ticket(ticket): Ticket) -> Option<J> {
        let place = self.places.remove(&ticket)?;
        Some(self.jobs.remove(place))
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }
}

//! What all parts of a simulation share: the virtual time, its events, chance, and the counts.

use fastrand::Rng;

use crate::events::Events;
use crate::tally::Tally;

pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) events: Events<Event>,
    pub(crate) rng: Rng,
    pub(crate) tally: Tally,
}

#[derive(Clone, Copy)]
pub(crate) enum Event {
    /// A job has passed the task queue.
    Queued(usize),
    /// A job has done its own work.
    Worked(usize),
    /// The call with this number has ended, unless it was cancelled or has ended before.
    Called {
        call: usize,
        number: u64,
        fails: bool,
    },
    /// The call with this number is made once more, if it has not ended.
    Hedge {
        call: usize,
        number: u64,
    },
    /// The client of a request waits no longer for this attempt.
    GaveUp {
        request: usize,
        attempt: u64,
    },
    Retry(usize),
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        World {
            now: 0,
            events: Events::new(),
            // Apart from that of arrivals, which are the same for both kinds of services.
            rng: Rng::with_seed(seed.wrapping_add(1)),
            tally: Tally::new(),
        }
    }

    /// Adds an event after this time.
    pub(crate) fn add_after(&mut self, time: u64, event: Event) {
        self.events.add(self.now + time, event);
    }
}

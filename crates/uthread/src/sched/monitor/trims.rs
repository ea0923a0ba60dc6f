//! When the monitor asks which worker to trim the stacks of its waiting fibers.
//!
//! A worker visits a fiber twice before it trims the stack. So each worker is asked until no fiber
//! has run for two requests; then the monitor may sleep.

use std::time::{Duration, Instant};

use crate::sched::shared::{Mail, Shared};

/// The least time between two requests to a worker, which is the least time that a fiber waits
/// before its stack is trimmed: a page fault per second is a small part of what a fiber does that
/// waits this long.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// The least time between two requests for each fiber of the worker, much more than a visit takes.
const INTERVAL_PER_FIBER: Duration = Duration::from_micros(10);

/// Number of requests after a fiber has run last: one to find that it waits, one to trim.
const REQUESTS: u8 = 2;

/// The requests to each worker.
#[derive(Default)]
pub(in crate::sched) struct Trims(Vec<Trim>);

/// The requests to one worker.
struct Trim {
    /// The worker's count of switches at the last request.
    switches: u64,
    /// Number of requests to come, if no fiber runs any more.
    due: u8,
    next: Instant,
}

impl Trims {
    /// Makes the requests that are due. Returns the time of the next one, unless all fibers have
    /// waited since the last.
    pub(in crate::sched) fn request(&mut self, shared: &Shared, now: Instant) -> Option<Instant> {
        self.0.resize_with(shared.workers(), || Trim {
            switches: 0,
            due: 0,
            next: now + INTERVAL_MIN,
        });
        let next = self.0.iter_mut().enumerate().filter_map(|(index, trim)| {
            let remote = shared.remote(index);
            let switches = remote.counters.switches.get();
            if switches != trim.switches {
                trim.due = REQUESTS;
            }
            if trim.due > 0 && trim.next <= now {
                trim.due -= 1;
                trim.switches = switches;
                trim.next = now + interval(remote.counters.live());
                remote.mail(Mail::Trim(0));
            }
            (trim.due > 0).then_some(trim.next)
        });
        next.min()
    }
}

fn interval(fibers: u64) -> Duration {
    let fibers = u32::try_from(fibers).unwrap_or(u32::MAX);
    INTERVAL_MIN.max(INTERVAL_PER_FIBER * fibers)
}

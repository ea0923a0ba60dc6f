//! Takes over the fibers that another worker has not started, and does not get to because the fiber that it runs computes for
//! long or blocks.
//!
//! An idle worker takes from the deques of others at once. What a worker is handed for a connection is left to it, so that
//! connections spread evenly; and a busy worker takes the few new fibers of others only if they would wait for long.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use super::Worker;
use crate::fiber::FiberRef;
use crate::sched::shared::Remote;

/// Time without a switch after which others take over what a worker has not started: much longer than fibers run between two
/// calls, and short enough for a request that waits.
pub(super) const STUCK: Duration = Duration::from_millis(1);

/// Number of switches of a busy worker, two batches, after which it takes new fibers of another one that has not switched
/// meanwhile.
const STUCK_SWITCHES: u64 = 128;

/// The state in which each other worker was last seen to change while something waited for it.
#[derive(Default)]
pub(super) struct Observations(RefCell<Vec<Option<Observation>>>);

#[derive(Clone, Copy)]
struct Observation {
    /// Number of switches of the other worker.
    switches: u64,
    /// Number of switches of the observer at that time.
    own_switches: u64,
    since: Instant,
}

/// How long another worker has not switched.
#[derive(Clone, Copy, PartialEq)]
enum Delay {
    None,
    /// For [`STUCK_SWITCHES`] of the observer.
    Slow,
    /// For [`STUCK`], while it runs a fiber. A worker that is about to wake up runs none.
    Stuck,
}

impl Worker {
    /// Takes over what waits to be started on a worker that is stuck. The worker is the one at this distance from this one.
    pub(super) fn relieve(&self, distance: usize, victim: &Remote) {
        let delay = self.delay_of(distance, victim);
        if delay == Delay::None {
            return;
        }
        self.take_new_of(victim);
        if let Some(fiber) = self.take_handed_of(victim, delay) {
            self.new.push(fiber);
        }
        self.take_ready_of(victim, |_, _| true);
    }

    /// Takes a fiber that was handed to a worker, if that is stuck.
    fn take_handed_of(&self, victim: &Remote, delay: Delay) -> Option<FiberRef> {
        let handed = match delay {
            Delay::Stuck => victim.take_handed(),
            Delay::None | Delay::Slow => None,
        };
        handed.inspect(|_| self.count_steal())
    }

    /// Takes a fiber that was handed to a worker that is stuck.
    pub(super) fn take_handed_of_others(&self) -> Option<FiberRef> {
        if !self.do_others_have_handed() {
            return None;
        }
        let mut victims = (0..).zip(self.shared.victims(self.index));
        victims.find_map(|(distance, victim)| {
            self.take_handed_of(victim, self.delay_of(distance, victim))
        })
    }

    /// Returns `true` if fibers were handed to other workers, from which they may have to be taken over.
    pub(super) fn do_others_have_handed(&self) -> bool {
        self.shared.workers() > 1 && self.shared.victims(self.index).any(Remote::has_handed)
    }

    /// Determines whether something waits for a worker that has not switched for long.
    fn delay_of(&self, distance: usize, victim: &Remote) -> Delay {
        let mut observations = self.observations.0.borrow_mut();
        if observations.len() <= distance {
            observations.resize(distance + 1, None);
        }
        let observation = &mut observations[distance];
        if !victim.has_unstarted() {
            *observation = None;
            return Delay::None;
        }
        let switches = victim.counters.switches.get();
        let own_switches = self.remote.counters.switches.get();
        match *observation {
            Some(seen) if seen.switches == switches => {
                let waited = self.now().saturating_duration_since(seen.since);
                if waited >= STUCK && victim.counters.running.get() != 0 {
                    Delay::Stuck
                } else if own_switches.wrapping_sub(seen.own_switches) >= STUCK_SWITCHES {
                    Delay::Slow
                } else {
                    Delay::None
                }
            }
            _ => {
                *observation = Some(Observation {
                    switches,
                    own_switches,
                    since: self.now(),
                });
                Delay::None
            }
        }
    }
}

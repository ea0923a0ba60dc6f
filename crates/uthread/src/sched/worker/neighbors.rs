//! Knowledge of a worker about the others, by which it decides what to take from them.
//!
//! An idle worker takes from the deques of others at once. A busy worker takes its share if another
//! one has many more fibers, as there may be no idle worker to do so; and it takes the few new
//! fibers of others only if they would wait for long. The fibers of connections that were handed to
//! a worker are left to it, so that connections spread evenly. Others take them only if that worker
//! does not start them, because the fiber that it runs computes for long or blocks.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use super::queues::Queues;
use crate::fiber::FiberRef;
use crate::sched::shared::Remote;

/// Difference of queue lengths below which balancing is not worth it: such a queue is empty before
/// fibers have moved.
const BALANCED: usize = 16;

/// Time without a switch after which others take over what a worker has not started: much longer
/// than fibers run between two calls, and short enough for a request that waits.
pub(super) const STUCK: Duration = Duration::from_millis(1);

/// Number of switches of a busy worker, two batches, after which it takes new fibers of another one
/// that has not switched meanwhile.
const STUCK_SWITCHES: u64 = 128;

/// The others are identified by their distance from this worker.
#[derive(Default)]
pub(super) struct Neighbors {
    /// Number of checks of other workers' queues.
    checks: Cell<usize>,
    /// The state in which each worker was last seen to change while something waited for it.
    observations: RefCell<Vec<Option<Observation>>>,
}

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

impl Neighbors {
    /// Takes some fibers from another worker whose queue is much longer, or that is stuck.
    pub(super) fn balance(&self, own: &Queues, now: impl Fn() -> Instant) {
        let victims = own.shared.workers() - 1;
        let turn = self.checks.get().wrapping_add(1);
        self.checks.set(turn);
        // One victim at a time, as there may be many.
        let victim = turn.checked_rem(victims);
        let Some((distance, victim)) = victim.and_then(|turn| {
            let victim = own.shared.victims(own.index).nth(turn);
            victim.map(|victim| (turn, victim))
        }) else {
            return;
        };
        self.relieve(own, distance, victim, now);
        if own.new.is_empty() && victim.new_fibers() > BALANCED {
            own.take_new_of(victim);
        }
    }

    /// Takes over what waits to be started on a worker that is stuck.
    fn relieve(&self, own: &Queues, distance: usize, victim: &Remote, now: impl Fn() -> Instant) {
        let delay = self.delay_of(own, distance, victim, now);
        if delay == Delay::None {
            return;
        }
        own.take_new_of(victim);
        if let Some(fiber) = take_handed_of(own, victim, delay) {
            own.new.push(fiber);
        }
    }

    /// Takes a fiber that was handed to a worker that is stuck.
    pub(super) fn take_handed(&self, own: &Queues, now: impl Fn() -> Instant) -> Option<FiberRef> {
        if !own.others_have_handed() {
            return None;
        }
        let mut victims = (0..).zip(own.shared.victims(own.index));
        victims.find_map(|(distance, victim)| {
            take_handed_of(own, victim, self.delay_of(own, distance, victim, &now))
        })
    }

    /// Determines whether something waits for a worker that has not switched for long.
    fn delay_of(
        &self,
        own: &Queues,
        distance: usize,
        victim: &Remote,
        now: impl Fn() -> Instant,
    ) -> Delay {
        let mut observations = self.observations.borrow_mut();
        if observations.len() <= distance {
            observations.resize(distance + 1, None);
        }
        let observation = &mut observations[distance];
        if !victim.has_unstarted() {
            *observation = None;
            return Delay::None;
        }
        let switches = victim.counters.switches.get();
        let own_switches = own.remote.counters.switches.get();
        match *observation {
            Some(seen) if seen.switches == switches => {
                let waited = now().saturating_duration_since(seen.since);
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
                    since: now(),
                });
                Delay::None
            }
        }
    }
}

/// Takes a fiber that was handed to a worker, if that is stuck.
fn take_handed_of(own: &Queues, victim: &Remote, delay: Delay) -> Option<FiberRef> {
    let handed = match delay {
        Delay::Stuck => victim.take_handed(),
        Delay::None | Delay::Slow => None,
    };
    handed.inspect(|_| own.count_steal())
}

//! Probes of the scheduling delay: how long a fiber waits that becomes ready, until it runs.
//!
//! The monitor sends them. The worker takes them like a fiber that another thread has woken, and
//! gives each the place behind its ready fibers. It has then measured how long it did not look at
//! its inbox, and measures how long it takes to run the fibers before that place. While a probe has
//! a place, batches are those of this module, which look for it before each fiber. Other batches
//! know nothing of probes.
//!

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::time::Instant;

use super::Worker;
use super::queues::Queues;
use super::queues::pick::NEW_FIBER_TURN;
use crate::fiber::Started;
use crate::priorities::Priority;
use crate::sched::queues::ready::Position;

/// The probes that have a place among the ready fibers. The limit of those under way bounds them.
#[derive(Default)]
pub(super) struct Probes(RefCell<Vec<Probe>>);

struct Probe {
    sent: Instant,
    position: Position,
    /// The number of the worker's sleeps until it got the place.
    sleeps: u64,
    /// `true` if no ready fiber of normal priority was before it when a fiber was picked last.
    is_first: bool,
}

impl Probes {
    /// Takes the probes that were sent to the worker.
    #[cold]
    pub(super) fn take(&self, queues: &Queues) {
        let delays = queues.remote.delays_or_init();
        let position = queues.ready.end();
        let sleeps = queues.remote.counters.sleeps.get();
        let probes = delays.take().into_iter().map(|sent| Probe {
            sent,
            position,
            sleeps,
            is_first: false,
        });
        self.0.borrow_mut().extend(probes);
        if !queues.ready.is_ordered() || queues.ready.is_empty() {
            self.find_first(queues);
            self.record_first(queues);
        }
        self.announce(queues);
    }

    /// Finds the probes before which no ready fiber is, before a pick.
    fn find_first(&self, queues: &Queues) {
        for probe in &mut *self.0.borrow_mut() {
            probe.is_first = queues.ready.has_reached(probe.position);
        }
    }

    /// Records the probes that were found first, in whose place another fiber runs now.
    fn record_first(&self, queues: &Queues) {
        let mut now = None;
        let delays = queues.remote.delays_or_init();
        let sleeps = queues.remote.counters.sleeps.get();
        self.0.borrow_mut().retain(|probe| {
            if probe.sleeps != sleeps {
                // The fibers before it were taken by others, and the worker had nothing to do.
                delays.discard();
                return false;
            }
            if probe.is_first {
                let now = *now.get_or_insert_with(Instant::now);
                delays.record(now.saturating_duration_since(probe.sent));
            }
            !probe.is_first
        });
    }

    fn announce(&self, queues: &Queues) {
        queues.ready.set_probed(!self.0.borrow().is_empty());
    }
}

impl Worker {
    /// Runs a batch while probes have places among the fibers.
    #[cold]
    pub(super) fn run_probed_batch(&self) -> ControlFlow<Started> {
        let queues = &self.queues;
        if queues.ready.is_ordered() || queues.ready.has_spent() {
            self.shorten_batch();
        }
        self.run_in_turn(|switch| self.next_beside_probes(switch))?;
        if !queues.has_work() {
            self.probes.find_first(queues);
            self.probes.record_first(queues);
        }
        self.probes.announce(queues);
        ControlFlow::Continue(())
    }

    /// Takes the fiber to run next, and records the probes in whose place it is.
    fn next_beside_probes(&self, switch: u64) -> Option<Started> {
        let queues = &self.queues;
        self.probes.find_first(queues);
        let starts_new = switch.is_multiple_of(NEW_FIBER_TURN) && !queues.new.is_empty();
        let fiber = if queues.ready.is_ordered() {
            queues.next_by_priority(self)
        } else {
            queues.next_beside_spent(switch, self)
        };
        // A new fiber in its turn, and one of another priority, run before normal ready ones.
        let is_normal = |fiber: Started| fiber.control().limits.priority() == Priority::Normal;
        if !starts_new && fiber.is_none_or(is_normal) {
            self.probes.record_first(queues);
        }
        fiber
    }
}

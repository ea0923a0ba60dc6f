//! Fibers whose priority is not normal.
//!
//! ```text
//!   new fibers       one queue for all workers, also for those from outside the workers
//!   started fibers   a queue of the worker that has started them
//! ```
//!
//! They exist only in a runtime in which some fiber has had such a priority. The README has the
//! rule by which the priorities take turns, with its bounds.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_deque::Injector;

use super::new_fibers::take;
use super::run_queue::RunQueue;
use crate::fiber::{FiberRef, Started};
use crate::priorities::{Arbiter, Priority};

/// One value for each priority that is not normal.
#[derive(Default)]
struct Pair<T> {
    urgent: T,
    background: T,
}

impl<T> Pair<T> {
    fn of(&self, priority: Priority) -> &T {
        debug_assert_ne!(priority, Priority::Normal);
        match priority {
            Priority::Urgent => &self.urgent,
            Priority::Normal | Priority::Background => &self.background,
        }
    }

    fn all(&self) -> [&T; 2] {
        [&self.urgent, &self.background]
    }
}

/// The fibers that any worker may take. They are bounded by memory, as `spawn` cannot refuse.
#[derive(Default)]
pub(crate) struct SharedPrioritized {
    new: Pair<Injector<FiberRef>>,
}

impl SharedPrioritized {
    /// Appends a new fiber to those of its priority, which is not normal.
    pub(in crate::sched) fn push_new(&self, fiber: FiberRef) {
        self.new.of(fiber.control().limits.priority()).push(fiber);
    }

    /// Takes the oldest new fiber of this priority.
    pub(in crate::sched) fn take_new(&self, priority: Priority) -> Option<FiberRef> {
        take(|| self.new.of(priority).steal())
    }

    /// Returns the number of new fibers.
    pub(in crate::sched) fn new_fibers(&self) -> usize {
        self.new.all().map(Injector::len).iter().sum()
    }

    /// Returns the number of fibers.
    pub(in crate::sched) fn len(&self) -> usize {
        self.new_fibers()
    }

    pub(in crate::sched) fn is_empty(&self) -> bool {
        self.new.all().into_iter().all(Injector::is_empty)
    }

    fn has(&self, priority: Priority) -> bool {
        !self.new.of(priority).is_empty()
    }
}

/// The view of one worker.
pub(crate) struct Prioritized {
    pub(in crate::sched) shared: Arc<SharedPrioritized>,
    /// Started fibers that only this worker may run.
    own: Pair<RunQueue>,
    own_length: OwnLength,
    arbiter: Cell<Arbiter>,
    /// `true` while this worker searches for what any worker may take, so that such fibers do not
    /// count as its own work. Their taking ends the search.
    pub(in crate::sched) searches: Cell<bool>,
    /// `false` if this worker is inactive, and takes nothing that any worker may take.
    pub(in crate::sched) takes_new: Cell<bool>,
    /// Number of picks from each priority so far.
    counts: [Cell<u64>; 3],
}

/// The number of started fibers that only one worker may run, for other threads. Relaxed: it orders
/// nothing.
#[derive(Clone, Default)]
pub(crate) struct OwnLength(Arc<AtomicUsize>);

impl OwnLength {
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The priority that a fiber is picked from.
pub(crate) struct Pick {
    pub(in crate::sched) priority: Priority,
    /// The number of the pick among those from the priority.
    pub(in crate::sched) number: u64,
}

impl Prioritized {
    pub(in crate::sched) fn new(
        shared: Arc<SharedPrioritized>,
        own_length: OwnLength,
    ) -> Prioritized {
        Prioritized {
            shared,
            own: Pair::default(),
            own_length,
            arbiter: Cell::new(Arbiter::new()),
            searches: Cell::new(false),
            takes_new: Cell::new(true),
            counts: Default::default(),
        }
    }

    /// Appends a started fiber to those of its priority, which is not normal.
    pub(in crate::sched) fn push(&self, fiber: Started) {
        let own = self.own.of(fiber.control().limits.priority());
        own.push(fiber);
        self.record_own();
    }

    /// Takes the oldest started fiber of this priority.
    pub(in crate::sched) fn pop(&self, priority: Priority) -> Option<Started> {
        let fiber = self.own.of(priority).pop();
        self.record_own();
        fiber
    }

    /// Takes a new fiber of this priority, if this worker takes any.
    pub(in crate::sched) fn take_new(&self, priority: Priority) -> Option<FiberRef> {
        let takes_new = self.takes_new.get();
        takes_new.then(|| self.shared.take_new(priority)).flatten()
    }

    /// Removes a started fiber that only this worker may run. Returns `true` if it was in a queue.
    pub(in crate::sched) fn remove(&self, fiber: Started) -> bool {
        let removed = self.own.all().into_iter().any(|own| own.remove(fiber));
        self.record_own();
        removed
    }

    fn record_own(&self) {
        let length = self.own.all().map(|own| own.length().get()).iter().sum();
        self.own_length.0.store(length, Ordering::Relaxed);
    }

    /// Returns `true` if there is no work for this worker.
    pub(in crate::sched) fn is_empty(&self) -> bool {
        self.own.all().iter().all(|own| own.is_empty())
            && (self.searches.get() || !self.takes_new.get() || self.shared.is_empty())
    }

    /// Chooses the priority whose turn it is. `normal` is `true` if a normal fiber waits.
    pub(in crate::sched) fn next_pick(&self, normal: bool) -> Option<Pick> {
        let waits = |priority| {
            let is_new = || self.takes_new.get() && self.shared.has(priority);
            !self.own.of(priority).is_empty() || is_new()
        };
        let mut arbiter = self.arbiter.get();
        let next = arbiter.next([waits(Priority::Urgent), normal, waits(Priority::Background)]);
        self.arbiter.set(arbiter);
        next.map(|priority| {
            let count = &self.counts[priority as usize];
            count.set(count.get().wrapping_add(1));
            Pick {
                priority,
                number: count.get(),
            }
        })
    }
}

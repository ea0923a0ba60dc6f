//! Where a new fiber goes.
//!
//! ```text
//!   the next worker in turn   the first one that is spawned after a connection was accepted
//!   the injector              any other that an inactive worker spawns
//!   all workers' queue        one whose priority is not normal
//!   the worker's own queue    any other: idle workers steal it from there, if there are others
//! ```
//!
//! A fiber that serves a connection soon waits for its first message, and stays on its worker from
//! then on. Idle workers come too late to steal it, so the worker that accepts would serve most
//! connections. Therefore such fibers are handed to the workers in turn. Others take one over only
//! if its worker is [stuck](super::super::neighbors).

use super::Queues;
use crate::fiber::{FiberRef, host};
use crate::priorities::Priority;
use crate::root::EventKind;
use crate::sched::queues::new_fibers::NewFibers;
use crate::sched::worker::current;

impl Queues {
    /// Queues a new fiber.
    pub(in crate::sched) fn spawn(&self, fiber: FiberRef) {
        self.note_spawn(&fiber);
        if self.spreads_next.get() {
            self.spread(fiber);
        } else if self.is_inactive() {
            self.shared.inject(fiber);
        } else if fiber.control().limits.priority() == Priority::Normal {
            self.push_new(fiber);
        } else {
            self.shared.queue_prioritized(fiber);
            self.wake_one();
        }
    }

    fn note_spawn(&self, fiber: &FiberRef) {
        self.pass_host(fiber);
        if self.is_traced() {
            let parent = self.remote.counters.running.get();
            let id = fiber.control().id().get();
            self.trace_moment(EventKind::Spawn, id, parent);
        }
    }

    /// Takes and queues a new fiber, whose priority is normal, unless more has to be done than
    /// that.
    #[inline]
    pub(in crate::sched) fn spawn_ordinary(&self, fiber: &mut Option<FiberRef>) {
        if self.spawns_unusually.get() {
            return;
        }
        match &self.new {
            NewFibers::Own(own) => {
                if own.push_in_place(fiber) {
                    // The only worker is awake, as it is the caller.
                    self.count_wake(false);
                }
            }
            NewFibers::Stealable(..) => self.spawn_stealable(fiber),
        }
    }

    /// Takes the fiber and queues it for this worker and thieves, unless the queue is full.
    fn spawn_stealable(&self, fiber: &mut Option<FiberRef>) {
        if !self.new.is_full() {
            fiber
                .take()
                .into_iter()
                .for_each(|fiber| self.push_new(fiber));
        }
    }

    /// Queues a new fiber where idle workers find it.
    pub(in crate::sched) fn push_new(&self, fiber: FiberRef) {
        self.new.push(fiber);
        self.wake_one();
    }

    /// Returns `true` if so many fibers have not started that the running fiber, which spawns
    /// others, has to let some start.
    pub(in crate::sched) fn has_many_new(&self) -> bool {
        self.new.is_full()
    }

    /// Queues a new fiber that is a part of the running fiber's work, for which
    /// [`take_back`](Queues::take_back) is called later.
    pub(in crate::sched) fn fork(&self, fiber: FiberRef) {
        self.remote.counters.forks.add(1);
        if self.shared.prioritized().is_some()
            && let Some(running) = current::running()
        {
            let priority = running.control().limits.priority();
            fiber.control().limits.set_priority(priority);
        }
        self.note_spawn(&fiber);
        self.push_new(fiber);
    }

    /// Removes a new fiber from its queue if it is the newest one.
    pub(in crate::sched) fn take_back(&self, fiber: &FiberRef) -> bool {
        let newest = self.new.pop_newest();
        let found = newest.as_ref().map(FiberRef::as_ptr) == Some(fiber.as_ptr());
        if let Some(other) = newest.filter(|_| !found) {
            self.new.push(other);
        }
        // Last: until then, the monitor would take the queued fiber for one that waits.
        self.remote.counters.forks.add(u64::MAX);
        if found && self.has_hosts() {
            host::withdraw(fiber.control());
        }
        found
    }

    /// Makes the fiber that is spawned next on this worker start on the next worker in turn.
    pub(in crate::sched) fn spread_next(&self) {
        let spreads = self.shared.workers() > 1;
        self.spreads_next.set(spreads);
        self.note_spawns();
    }

    /// Records whether spawns are ordinary.
    pub(in crate::sched) fn note_spawns(&self) {
        let is_unusual =
            self.spreads_next.get() || self.is_inactive() || self.is_traced() || self.has_hosts();
        self.spawns_unusually.set(is_unusual);
    }

    /// Hands a new fiber to the next worker in turn.
    #[cold]
    fn spread(&self, fiber: FiberRef) {
        self.spreads_next.set(false);
        self.note_spawns();
        let worker = self.shared.next_in_turn();
        if let Some(fiber) = worker.hand(fiber) {
            // The other worker has ended with the runtime, before this one.
            self.push_new(fiber);
        }
    }
}

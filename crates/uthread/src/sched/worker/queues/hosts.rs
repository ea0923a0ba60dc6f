//! The fibers of hosts in a simulated world: a host may be paused or halted.

use super::Queues;
use crate::fiber::host::{self, State};
use crate::fiber::{FiberRef, Started};
use crate::sched::worker::current;

impl Queues {
    pub(in crate::sched) fn has_hosts(&self) -> bool {
        let clock = self.remote.clock.as_ref();
        clock.is_some_and(|clock| clock.world().is_some())
    }

    /// Records that fibers have hosts.
    pub(in crate::sched) fn note_hosts(&self) {
        self.note_spawns();
        self.ready.set_halting();
    }

    /// Makes the host of the running fiber that of a new one.
    pub(super) fn pass_host(&self, fiber: &FiberRef) {
        if self.has_hosts()
            && let Some(host) = current::running().and_then(|running| host::of(running.control()))
        {
            host.admit(fiber);
        }
    }

    /// Returns whether a fiber, which is ready and in no queue, may run. If its host is paused, holds it until
    /// that is resumed, or the runtime shuts down.
    pub(in crate::sched) fn pass_or_hold(&self, fiber: Started) -> State {
        if !self.has_hosts() {
            return State::Running;
        }
        let state = host::state(fiber.control());
        if state == State::Paused {
            if self.shared.is_shut_down() {
                return State::Running;
            }
            self.held.borrow_mut().push(fiber);
        }
        state
    }

    /// Makes the held fibers ready. Those whose hosts are still paused are held again when their turns come.
    #[cold]
    pub(in crate::sched) fn release_held(&self) {
        let held = self.held.take();
        held.into_iter().for_each(|fiber| self.make_ready(fiber));
    }
}

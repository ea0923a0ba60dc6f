//! The queues of one worker, as its own thread uses them: new fibers, ready fibers, and who is
//! notified of them.
//!
//! | module | contents |
//! | --- | --- |
//! | [`hosts`] | the fibers of hosts in a simulated world |
//! | [`spawn`] | where a new fiber goes |
//! | [`wake`] | where a fiber goes that becomes ready |
//! | [`steal`] | what it takes from others |
//! | [`ordering`] | the fiber to run next where fibers have priorities |
//! | [`pick`] | the fiber to run next |
//! | [`tracer`] | what is recorded while a tool traces the process |

mod hosts;
mod ordering;
pub(in crate::sched) mod pick;
mod spawn;
mod steal;
mod tracer;
mod wake;

use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::Arc;

use self::tracer::Tracer;
use super::alerts::Alerts;
use crate::fiber::Started;
use crate::sched::queues::new_fibers::NewFibers;
use crate::sched::queues::ready::Ready;
use crate::sched::shared::{LocalEnds, Remote, Shared};

pub(crate) struct Queues {
    pub(in crate::sched) index: usize,
    pub(in crate::sched) shared: Arc<Shared>,
    pub(in crate::sched) remote: Arc<Remote>,
    pub(in crate::sched) new: NewFibers,
    pub(in crate::sched) ready: Ready,
    /// The checks to make before the next fiber runs.
    pub(in crate::sched) alerts: Alerts,
    pub(in crate::sched) tracer: Tracer,
    /// `true` if the next fiber spawned here starts on the next worker in turn.
    spreads_next: Cell<bool>,
    /// `true` if the worker is inactive.
    is_inactive: Cell<bool>,
    /// `true` if one of these is so, or if spawns are recorded.
    spawns_unusually: Cell<bool>,
    /// The ready fibers of hosts that are paused, in the order of their turns.
    held: RefCell<Vec<Started>>,
}

impl Queues {
    /// Takes the ends of the queues that belong to the worker with this index.
    pub(in crate::sched) fn new(
        index: usize,
        shared: Arc<Shared>,
        LocalEnds { new, ready }: LocalEnds,
    ) -> Queues {
        let remote = Arc::clone(shared.remote(index));
        if remote.clock.as_ref().is_some_and(|clock| clock.is_seeded()) {
            ready.set_random();
        }
        Queues {
            index,
            remote,
            shared,
            new,
            ready,
            alerts: Alerts::default(),
            tracer: Tracer::default(),
            spreads_next: Cell::new(false),
            is_inactive: Cell::new(false),
            spawns_unusually: Cell::new(false),
            held: RefCell::default(),
        }
    }

    /// Looks whether the worker is active, as it always is while the runtime shuts down.
    pub(in crate::sched) fn follow_size(&self) {
        let is_inactive = !self.shared.is_active(self.index) && !self.shared.is_shut_down();
        if self.is_inactive.replace(is_inactive) != is_inactive {
            self.note_spawns();
        }
        if let Some(prioritized) = self.ready.prioritized() {
            prioritized.takes_new.set(!is_inactive);
        }
    }

    /// Returns `true` if the worker was inactive at its last look.
    pub(in crate::sched) fn is_inactive(&self) -> bool {
        self.is_inactive.get()
    }

    /// Returns `true` if a fiber waits for this worker.
    pub(in crate::sched) fn has_work(&self) -> bool {
        !self.ready.is_empty() || !self.new.is_empty()
    }

    /// Wakes another worker for work queued here, if that is needed.
    pub(in crate::sched) fn wake_one(&self) {
        // A single worker is awake, as it is the caller.
        self.count_wake(self.shared.workers() > 1 && self.shared.wake_one());
    }

    /// Counts a worker that was woken, or that need not be.
    pub(in crate::sched) fn count_wake(&self, sent: bool) {
        let counters = &self.remote.counters;
        if sent {
            counters.wakes_sent.add(1);
        } else {
            counters.wakes_spared.add(1);
        }
    }

    fn belong_to(&self, remote: &Remote) -> bool {
        ptr::eq(&*self.remote, remote)
    }
}

//! The fibers of one worker: how they start and end, and their stacks.
#![allow(
    clippy::inline_always,
    reason = "hot paths, whose instructions are counted"
)]

use std::sync::Arc;

use super::alerts::Alerts;
use super::current;
use super::io::Io;
use super::panics::Panics;
use super::queues::Queues;
use super::runner_store::RunnerStore;
use crate::fiber::{
    Cancelled, Destination, Destinations, Fiber, FiberRef, Finish, Identity, Kept, Payload, Runner,
    Scheduler, Started,
};
use crate::sched::reactor::Reactor;
use crate::sched::shared::shortage::Refused;
use crate::tls::record::Record;

pub(super) struct Fibers {
    /// The references of the fibers that start here to their scheduler.
    destinations: Destinations,
    runners: RunnerStore,
}

impl Fibers {
    pub(super) fn new(queues: &Queues) -> Fibers {
        let remote: Arc<dyn Scheduler> = Arc::clone(&queues.remote) as _;
        Fibers {
            destinations: Destinations::new(remote),
            runners: RunnerStore::new(Arc::clone(&queues.shared)),
        }
    }

    /// Gives a new fiber a stack and a scheduler, unless it needs what few fibers do: it is returned
    /// then, to be [started slowly](Fibers::start_slowly).
    ///
    /// Calls no other function, and so saves no registers, nor accesses thread-locals.
    ///
    /// # Errors
    ///
    /// The fiber.
    #[inline]
    pub(super) fn start_at_once(
        &self,
        fiber: FiberRef,
        queues: &Queues,
        io: &Io,
    ) -> Result<Started, FiberRef> {
        let control = fiber.control();
        if !control.has_cold_state()
            && control.limits.is_empty()
            && !queues.shared.is_shut_down()
            && let mut reactor = io.reactor.borrow_mut()
            && reactor.has_room()
            && let Some(runner) = self.runners.take_hot()
        {
            queues.remote.counters.fibers.add(1);
            let scheduler = self.destinations.take();
            return Ok(start_at(fiber, runner, scheduler, queues, &mut reactor));
        }
        Err(fiber)
    }

    /// Gives a new fiber a stack and a scheduler. If there is no memory for a stack, the fiber ends
    /// without having run; it is returned if it can do so now.
    pub(super) fn start_slowly(
        &self,
        fiber: FiberRef,
        queues: &Queues,
        io: &Io,
    ) -> Option<Started> {
        current::set_running(None);
        let control = fiber.control();
        let runner = match control.take_reserved() {
            None => self.runners.take(),
            Some(reserved) => self.runners.on_reserved(reserved),
        };
        let runner = match runner {
            Ok(runner) => runner,
            Err(error) => return self.start_without_memory(Refused { fiber, error }, queues, io),
        };
        let limits = &control.limits;
        let shut_down = queues.shared.is_shut_down();
        if shut_down {
            limits.cancel();
        }
        let cancelled = limits.is_cancelled(shut_down);
        if cancelled && queues.shared.is_abandoned() {
            // Its closure is leaked: no code of the fiber runs any more, not even a destructor.
            queues.shared.keep_abandoned(fiber);
            self.return_runner(runner, queues, io);
            return None;
        }
        if cancelled {
            control.refuse(Box::new(Cancelled));
        }
        Some(self.start_on(fiber, runner, queues, io))
    }

    /// Starts a fiber on a runner that runs no other.
    fn start_on(&self, fiber: FiberRef, runner: Runner, queues: &Queues, io: &Io) -> Started {
        let scheduler = self.destinations.take();
        queues.remote.counters.fibers.add(1);
        queues.remote.record_name(fiber.control());
        let reactor = &mut io.reactor.borrow_mut();
        start_at(fiber, runner, scheduler, queues, reactor)
    }

    #[cold]
    fn start_without_memory(&self, refused: Refused, queues: &Queues, io: &Io) -> Option<Started> {
        let lent = queues.shared.shortage.lend(refused);
        let (refused, stack) = lent?;
        Some(self.start_to_end(refused, self.runners.on_reserve(stack), queues, io))
    }

    /// Starts a fiber that only drops its captures.
    fn start_to_end(
        &self,
        Refused { fiber, error }: Refused,
        runner: Runner,
        queues: &Queues,
        io: &Io,
    ) -> Started {
        let payload: Payload = Box::new(format!("uthread: no stack for a fiber: {error}"));
        fiber.control().refuse(payload);
        self.start_on(fiber, runner, queues, io)
    }

    /// Starts a fiber that waits for a stack to end on, if there are both.
    pub(super) fn start_refused(&self, queues: &Queues, io: &Io) -> Option<Started> {
        if !queues.shared.shortage.has_waiters() {
            return None;
        }
        let runner = self.runners.take().ok()?;
        match queues.shared.shortage.take() {
            Some(refused) => Some(self.start_to_end(refused, runner, queues, io)),
            None => {
                self.return_runner(runner, queues, io);
                None
            }
        }
    }

    /// Takes back the runner of a fiber that has ended. If another fiber waits for its stack to end
    /// on, starts that.
    fn return_runner(&self, runner: Runner, queues: &Queues, io: &Io) {
        queues.remote.handover.forget_record();
        if let Some((refused, runner)) = self.runners.give_back(runner) {
            let fiber = self.start_to_end(refused, runner, queues, io);
            queues.make_ready(fiber);
        }
    }

    /// Removes a fiber that has ended, and takes its stack back.
    pub(super) fn end(&self, fiber: Started, queues: &Queues, io: &Io, panics: &Panics) {
        if !self.end_at_once(fiber, queues, io) {
            self.end_slowly(fiber, queues, io, panics);
        }
    }

    /// Removes a fiber that has ended like [`end`](Fibers::end). Returns `false` if more has to be
    /// done than for most fibers.
    ///
    /// Like [`start_at_once`](Fibers::start_at_once), this calls nothing before it drops the
    /// reference.
    #[inline]
    pub(super) fn end_at_once(&self, fiber: Started, queues: &Queues, io: &Io) -> bool {
        let control = fiber.control();
        if !queues.alerts.has(Alerts::PANICS | Alerts::TRACED)
            && !control.has_cold_state()
            && !control.is_used_up()
            && let Some(room) = self.runners.room()
        {
            queues.remote.counters.ended.add(1);
            // Without a reserved stack, it is an ordinary one.
            room.fill(control.take_runner());
            let ended = io.reactor.borrow_mut().discharge(fiber);
            drop(ended);
            return true;
        }
        false
    }

    #[inline(never)]
    fn end_slowly(&self, fiber: Started, queues: &Queues, io: &Io, panics: &Panics) {
        panics.record_end(queues, fiber);
        if queues.is_traced() {
            queues.trace_leave(fiber.control(), None);
        }
        queues.remote.counters.ended.add(1);
        let ended = io.reactor.borrow_mut().discharge(fiber);
        queues.remote.forget_name(fiber.control());
        self.return_runner(fiber.control().take_runner(), queues, io);
        match fiber.control().take_finish() {
            Some(finish) if finish.drops_values => {
                finish_in_fiber(FiberRef::clone(&ended), finish, queues);
            }
            // Not in another fiber, whose outcome might have to be completed likewise.
            Some(finish) => (finish.complete)(),
            None => {}
        }
        drop(ended);
    }

    /// Releases a fiber that is never resumed. It stays where it is, with its stack.
    #[cold]
    pub(super) fn abandon(&self, fiber: Started, queues: &Queues, io: &Io) {
        queues.remote.counters.ended.add(1);
        let left = io.reactor.borrow_mut().discharge(fiber);
        queues.remote.forget_name(left.control());
        queues.shared.keep_abandoned(left);
    }

    /// Removes a started fiber, which is ready, for another worker to [adopt](Fibers::adopt).
    pub(super) fn part_with(&self, fiber: Started, queues: &Queues, io: &Io) -> FiberRef {
        let counters = &queues.remote.counters;
        counters.moved.set(counters.moved.get().wrapping_sub(1));
        queues.remote.forget_name(fiber.control());
        io.reactor.borrow_mut().discharge(fiber)
    }

    /// Adds a started fiber, which is ready. Another worker has parted with it.
    #[allow(unsafe_code, reason = "a reference to a started fiber")]
    pub(super) fn adopt(&self, fiber: FiberRef, queues: &Queues, io: &Io) -> Started {
        let control = fiber.control();
        queues.remote.counters.moved.add(1);
        queues.remote.record_name(control);
        control.home.set(queues.index as u32);
        control.set_last_switch(queues.remote.counters.switches.get());
        // SAFETY: the reactor keeps the fiber until it has ended, and then no queue holds it.
        let started = unsafe { Started::new(control) };
        io.reactor.borrow_mut().admit(fiber);
        started
    }

    /// Makes the calling thread, which is the worker's, keep what fibers leave for others.
    ///
    /// # Safety
    ///
    /// The contract of [`Destinations::keep`].
    #[allow(unsafe_code, reason = "the caller ends `kept` before it is dropped")]
    pub(super) unsafe fn begin(&self, kept: &Kept) {
        // SAFETY: the caller ends `kept` before it drops it.
        unsafe { self.destinations.keep(kept) };
    }

    /// Lets the fiber with this record use what the worker's thread keeps.
    #[inline(always)]
    pub(super) fn lend_kept(&self, record: &Record) {
        self.destinations.lend(record);
    }

    /// Gives away all that was kept for other fibers, as the worker ends.
    pub(super) fn leave(&self) {
        self.runners.give_all();
        self.destinations.drop_kept();
    }
}

#[inline(always)]
#[allow(unsafe_code, reason = "starting a fiber")]
fn start_at(
    fiber: FiberRef,
    runner: Runner,
    scheduler: Destination,
    queues: &Queues,
    reactor: &mut Reactor,
) -> Started {
    let control = fiber.control();
    // SAFETY: the caller alone has taken the new fiber from a queue, and runs it to its end; the
    // reactor keeps it alive until then.
    unsafe { control.start(fiber.as_ptr(), runner, scheduler) };
    // SAFETY: the reactor keeps the fiber until it has ended, and then no queue holds it.
    let started = unsafe { Started::new(control) };
    control.home.set(queues.index as u32);
    reactor.admit(fiber);
    started
}

/// Completes the outcome of a fiber that has ended, in another one, as its value may have a
/// destructor that waits.
#[cold]
fn finish_in_fiber(ended: FiberRef, finish: Finish, queues: &Queues) {
    if queues.shared.is_shut_down() || queues.shared.is_abandoned() {
        // The other fiber may be abandoned before it starts.
        queues.shared.keep_abandoned(FiberRef::clone(&ended));
    }
    let identity = Identity::anonymous(ended.control().spawn_site());
    // Also if the fiber is cancelled before it starts.
    let finish = FinishOnDrop {
        finish: Some(finish),
        _fiber: ended,
    };
    let (fiber, _detached) = Fiber::owning(identity, move || drop(finish));
    queues.push_new(fiber);
}

/// Completes the outcome of a fiber, to which it keeps a reference, when it is dropped.
struct FinishOnDrop {
    finish: Option<Finish>,
    _fiber: FiberRef,
}

impl Drop for FinishOnDrop {
    fn drop(&mut self) {
        if let Some(finish) = self.finish.take() {
            (finish.complete)();
        }
    }
}

//! Starting, running and ending fibers on a worker.

use std::io;
use std::sync::Arc;
use std::thread;

use super::alerts::Alerts;
use super::{Worker, current};
use crate::fiber::{
    Cancelled, Destination, Fiber, FiberRef, Finish, Identity, Pause, Payload, Runner, Started,
};
use crate::sched::budget;
use crate::sched::reactor::Reactor;
use crate::sched::shortage::Refused;
use crate::tls::Tls;

impl Worker {
    /// Runs a fiber until it pauses or ends, in the switch of this number. The caller then [records](Worker::record_no_fiber) that none runs. Returns
    /// `true` if there may be [`Alerts`].
    #[inline(always)]
    pub(super) fn run_fiber(&self, fiber: Started, switch: u64) -> bool {
        self.run_fiber_by(Worker::resume, fiber, switch)
    }

    /// Runs a fiber like [`run_fiber`](Worker::run_fiber), where fibers have no thread-local storage of their own.
    #[inline(always)]
    pub(super) fn run_plain_fiber(&self, fiber: Started, switch: u64) -> bool {
        self.run_fiber_by(|_, fiber| resume(fiber), fiber, switch)
    }

    #[inline(always)]
    fn run_fiber_by(
        &self,
        resume: impl Fn(&Worker, Started) -> (Started, Option<Pause>),
        fiber: Started,
        switch: u64,
    ) -> bool {
        let control = fiber.control();
        let counters = &self.queues.remote.counters;
        counters.switches.set(switch);
        counters.running.set(control.id().get());
        counters.spawn_site.store(Some(control.spawn_site()));
        current::set_running(Some(fiber));
        budget::renew();
        let (fiber, pause) = resume(self, fiber);
        if pause == Some(Pause::Yielded) && !self.queues.alerts.are_any() {
            self.queues.ready.push_staying(fiber);
            return false;
        }
        self.leave_fiber(fiber, pause);
        true
    }

    /// Runs a fiber until it pauses, or returns `None` when it has ended; and the fiber.
    #[inline(always)]
    fn resume(&self, fiber: Started) -> (Started, Option<Pause>) {
        match self.tls {
            None => resume(fiber),
            Some(tls) => self.resume_with(tls, fiber),
        }
    }

    /// Runs a fiber with its own thread-local storage.
    #[inline(never)]
    #[allow(unsafe_code, reason = "the thread pointer of a fiber")]
    fn resume_with(&self, tls: Tls, fiber: Started) -> (Started, Option<Pause>) {
        let Some(pointer) = fiber.control().thread_pointer() else {
            return resume(fiber);
        };
        // SAFETY: the block belongs to the fiber, which this worker alone runs until it has left its stack.
        unsafe {
            tls.with(pointer.get(), || {
                current::record_in_fiber(self, fiber);
                resume(fiber)
            })
        }
    }

    /// Takes a fiber that has left its stack to where it waits, or to its end.
    #[inline(always)]
    fn leave_fiber(&self, fiber: Started, pause: Option<Pause>) {
        match pause {
            Some(pause) if self.queues.alerts.are_any() => self.pause_alerted(fiber, pause),
            Some(pause) => {
                current::set_running(None);
                self.hand_on(fiber, pause);
            }
            None => {
                current::set_running(None);
                self.end_fiber(fiber);
            }
        }
    }

    /// Records that the loop runs, and no fiber.
    pub(super) fn record_no_fiber(&self) {
        current::set_running(None);
        self.queues.remote.counters.running.set(0);
    }

    #[inline(never)]
    fn pause_alerted(&self, fiber: Started, pause: Pause) {
        match self.queues.alerts.has(Alerts::PANICS) {
            true => self.pause_checked(fiber, pause),
            false => {
                current::set_running(None);
                self.pass_on(fiber, pause);
            }
        }
    }

    /// Hands on a fiber that has left its stack, if fibers migrate or some fiber is suspended during its panic.
    #[inline(never)]
    fn pause_checked(&self, fiber: Started, pause: Pause) {
        let mut resumed = Some(pause);
        while let Some(pause) = resumed
            && self.panics.keep_worker(&self.queues, fiber)
            && pause != Pause::Abandoned
        {
            self.await_kept(fiber, pause);
            resumed = self.resume(fiber).1;
        }
        current::set_running(None);
        match resumed {
            Some(pause) => {
                if self.queues.migrating {
                    // The panic count of a thread would not move with the fiber, nor would the storage of one that ends
                    // without a block.
                    let shares = self.tls.is_some() && fiber.control().thread_pointer().is_none();
                    let stays = (thread::panicking() || shares).then_some(self.queues.index as u32);
                    fiber.control().set_stays_on(stays);
                }
                self.hand_on(fiber, pause);
            }
            None => self.end_fiber(fiber),
        }
    }

    /// Removes a fiber that has ended, and takes its stack back.
    ///
    /// Like [`start`](Worker::start), this calls nothing for most fibers, before it drops the reference.
    #[inline(never)]
    fn end_fiber(&self, fiber: Started) {
        let control = fiber.control();
        if !self.queues.alerts.has(Alerts::PANICS)
            && !control.has_rare()
            && self.runners.has_room()
            && let Some(reactor) = self.io.reactor.local()
        {
            self.queues.remote.counters.ended.add(1);
            // Without a reserved stack, it is an ordinary one.
            self.runners.keep(control.take_runner());
            let ended = reactor.borrow_mut().discharge(fiber);
            return drop(ended);
        }
        self.end_slowly(fiber);
    }

    #[inline(never)]
    fn end_slowly(&self, fiber: Started) {
        self.panics.record_end(&self.queues, fiber);
        self.queues.remote.counters.ended.add(1);
        let home = fiber.control().home.get() as usize;
        let (ended, deserted) = self.io.with_reactor(&self.queues, home, |reactor| {
            (
                reactor.discharge(fiber),
                self.queues.migrating && reactor.is_deserted(),
            )
        });
        self.queues.shared.remote(home).forget_name(fiber.control());
        self.return_runner(fiber.control().take_runner());
        if let Some(finish) = fiber.control().take_finish() {
            self.finish_in_fiber(FiberRef::clone(&ended), finish);
        }
        drop(ended);
        if deserted {
            self.queues.record_deserted();
        }
    }

    /// Completes the outcome of a fiber that has ended, in another one, as its value may have a destructor that waits.
    #[cold]
    fn finish_in_fiber(&self, ended: FiberRef, finish: Finish) {
        if self.queues.shared.is_shut_down() || self.queues.shared.is_abandoned() {
            // The other fiber may be abandoned before it starts.
            self.queues.shared.keep_abandoned(FiberRef::clone(&ended));
        }
        let identity = Identity::anonymous(ended.control().spawn_site());
        // Also if the fiber is cancelled before it starts.
        let finish = FinishOnDrop {
            finish: Some(finish),
            _fiber: ended,
        };
        let (fiber, _detached) = Fiber::owning(identity, move || drop(finish));
        self.queues.push_new(fiber);
    }

    /// Passes a fiber that has left its stack on to where it waits. From then on others may resume it.
    #[inline(never)]
    pub(super) fn hand_on(&self, fiber: Started, pause: Pause) {
        self.pass_on(fiber, pause);
    }

    #[inline(always)]
    fn pass_on(&self, fiber: Started, pause: Pause) {
        match pause {
            Pause::Yielded => self.queues.make_ready(fiber),
            Pause::Spent => self.queues.make_spent(fiber),
            Pause::Parked => {
                if !fiber.control().token.settle_park() {
                    self.queues.make_ready(fiber);
                }
            }
            // Its entry is submitted when the loop polls the driver next, not earlier.
            Pause::Submitted => {}
            Pause::Abandoned => self.let_go(fiber),
        }
    }

    /// Gives a new fiber a stack and a scheduler. If there is no memory for a stack, the fiber ends without
    /// having run; it is returned if it can do so now.
    ///
    /// All that few fibers need is in another function, so that this one calls none, and saves no registers.
    #[inline(always)]
    pub(super) fn start(&self, fiber: FiberRef) -> Option<Started> {
        let control = fiber.control();
        if !control.has_rare()
            && !control.limits.are_any()
            && !self.queues.shared.is_shut_down()
            && let Some(reactor) = self.io.reactor.local()
            && let mut reactor = reactor.borrow_mut()
            && reactor.has_room()
            && let Some(runner) = self.runners.take_hot()
        {
            self.queues.remote.counters.fibers.add(1);
            let scheduler = Arc::clone(&self.destination);
            return Some(self.start_at(&mut reactor, fiber, runner, scheduler));
        }
        self.start_slowly(fiber)
    }

    #[inline(never)]
    fn start_slowly(&self, fiber: FiberRef) -> Option<Started> {
        let control = fiber.control();
        let runner = match control.take_reserved() {
            None => self.runners.take(),
            Some(stack) => self.runners.on(stack),
        };
        let runner = match runner {
            Ok(runner) => runner,
            Err(error) => return self.start_without_memory(fiber, error),
        };
        let limits = &control.limits;
        let shut_down = self.queues.shared.is_shut_down();
        if shut_down {
            limits.cancel();
        }
        let cancelled = limits.is_cancelled(shut_down);
        if cancelled && self.queues.shared.is_abandoned() {
            // Its closure is leaked: no code of the fiber runs any more, not even a destructor.
            self.queues.shared.keep_abandoned(fiber);
            self.return_runner(runner);
            return None;
        }
        if cancelled {
            control.refuse(Box::new(Cancelled));
        }
        Some(self.start_on(fiber, runner))
    }

    /// Starts a fiber on a runner that runs no other.
    fn start_on(&self, fiber: FiberRef, runner: Runner) -> Started {
        let scheduler = Arc::clone(&self.destination);
        self.queues.remote.counters.fibers.add(1);
        self.queues.remote.record_name(fiber.control());
        self.io
            .reactor
            .with(|reactor| self.start_at(reactor, fiber, runner, scheduler))
    }

    #[inline(always)]
    #[allow(unsafe_code, reason = "starting a fiber")]
    fn start_at(
        &self,
        reactor: &mut Reactor,
        fiber: FiberRef,
        runner: Runner,
        scheduler: Destination,
    ) -> Started {
        let control = fiber.control();
        // SAFETY: this worker alone has taken the new fiber from a queue, and runs it to its end; the reactor
        // keeps it alive until then.
        unsafe { control.start(fiber.as_ptr(), runner, scheduler) };
        // SAFETY: the reactor keeps it until it has ended, and then no queue holds it.
        let started = unsafe { Started::new(control) };
        control.home.set(self.queues.index as u32);
        reactor.admit(fiber);
        started
    }

    #[cold]
    fn start_without_memory(&self, fiber: FiberRef, error: io::Error) -> Option<Started> {
        let lent = self.queues.shared.shortage.lend(Refused { fiber, error });
        let (refused, stack) = lent?;
        Some(self.start_to_end(refused, self.runners.on_reserve(stack)))
    }

    /// Starts a fiber that only drops its captures.
    fn start_to_end(&self, Refused { fiber, error }: Refused, runner: Runner) -> Started {
        let payload: Payload = Box::new(format!("uthread: no stack for a fiber: {error}"));
        fiber.control().refuse(payload);
        self.start_on(fiber, runner)
    }

    /// Starts a fiber that waits for a stack to end on, if there are both.
    pub(super) fn start_refused(&self) -> Option<Started> {
        if !self.queues.shared.shortage.does_any_wait() {
            return None;
        }
        let runner = self.runners.take().ok()?;
        match self.queues.shared.shortage.take() {
            Some(refused) => Some(self.start_to_end(refused, runner)),
            None => {
                self.return_runner(runner);
                None
            }
        }
    }

    /// Takes back the runner of a fiber that has ended. If another fiber waits for its stack to end on, starts that.
    fn return_runner(&self, runner: Runner) {
        if let Some((refused, runner)) = self.runners.give_back(runner) {
            let fiber = self.start_to_end(refused, runner);
            self.queues.make_ready(fiber);
        }
    }
}

/// Completes the outcome of a fiber, to which it keeps a reference, when it is dropped.
struct FinishOnDrop {
    finish: Option<Finish>,
    _fiber: FiberRef,
}

impl Drop for FinishOnDrop {
    fn drop(&mut self) {
        if let Some(finish) = self.finish.take() {
            finish();
        }
    }
}

/// Runs a fiber until it pauses, or returns `None` when it has ended; and the fiber.
#[allow(unsafe_code, reason = "entering a fiber's stack")]
#[inline(always)]
fn resume(fiber: Started) -> (Started, Option<Pause>) {
    // SAFETY: called by the loop, which has taken the fiber from a queue of started fibers, or from where it
    // waited after it had left its stack. A fiber is in one such place at a time.
    unsafe { fiber.control().resume() }
}

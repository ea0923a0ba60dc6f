//! Starting, running and ending fibers on a worker.

use std::io;
use std::sync::Arc;
use std::thread;

use super::{Worker, current};
use crate::fiber::{Cancelled, Destination, FiberRef, Pause, Payload, Runner, Started};
use crate::sched::budget;
use crate::sched::reactor::Reactor;
use crate::sched::shortage::{Refused, Returned};
use crate::stack::sizes::BATCH_STACKS;

impl Worker {
    /// Runs a fiber until it pauses or ends, in the switch of this number. The caller then [records](Worker::record_no_fiber) that none runs. Returns
    /// `true` if there may be [`Alerts`].
    #[inline(always)]
    pub(super) fn run_fiber(&self, fiber: Started, switch: u64) -> bool {
        let control = fiber.control();
        let counters = &self.queues.remote.counters;
        counters.switches.set(switch);
        counters.running.set(control.id().get());
        counters.spawn_site.store(Some(control.spawn_site()));
        current::set_running(Some(fiber));
        budget::renew();
        let (fiber, pause) = resume(fiber);
        if pause == Some(Pause::Yielded) && !self.alerts.are_any() {
            self.queues.ready.push_staying(fiber);
            return false;
        }
        self.leave_fiber(fiber, pause);
        true
    }

    /// Takes a fiber that has left its stack to where it waits, or to its end.
    #[inline(always)]
    fn leave_fiber(&self, fiber: Started, pause: Option<Pause>) {
        match pause {
            Some(pause) if self.alerts.are_any() => self.pause_alerted(fiber, pause),
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
        match self.do_panics_matter() {
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
            && self.is_kept_by(fiber)
            && pause != Pause::Abandoned
        {
            self.await_kept(fiber, pause);
            resumed = resume(fiber).1;
        }
        current::set_running(None);
        match resumed {
            Some(pause) => {
                if self.queues.migrating {
                    // The panic count of a thread would not move with the fiber.
                    let stays = thread::panicking().then_some(self.queues.index as u32);
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
        if !self.do_panics_matter()
            && !control.has_rare()
            && self.hot_runners.has_room()
            && let Some(reactor) = self.reactor.local()
        {
            self.queues.remote.counters.ended.add(1);
            // Without a reserved stack, it is an ordinary one.
            self.hot_runners.push(control.take_runner());
            let ended = reactor.borrow_mut().discharge(fiber);
            return drop(ended);
        }
        self.end_slowly(fiber);
    }

    #[inline(never)]
    fn end_slowly(&self, fiber: Started) {
        self.record_end_of_panic(fiber);
        self.queues.remote.counters.ended.add(1);
        let home = fiber.control().home.get() as usize;
        let (ended, deserted) = self.with_reactor(home, |reactor| {
            (
                reactor.discharge(fiber),
                self.queues.migrating && reactor.is_deserted(),
            )
        });
        self.queues.shared.remote(home).forget_name(fiber.control());
        self.return_runner(fiber.control().take_runner());
        drop(ended);
        if deserted {
            self.record_deserted();
        }
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
            && let Some(reactor) = self.reactor.local()
            && let mut reactor = reactor.borrow_mut()
            && reactor.has_room()
            && let Some(runner) = self.hot_runners.pop()
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
            None => self.take_runner(),
            Some(stack) => Ok(Runner::new(stack)),
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
        self.reactor
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
        lent.map(|(refused, stack)| self.start_to_end(refused, Runner::new(stack)))
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
        let runner = self.take_runner().ok()?;
        match self.queues.shared.shortage.take() {
            Some(refused) => Some(self.start_to_end(refused, runner)),
            None => {
                self.return_runner(runner);
                None
            }
        }
    }

    fn take_runner(&self) -> io::Result<Runner> {
        if let Some(runner) = self.hot_runners.pop() {
            return Ok(runner);
        }
        let mut stacks = Vec::with_capacity(BATCH_STACKS);
        self.queues.shared.stacks.take(&mut stacks)?;
        let mut runners = stacks.into_iter().map(Runner::new);
        let first = runners.next().expect("the pool adds one at least");
        runners.for_each(|runner| self.hot_runners.push(runner));
        Ok(first)
    }

    fn return_runner(&self, runner: Runner) {
        if !self.queues.shared.stacks.is_ordinary(runner.extent()) {
            return self.return_larger(runner);
        }
        if !self.hot_runners.has_room() {
            self.give_runners(self.hot_runners.take_oldest(BATCH_STACKS));
        }
        self.hot_runners.push(runner);
    }

    /// Returns the stacks of runners that have ended their fibers.
    #[inline(never)]
    #[allow(unsafe_code, reason = "ending coroutines")]
    pub(super) fn give_runners(&self, runners: impl IntoIterator<Item = Runner>) {
        // SAFETY: they run no fibers, and are in no list any more.
        let stacks = runners
            .into_iter()
            .map(|runner| unsafe { runner.into_stack() });
        self.queues.shared.stacks.give(stacks);
    }

    #[cold]
    #[allow(unsafe_code, reason = "ending a coroutine")]
    fn return_larger(&self, runner: Runner) {
        let stacks = &self.queues.shared.stacks;
        // SAFETY: it runs no fiber, and is in no list.
        let stack = unsafe { runner.into_stack() };
        let is_reserve = stacks.is_reserve(&stack);
        match self.queues.shared.shortage.give(stack, is_reserve) {
            Returned::Retained => {}
            Returned::NotNeeded(stack) => stacks.give_larger(stack),
            Returned::For(refused, stack) => {
                let fiber = self.start_to_end(refused, Runner::new(stack));
                self.queues.make_ready(fiber);
            }
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

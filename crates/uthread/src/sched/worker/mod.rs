//! One worker: an operating-system thread that runs fibers, and its loop.
//!
//! ```text
//!   run a batch of fibers -> poll (inbox, timers, completions) -> again while there is work
//!        | none
//!   search (injector, other workers' deques)
//!        | nothing
//!   announce sleep, check once more, wait in the ring
//! ```
//!
//! | module | contents |
//! | --- | --- |
//! | [`thread`] | the threads of workers |
//! | [`fibers`] | starting and ending a fiber |
//! | [`runner_store`] | stacks for its fibers |
//! | [`hot_runners`] | those for the next ones |
//! | [`shared_stacks`] | stacks for calls of its fibers |
//! | [`batch`] | the fibers between two looks at the driver |
//! | [`search`] | an idle worker's search for fibers |
//! | [`running`] | switching to a fiber, and where it goes afterwards |
//! | [`sharing`] | giving started fibers to workers that have fewer |
//! | [`inactive`] | what is left to a worker beyond the number of active ones |
//! | [`sleep`] | announcing sleep, and waking up |
//! | [`shutdown`] | the end of a worker |
//! | [`trim`] | giving back what the stacks of waiting fibers do not use |
//! | [`probes`] | measuring how long a ready fiber waits |
//! | [`neighbors`] | what it has seen of other workers, to decide what it takes from them |
//! | [`calls`] | the calls of the running fiber |
//! | [`panics`] | which fibers panic |
//! | [`io`] | its driver and its reactor |
//! | [`poll_schedule`] | when to submit and to poll |
//! | [`handoff`] | handing fibers to workers, from any thread |
//! | [`queues`] | its queues: spawning, waking, stealing, picking |
//! | [`exit`] | the end of the process on a worker |
//! | [`current`] | the calling thread's worker |
//! | [`alerts`] | the checks to make after a fiber has run |
//!
//! Each part owns its state, and is given the other parts that it uses: the queues, which use none,
//! most often. What the worker keeps is the loop, and the switch from fiber to fiber.
//!
//! The worker's state is touched by its present thread only: by the loop, or by the running fiber. What
//! other workers take from is in [`Remote`](super::shared::Remote).
#![allow(
    clippy::inline_always,
    reason = "hot paths, whose instructions are counted"
)]

mod alerts;
mod batch;
pub(super) mod calls;
pub(crate) mod current;
pub(super) mod exit;
mod fibers;
mod handoff;
mod hot_runners;
mod inactive;
pub(super) mod io;
mod neighbors;
pub(super) mod panics;
mod poll_schedule;
mod probes;
pub(in crate::sched) mod queues;
mod runner_store;
mod running;
mod search;
mod shared_stacks;
mod sharing;
pub(super) mod shutdown;
mod sleep;
pub(crate) mod thread;
mod trim;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use self::fibers::Fibers;
use self::io::Io;
use self::neighbors::Neighbors;
use self::panics::Panics;
use self::probes::Probes;
use self::queues::Queues;
use self::queues::pick::Starter;
use self::shared_stacks::SharedStacks;
use self::sharing::Sharing;
use self::shutdown::Ending;
use self::sleep::Sleep;
use super::shared::{LocalEnds, Mail, Shared};
use crate::driver::Driver;
use crate::driver::native::standard_error;
use crate::fiber::{AnyContext, Started};
use crate::pool::Pool;
use crate::root::EventKind;
use crate::stack::Stack;
use crate::tls::ThreadPointer;

pub(crate) struct Worker {
    pub(super) queues: Queues,
    pub(super) io: Io,
    /// If fibers have thread-local storage of their own.
    tls: Option<ThreadPointer>,
    /// If code of the program is called at each switch. Never set together with the field above.
    context: Option<Arc<dyn AnyContext>>,
    fibers: Fibers,
    shared_stacks: SharedStacks,
    sleep: Sleep,
    ending: Ending,
    neighbors: Neighbors,
    sharing: Sharing,
    panics: Panics,
    probes: Probes,
}

/// The outcome of an iteration of the loop.
pub(crate) enum Tick {
    /// There is more to do.
    Again,
    /// Nothing to do: sleep is announced. Wait at most for this time, then wake up.
    Sleep(Option<Duration>),
    /// The runtime is shut down, and this worker has nothing left.
    End,
    /// The worker was taken from this thread, which ran this fiber.
    Alone(Started),
}

/// The loop and the functions that it calls.
impl Worker {
    /// Creates the worker of the calling thread, on which the driver was created.
    pub(crate) fn new(
        index: usize,
        shared: Arc<Shared>,
        ends: LocalEnds,
        driver: Box<dyn Driver>,
    ) -> std::io::Result<Worker> {
        let remote = Arc::clone(shared.remote(index));
        remote.set_waker(Some(driver.waker()?));
        shared.shortage.add(shared.stacks.take_reserve()?);
        let queues = Queues::new(index, shared, ends);
        let tls = queues
            .shared
            .runners
            .is_some()
            .then(ThreadPointer::of_thread);
        let context = queues.shared.context.clone();
        let io = Io::new(driver);
        let fibers = Fibers::new(&queues);
        let panics = Panics::new(&queues);
        let sharing = Sharing::new(&queues);
        Ok(Worker {
            queues,
            io,
            tls,
            context,
            fibers,
            shared_stacks: SharedStacks::default(),
            sleep: Sleep::default(),
            ending: Ending::default(),
            neighbors: Neighbors::default(),
            sharing,
            panics,
            probes: Probes::default(),
        })
    }

    pub(crate) fn driver_description(&self) -> String {
        self.io.description()
    }

    #[cfg(test)]
    pub(crate) fn assert_nothing_waits(&self, has_ended: bool) {
        // A fiber that has moved sends what it does not need any more.
        self.take_mail();
        let reactor = self.io.reactor.borrow();
        reactor.assert_nothing_waits(has_ended);
    }

    #[cfg(test)]
    pub(crate) fn index(&self) -> usize {
        self.queues.index
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.queues.shared
    }

    /// Returns the runtime's shared state.
    pub(in crate::sched) fn runtime(&self) -> Arc<Shared> {
        Arc::clone(&self.queues.shared)
    }

    /// Returns the pool for blocking calls of the program.
    pub(super) fn pool(&self) -> &Arc<Pool> {
        self.queues.shared.calls.get()
    }

    /// Returns the address of the runtime's shared state, and the worker's index.
    pub(super) fn identify(&self) -> (usize, usize) {
        (Arc::as_ptr(&self.queues.shared).addr(), self.queues.index)
    }

    /// Takes a stack for a call of a fiber, unless the fiber's own is larger, or there is no memory.
    pub(super) fn take_stack(&self, fiber: Started) -> Option<Stack> {
        let pool = &self.queues.shared.stacks;
        let is_ordinary = pool.is_ordinary(fiber.control().extent());
        is_ordinary.then(|| self.shared_stacks.take(pool)).flatten()
    }

    /// Takes back a stack after a call.
    pub(super) fn give_stack(&self, stack: Stack) {
        self.shared_stacks.give(stack, &self.queues.shared.stacks);
    }

    /// Returns the worker's resources at its end.
    pub(crate) fn leave(&self) {
        self.queues.remote.handover.unbind();
        self.queues.remote.ready.take_back();
        self.queues.remote.set_waker(None);
        self.queues.remote.inbox().close();
        self.fibers.leave();
        self.shared_stacks.give_all(&self.queues.shared.stacks);
        if let Some(stack) = self.queues.shared.shortage.remove() {
            self.queues.shared.stacks.give_larger(stack);
        }
        self.queues.shared.record_worker_end();
    }

    /// Runs the loop until the worker ends, or is taken from this thread. Returns the fiber of the
    /// latter case.
    fn run_to_end(&self) -> Option<Started> {
        loop {
            match self.tick() {
                Tick::Again => {}
                Tick::Sleep(timeout) => {
                    self.wait(timeout);
                    self.wake_up();
                }
                Tick::End => return None,
                Tick::Alone(fiber) => return Some(fiber),
            }
        }
    }

    /// Sleeps until an event, or for this time.
    pub(crate) fn wait(&self, timeout: Option<Duration>) {
        self.sleep.wait(&self.queues, &self.io, timeout);
    }

    /// Returns to work.
    pub(crate) fn wake_up(&self) {
        self.sleep.wake_up(&self.queues);
    }

    /// Runs one iteration of the loop. Always inlined: a fiber that waits for a socket takes
    /// several of them.
    #[inline(always)]
    pub(crate) fn tick(&self) -> Tick {
        debug_assert!(
            self.tls.as_ref().is_none_or(ThreadPointer::is_own),
            "only a batch runs with the thread pointer of a fiber"
        );
        let mut found = false;
        if self.queues.shared.is_unusual() {
            match self.begin_unusual_tick() {
                ControlFlow::Continue(has_staying) => found = has_staying,
                ControlFlow::Break(tick) => return tick,
            }
        }
        if found || self.collect_events() {
            return match self.run_batch() {
                ControlFlow::Continue(()) => Tick::Again,
                ControlFlow::Break(fiber) => Tick::Alone(fiber),
            };
        }
        match self.search() {
            ControlFlow::Continue(true) => return Tick::Again,
            ControlFlow::Continue(false) => {}
            ControlFlow::Break(fiber) => return Tick::Alone(fiber),
        }
        if self.ending.is_over(&self.io) && self.queues.remote.inbox().close_if_empty() {
            self.sleep.end_search(&self.queues);
            Tick::End
        } else if self.queues.shared.stacks.release_some() {
            Tick::Again
        } else {
            Tick::Sleep(self.sleep.announce(&self.queues, &self.io, &self.ending))
        }
    }

    /// Collects events from outside. Returns `true` if there is work now. If there was work before,
    /// the ring is only flushed; otherwise `wait` submits operations while it sleeps.
    #[inline(always)]
    fn collect_events(&self) -> bool {
        if self.queues.has_work() {
            self.io.flush(&self.queues);
            self.queues.take_injected();
            self.neighbors.balance(&self.queues, || self.io.now());
            if self.sharing.is_due() {
                self.share_fibers();
            }
        }
        self.poll_sources();
        #[cfg(test)]
        self.share_at_random();
        let found = self.queues.has_work();
        if found {
            self.sleep.end_search(&self.queues);
            if self.io.is_flush_due(&self.queues) {
                self.io.flush(&self.queues);
            }
        }
        found
    }

    /// Follows the state of the runtime. If this worker is inactive, collects what came, and returns
    /// the outcome, or `true` if there are fibers that have to run here.
    #[cold]
    fn begin_unusual_tick(&self) -> ControlFlow<Tick, bool> {
        self.follow_state();
        if self.queues.is_inactive() {
            self.tick_inactive()?;
        }
        ControlFlow::Continue(self.queues.is_inactive())
    }

    /// Begins what the state of the runtime demands of each worker.
    fn follow_state(&self) {
        if self.queues.shared.is_shut_down() {
            self.ending.cancel_all(&self.queues, &self.io);
        }
        self.order_if_others_do();
        self.queues.follow_size();
        if let Some(prioritized) = self.queues.ready.prioritized() {
            prioritized.searches.set(self.sleep.is_searching());
        }
    }

    /// Makes the workers order fibers by their priorities; this one, whose fiber is the caller,
    /// from its next switch on.
    pub(super) fn begin_ordering(&self) {
        self.queues.shared.begin_ordering();
        self.order_if_others_do();
    }

    /// Begins to order fibers if the other workers do.
    fn order_if_others_do(&self) {
        if self.queues.order_if_others_do() {
            self.io.end_batch(&self.queues);
        }
    }

    /// Collects mail, completions and expired timers.
    #[inline(always)]
    fn poll_sources(&self) {
        if self.queues.remote.inbox().has_mail() {
            self.take_mail();
        }
        self.io.poll(&self.queues);
    }

    fn take_mail(&self) {
        for mail in self.queues.remote.inbox().take() {
            match mail {
                Mail::Ready(fiber) => self.queues.make_ready_at_home(fiber),
                Mail::Moved(fiber) => self.adopt(fiber),
                Mail::End(token) => self.io.reactor.borrow_mut().end(token),
                Mail::ForgetWake(timer) => self.io.reactor.borrow_mut().forget_wake(timer),
                Mail::Alone(fiber) => {
                    self.queues.shared.outside.fetch_sub(1, Ordering::Relaxed);
                    if let Some(record) = fiber.control().record() {
                        record.claim.name(std::ptr::from_ref(self).cast());
                    }
                    if self.queues.is_traced() {
                        let id = fiber.control().id().get();
                        self.queues.trace_moment(EventKind::Return, id, 0);
                    }
                    self.queues.make_ready(fiber);
                }
                Mail::New(fiber) => {
                    self.queues.remote.count_handed_taken();
                    if self.queues.is_inactive() {
                        self.queues.shared.inject(fiber);
                    } else if let Some(fiber) = self.start(fiber) {
                        self.queues.make_ready(fiber);
                    }
                }
                Mail::Interrupt(fiber) => self.io.reactor.borrow_mut().interrupt(fiber.control()),
                Mail::Trim(first) => self.trim_stacks(first),
                Mail::Probe => self.probes.take(&self.queues),
                Mail::Trace(is_traced) => self.queues.set_traced(is_traced),
                Mail::List(listing) => {
                    let (reactor, now) = (self.io.reactor.borrow(), self.io.now());
                    listing.add(self.shared(), &self.queues.remote, reactor.fibers(), now);
                }
            }
        }
    }
}

/// Aborts the process if dropped while unwinding. The panic of a fiber is its result; a panic of
/// the scheduler itself must not continue, not even to destroy suspended fibers whose memory the
/// kernel still writes to.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        standard_error::print(format_args!(
            "uthread: a worker failed; the message is above\n"
        ));
        std::process::abort();
    }
}

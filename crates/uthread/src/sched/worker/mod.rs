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
//! | file | contents |
//! | --- | --- |
//! | [`alerts`] | the checks to make after a fiber has run |
//! | [`batch`] | the fibers between two looks at the driver |
//! | [`fibers`] | starting, running and ending a fiber |
//! | [`runner_store`] | stacks for its fibers |
//! | [`hot_runners`] | those for the next ones |
//! | [`calls`] | the calls of the running fiber |
//! | [`handoff`] | handing fibers to workers, from any thread |
//! | [`search`] | an idle worker's search for fibers |
//! | [`ordering`] | picking fibers by their priorities |
//! | [`neighbors`] | what it has seen of other workers, to decide what it takes from them |
//! | [`queues`] | its queues: spawning, waking, stealing |
//! | [`sleep`] | announcing sleep, and waking up |
//! | [`trim`] | giving back what the stacks of waiting fibers do not use |
//! | [`panics`] | which fibers panic |
//! | [`shutdown`] | the end of a worker |
//! | [`exit`] | the end of the process on a worker |
//! | [`current`] | the calling thread's worker |
//!
//! The worker's state is touched by its own thread only: by the loop, or by the running fiber. What other workers take
//! from is in [`Remote`](super::shared::Remote) and, where fibers migrate, in its [`Reactor`].

mod alerts;
mod batch;
pub(super) mod calls;
pub(crate) mod current;
pub(super) mod exit;
mod fibers;
mod handoff;
mod hot_runners;
mod neighbors;
mod ordering;
pub(super) mod panics;
pub(in crate::sched) mod queues;
mod runner_store;
mod search;
pub(super) mod shutdown;
mod sleep;
mod trim;

use std::cell::RefCell;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use self::batch::Batch;
use self::neighbors::Neighbors;
use self::panics::Panics;
use self::queues::Queues;
use self::runner_store::RunnerStore;
use self::shutdown::Ending;
use self::sleep::Sleep;
use super::local_or_shared::LocalOrShared;
use super::reactor::Reactor;
use super::shared::{LocalEnds, Mail, Shared};
use crate::driver::native::blocked::Task;
use crate::driver::{Driver, Pair, Token};
use crate::fiber::{Destination, Scheduler};
use crate::tls::Tls;

pub(crate) struct Worker {
    pub(super) queues: Queues,
    /// The scheduler of the fibers that it starts.
    destination: Destination,
    driver: RefCell<Box<dyn Driver>>,
    reactor: LocalOrShared<Reactor>,
    /// If fibers have thread-local storage of their own.
    tls: Option<Tls>,
    runners: RunnerStore,
    batch: Batch,
    sleep: Sleep,
    ending: Ending,
    neighbors: Neighbors,
    panics: Panics,
}

/// The outcome of an iteration of the loop.
pub(crate) enum Tick {
    /// There is more to do.
    Again,
    /// Nothing to do: sleep is announced. Wait at most for this time, then wake up.
    Sleep(Option<Duration>),
    /// The runtime is shut down, and this worker has nothing left.
    End,
}

/// The loop and the functions that it calls.
impl Worker {
    /// Creates the worker of the calling thread, on which the driver was created.
    pub(crate) fn new(
        index: usize,
        shared: Arc<Shared>,
        ends: LocalEnds,
        (driver, completions): Pair,
    ) -> io::Result<Worker> {
        let reactor = Reactor::new(completions, driver.now());
        let remote = Arc::clone(shared.remote(index));
        remote.set_waker(Some(driver.waker()?));
        shared.shortage.add(shared.stacks.take_reserve()?);
        let queues = Queues::new(index, Arc::clone(&shared), ends);
        let runners = RunnerStore::new(Arc::clone(&shared));
        let tls = queues.shared.runners.is_some().then(Tls::of_worker);
        let migrating = queues.migrating;
        let reactor = match migrating {
            false => LocalOrShared::Local(RefCell::new(reactor)),
            true => LocalOrShared::Shared(Arc::clone(
                remote.reactor.get_or_init(|| Arc::new(Mutex::new(reactor))),
            )),
        };
        let destination: Arc<dyn Scheduler> = match migrating {
            false => Arc::clone(&remote) as Arc<dyn Scheduler>,
            true => shared as Arc<dyn Scheduler>,
        };
        let panics = Panics::new(&queues);
        Ok(Worker {
            queues,
            destination: Arc::new(destination),
            driver: RefCell::new(driver),
            reactor,
            tls,
            runners,
            batch: Batch::default(),
            sleep: Sleep::default(),
            ending: Ending::default(),
            neighbors: Neighbors::default(),
            panics,
        })
    }

    pub(crate) fn driver_description(&self) -> String {
        self.driver.borrow().description()
    }

    /// Calls `action` with its driver.
    pub(super) fn with_driver<R>(&self, action: impl FnOnce(&mut dyn Driver) -> R) -> R {
        action(&mut **self.driver.borrow_mut())
    }

    #[cfg(test)]
    pub(crate) fn assert_nothing_waits(&self) {
        self.reactor.lock().assert_nothing_waits();
    }

    #[cfg(test)]
    pub(crate) fn index(&self) -> usize {
        self.queues.index
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.queues.shared
    }

    /// Returns the address of the runtime's shared state, and the worker's index.
    pub(super) fn identify(&self) -> (usize, usize) {
        (Arc::as_ptr(&self.queues.shared).addr(), self.queues.index)
    }

    /// Runs fibers until the runtime is shut down and nothing is left.
    pub(crate) fn run(&self) {
        let bomb = AbortOnUnwind;
        self.queues.remote.task.get_or_init(Task::current);
        current::enter(self, || self.run_to_end());
        self.leave();
        std::mem::forget(bomb);
    }

    /// Returns the worker's resources at its end.
    pub(crate) fn leave(&self) {
        self.queues.remote.set_waker(None);
        self.queues.remote.inbox().close();
        self.reactor.lock().shut();
        self.runners.give_all();
        if let Some(stack) = self.queues.shared.shortage.remove() {
            self.queues.shared.stacks.give_larger(stack);
        }
        // For the workers that have not ended.
        self.queues.remote.rests.store(true, Ordering::Relaxed);
        self.queues.shared.record_worker_end();
    }

    fn run_to_end(&self) {
        loop {
            match self.tick() {
                Tick::Again => {}
                Tick::Sleep(timeout) => {
                    if self.close_reactor() {
                        self.wait(timeout);
                    }
                    self.wake_up();
                }
                Tick::End => break,
            }
        }
    }

    /// Runs one iteration of the loop.
    pub(crate) fn tick(&self) -> Tick {
        if self.look_around() {
            self.run_batch();
            Tick::Again
        } else if self.search() {
            Tick::Again
        } else if self.has_ended() && self.queues.remote.inbox().close_if_empty() {
            self.end_search();
            Tick::End
        } else if self.queues.shared.stacks.release_some() {
            Tick::Again
        } else {
            Tick::Sleep(self.announce_sleep())
        }
    }

    /// Collects events from outside. Returns `true` if there is work now. If there was work before, the ring
    /// is only flushed; otherwise `wait` submits operations while it sleeps.
    #[inline(always)]
    fn look_around(&self) -> bool {
        if self.queues.shared.is_unusual() {
            self.follow_state();
        }
        if self.queues.has_work() {
            self.flush();
            self.queues.take_in_injected();
            self.queues.take_in_woken();
            self.neighbors.balance(&self.queues, || self.now());
        }
        self.take_in();
        let found = self.queues.has_work();
        if found {
            self.end_search();
            if self.is_flush_due() {
                self.flush();
            }
        }
        found
    }

    /// Begins what the state of the runtime demands of each worker.
    #[inline(never)]
    fn follow_state(&self) {
        if self.queues.shared.is_shut_down() {
            self.cancel_all();
        }
        self.order_if_others_do();
        if let Some(classes) = self.queues.ready.classes() {
            classes.searches.set(self.sleep.searching.get());
        }
    }

    /// Collects mail, completions and expired timers, and publishes the driver's counts: the last iteration
    /// before a sleep leaves them complete.
    #[inline(always)]
    fn take_in(&self) {
        if self.queues.remote.inbox().has_mail() {
            self.take_mail();
        }
        self.collect();
        self.expire_timers();
        let counts = self.driver.borrow().counts();
        self.queues.remote.counters.set_driver(counts);
    }

    #[inline(never)]
    fn take_mail(&self) {
        for mail in self.queues.remote.inbox().take() {
            match mail {
                Mail::Ready(fiber) => self.queues.make_ready_here(fiber),
                Mail::New(fiber) => {
                    self.queues.remote.count_handed_taken();
                    if let Some(fiber) = self.start(fiber) {
                        self.queues.make_ready_here(fiber);
                    }
                }
                Mail::Interrupt(fiber) => self.reactor.lock().interrupt(fiber.control()),
                Mail::Trim(first) => self.trim_stacks(first),
            }
        }
    }

    /// Makes fibers ready whose operations have completed.
    fn collect(&self) {
        let mut reactor = self.reactor.lock();
        let count = reactor.collect(|fiber, first| self.queues.make_ready_as(fiber, first));
        let deserted = reactor.is_deserted();
        drop(reactor);
        self.queues.remote.counters.completions.add(count);
        if count > 0 && deserted {
            self.record_deserted();
        }
    }

    fn expire_timers(&self) {
        let mut reactor = self.reactor.lock();
        if reactor.has_timers() {
            reactor.expire(self.now(), |fiber| self.queues.make_ready(fiber));
        }
        let is_any_late = reactor.is_any_late();
        drop(reactor);
        if is_any_late {
            self.cancel_late();
        }
    }

    /// Requests the end of late operations.
    fn cancel_late(&self) {
        while let Some(token) = self.take_late() {
            // Under the lock: otherwise another worker could hand out the last completion in between.
            let mut reactor = self.reactor.lock();
            if reactor.has(token) {
                self.driver.borrow_mut().cancel(token);
                self.mark_unflushed();
            }
        }
    }

    fn take_late(&self) -> Option<Token> {
        self.reactor.lock().take_late()
    }

    /// Makes room in a driver that is full.
    #[cold]
    fn make_room(&self) {
        self.flush();
        self.collect();
    }

    /// Returns the current time of the driver's clock.
    pub(super) fn now(&self) -> Instant {
        self.driver.borrow().now()
    }
}

/// Aborts the process if dropped while unwinding. The panic of a fiber is its result; a panic of the
/// scheduler itself must not continue, not even to destroy suspended fibers whose memory the kernel still
/// writes to.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        eprintln!("uthread: a worker failed; the message is above");
        std::process::abort();
    }
}

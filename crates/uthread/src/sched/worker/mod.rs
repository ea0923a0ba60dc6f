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
//! [`search`] is how an idle worker looks for work, [`fibers`] how a fiber starts, runs and ends here, [`calls`] what the
//! running fiber asks for, [`migration`] what it takes from others while it is busy, or once they have started it, [`panics`] which
//! fibers panic, [`shutdown`] how it ends.
//!
//! The worker's state is touched by its own thread only: by the loop, or by the fiber that runs. What
//! others take from is in [`Remote`] and, where fibers migrate, at its [`Reactor`].

pub(super) mod calls;
pub(crate) mod current;
pub(super) mod exit;
mod fibers;
mod handoff;
mod migration;
pub(super) mod panics;
mod search;
pub(super) mod shutdown;

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_deque::Worker as Deque;

use self::panics::Panics;
use super::local_or_shared::LocalOrShared;
use super::reactor::Reactor;
use super::ready::Ready;
use super::shared::{Mail, Queues, Remote, Shared};
use crate::driver::native::blocked::Task;
use crate::driver::{Driver, Pair, Token};
use crate::fiber::{FiberRef, Started};
use crate::stack::Stack;

/// Number of fibers that run before the worker checks timers, inbox and ring: few enough that none waits
/// long, enough that one system call serves many.
const BATCH_FIBERS: usize = 64;

/// Time after which a batch ends early if submissions wait for its end, as fibers may compute between their
/// calls. Relative to this time, a system call costs a percent or two.
const BATCH_TIME_MAX: Duration = Duration::from_micros(50);

/// Time after which a batch ends early if no submissions wait, but fibers wait for events that the worker has
/// to poll for.
const BLIND_TIME_MAX: Duration = Duration::from_micros(400);

/// Number of clock reads for this that are skipped after each one: there are several per fiber, and they cost
/// as much as the rest of a switch.
const LOOKS_SPARED: u32 = 7;

/// Every fourth fiber to run is the oldest new one, so that neither fibers that never wait nor newer ones can
/// keep it from starting.
const NEW_FIBER_TURN: usize = 4;

pub(crate) struct Worker {
    index: usize,
    /// `true` if fibers migrate; [`migration`] contains the consequences.
    migrating: bool,
    shared: Arc<Shared>,
    remote: Arc<Remote>,
    /// New fibers; other workers steal from it.
    deque: Deque<FiberRef>,
    ready: Ready,
    driver: RefCell<Box<dyn Driver>>,
    reactor: LocalOrShared<Reactor>,
    hot_stacks: RefCell<Vec<Stack>>,
    /// The running fiber; `None` while the loop runs.
    running: Cell<Option<Started>>,
    /// Number of fibers that run before the oldest new one.
    turns_to_new: Cell<usize>,
    /// The end of the batch if the driver has operations to submit.
    flush_at: Cell<Option<Instant>>,
    /// The end of the batch if a fiber waits for an event that the driver has to poll for.
    look_at: Cell<Option<Instant>>,
    /// Number of clock reads for this that are still skipped.
    looks_spared: Cell<u32>,
    /// `true` while this worker is counted as searching.
    searching: Cell<bool>,
    /// `true` if the last check before a sleep saw work that any worker may take.
    saw_work: Cell<bool>,
    cancelled_all: Cell<bool>,
    abandoned_all: Cell<bool>,
    /// The count of switches after the end of the runtime, and since when it has not changed.
    still_since: Cell<Option<(u64, Instant)>>,
    /// Number of sleeps.
    sleeps: Cell<u32>,
    /// Number of checks of other workers' queues.
    balancing: Cell<usize>,
    /// Number of switches of each worker at the last check of its next fiber.
    switches_seen: RefCell<Vec<u64>>,
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
        Queues { deque, ready }: Queues,
        (driver, completions): Pair,
    ) -> io::Result<Worker> {
        let reactor = Reactor::new(completions, driver.now());
        let remote = Arc::clone(shared.remote(index));
        remote.set_waker(Some(driver.waker()?));
        shared.shortage.add(shared.stacks.take_reserve()?);
        let migrating = shared.is_migrating();
        let reactor = match migrating {
            false => LocalOrShared::Local(RefCell::new(reactor)),
            true => LocalOrShared::Shared(Arc::clone(
                remote.reactor.get_or_init(|| Arc::new(Mutex::new(reactor))),
            )),
        };
        Ok(Worker {
            index,
            migrating,
            shared,
            remote,
            deque,
            ready,
            driver: RefCell::new(driver),
            reactor,
            hot_stacks: RefCell::default(),
            running: Cell::default(),
            turns_to_new: Cell::new(NEW_FIBER_TURN),
            flush_at: Cell::new(None),
            look_at: Cell::new(None),
            looks_spared: Cell::new(0),
            searching: Cell::new(false),
            saw_work: Cell::new(false),
            cancelled_all: Cell::new(false),
            abandoned_all: Cell::new(false),
            still_since: Cell::new(None),
            sleeps: Cell::new(0),
            balancing: Cell::new(0),
            switches_seen: RefCell::default(),
            panics: Panics::new(),
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
        self.index
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Returns the address of the runtime's shared state, and the worker's index.
    pub(super) fn identify(&self) -> (usize, usize) {
        (Arc::as_ptr(&self.shared).addr(), self.index)
    }

    /// Runs fibers until the runtime is shut down and nothing is left.
    pub(crate) fn run(&self) {
        let bomb = AbortOnUnwind;
        self.remote.task.get_or_init(Task::current);
        current::enter(self, || self.run_to_end());
        self.leave();
        std::mem::forget(bomb);
    }

    /// Returns the worker's resources at its end.
    pub(crate) fn leave(&self) {
        self.remote.set_waker(None);
        self.remote.inbox().close();
        self.reactor.lock().shut();
        self.shared.stacks.give(self.hot_stacks.take());
        if let Some(stack) = self.shared.shortage.remove() {
            self.shared.stacks.give_larger(stack);
        }
        // For the workers that have not ended.
        self.remote.rests.store(true, Ordering::Relaxed);
        self.shared.record_worker_end();
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
        self.run_batch();
        if self.look_around() || self.search() {
            Tick::Again
        } else if self.has_ended() {
            self.end_search();
            Tick::End
        } else if self.shared.stacks.release_some() {
            Tick::Again
        } else {
            Tick::Sleep(self.announce_sleep())
        }
    }

    fn run_batch(&self) {
        for _ in 0..BATCH_FIBERS {
            match self.next_fiber() {
                Some(fiber) => self.run_fiber(fiber),
                None => break,
            }
            if self.is_flush_due() {
                break;
            }
        }
    }

    fn next_fiber(&self) -> Option<Started> {
        // Counted across batches, which may consist of a single fiber.
        let turn = self.turns_to_new.get();
        if turn > 1 {
            self.turns_to_new.set(turn - 1);
            return self.ready.pop().or_else(|| self.start_newest());
        }
        self.turns_to_new.set(NEW_FIBER_TURN);
        self.start_oldest().or_else(|| self.ready.pop())
    }

    /// Returns `true` if submissions have waited for long, or must be submitted for events to occur; or if
    /// events have not been polled for long.
    fn is_flush_due(&self) -> bool {
        if let Some(flush_at) = self.flush_at.get() {
            let driver = self.driver.borrow();
            return driver.is_flush_due() || driver.now() >= flush_at;
        }
        let Some(look_at) = self.look_at.get() else {
            return false;
        };
        if let Some(spared) = self.looks_spared.get().checked_sub(1) {
            self.looks_spared.set(spared);
            return false;
        }
        // Once due, it remains so until the poll.
        let is_due = self.now() >= look_at;
        self.looks_spared.set(if is_due { 0 } else { LOOKS_SPARED });
        is_due
    }

    /// Submits the driver's operations without sleeping.
    fn flush(&self) {
        self.mark_flushed();
        self.driver.borrow_mut().flush();
    }

    /// Records that the driver has operations to submit.
    fn mark_unflushed(&self) {
        if self.flush_at.get().is_none() {
            self.flush_at.set(Some(self.now() + BATCH_TIME_MAX));
        }
    }

    /// Records that a fiber waits for an event that the driver has to poll for.
    fn count_awaited(&self) {
        if self.look_at.get().is_none() {
            self.look_at.set(Some(self.now() + BLIND_TIME_MAX));
        }
    }

    /// Records that the driver is about to submit its operations and to poll.
    fn mark_flushed(&self) {
        self.flush_at.set(None);
        self.look_at.set(None);
    }

    fn start_newest(&self) -> Option<Started> {
        self.deque.pop().and_then(|fiber| self.start(fiber))
    }

    fn start_oldest(&self) -> Option<Started> {
        // Checked first: a steal costs a fence, even if there is nothing.
        if self.deque.is_empty() {
            return None;
        }
        self.remote
            .take_oldest()
            .and_then(|fiber| self.start(fiber))
    }

    /// Collects events from outside. Returns `true` if there is work now. If there was work before, the ring
    /// is only flushed; otherwise `wait` submits operations while it sleeps.
    #[inline(always)]
    fn look_around(&self) -> bool {
        if self.shared.is_shut_down() {
            self.cancel_all();
        }
        if self.has_own_work() {
            self.flush();
            if let Some(fiber) = self.shared.take_injected() {
                self.remote.counters.injected.add(1);
                // The worker that was woken for it may have missed it while it moved.
                self.spawn(fiber);
            }
            self.take_in_woken();
            self.balance();
        }
        self.take_in();
        let found = self.has_own_work();
        if found {
            self.end_search();
            if self.is_flush_due() {
                self.flush();
            }
        }
        found
    }

    /// Collects mail, completions and expired timers, and publishes the driver's counts: the last iteration
    /// before a sleep leaves them complete.
    #[inline(always)]
    fn take_in(&self) {
        for mail in self.remote.inbox().take() {
            match mail {
                Mail::Ready(fiber) => self.ready.push_staying(fiber),
                Mail::Interrupt(fiber) => self.reactor.lock().interrupt(fiber.control()),
            }
        }
        self.collect();
        self.expire_timers();
        let counts = self.driver.borrow().counts();
        self.remote.counters.set_driver(counts);
    }

    /// Makes fibers ready whose operations have completed.
    fn collect(&self) {
        let mut reactor = self.reactor.lock();
        let count = reactor.collect(|fiber, urgent| self.make_ready_as(fiber, urgent));
        let deserted = reactor.is_deserted();
        drop(reactor);
        self.remote.counters.completions.add(count);
        if count > 0 && deserted {
            self.record_deserted();
        }
    }

    fn expire_timers(&self) {
        let mut reactor = self.reactor.lock();
        if reactor.has_timers() {
            reactor.expire(self.now(), |fiber| self.make_ready(fiber));
        }
        drop(reactor);
        self.cancel_late();
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

    fn has_own_work(&self) -> bool {
        !self.ready.is_empty() || !self.deque.is_empty()
    }

    /// Announces sleep and checks for work once more. Returns how long to wait. README.md describes the
    /// protocol.
    fn announce_sleep(&self) -> Option<Duration> {
        self.shared.idle().announce_sleep(&self.remote.sleeper);
        self.searching.set(false);
        let saw_work = self.shared.has_stealable_work();
        self.saw_work.set(saw_work);
        let has_work = saw_work || self.remote.inbox().has_mail() || self.is_end_due();
        if has_work {
            return Some(Duration::ZERO);
        }
        let next = self.reactor.lock().next_deadline();
        let next = next.map(|deadline| deadline.saturating_duration_since(self.now()));
        match self.cancelled_all.get() {
            false => next,
            true => self.rest(next),
        }
    }

    /// Keeps other workers from the reactor during the sleep. Returns `false` if the sleep is over already.
    #[inline(always)]
    pub(crate) fn close_reactor(&self) -> bool {
        self.reactor.lock().reap_gate.close()
    }

    pub(crate) fn wait(&self, timeout: Option<Duration>) {
        let mut driver = self.driver.borrow_mut();
        let begin = driver.now();
        self.mark_flushed();
        driver.wait(timeout);
        self.sleeps.update(|sleeps| sleeps.wrapping_add(1));
        exit::record_sleep(self.sleeps.get());
        let idle = driver.now().saturating_duration_since(begin);
        self.remote.counters.add_idle(idle);
    }

    /// Lets other workers access the reactor again.
    fn open_reactor(&self) {
        self.reactor.lock().reap_gate.open();
    }

    pub(crate) fn wake_up(&self) {
        self.open_reactor();
        if self.cancelled_all.get() {
            self.remote.rests.store(false, Ordering::Relaxed);
        }
        let idle = self.shared.idle();
        let searching = idle.end_sleep(&self.remote.sleeper, self.saw_work.get());
        self.searching.set(searching);
        self.shared.notifier.notify();
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

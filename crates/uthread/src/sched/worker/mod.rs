//! One worker: an operating-system thread that runs fibers, and its loop.
//!
//! ```text
//!   run a batch of fibers -> look around (inbox, timers, completions) -> again while there is work
//!        | none
//!   search (injector, other workers' deques)
//!        | nothing
//!   announce sleep, look once more, wait in the ring
//! ```
//!
//! The worker's state is touched by its own thread only: by the loop, or by the fiber that runs.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_deque::Worker as Deque;
use slab::Slab;

use super::current;
use super::operations::Operations;
use super::shared::{Remote, Shared};
use super::timers::Timers;
use crate::driver::{Token, Uring};
use crate::fiber::control::Resumed;
use crate::fiber::{Body, Cancelled, Control, FiberRef, Home, Pause};
use crate::op::{self, Operation};
use crate::stack::Stack;

/// Fibers run before the worker looks at timers, inbox and ring again: few enough that none waits
/// long, enough that one system call serves many.
const BATCH_FIBERS: usize = 64;

/// Every eighth turn takes the oldest new fiber first, so that neither fibers that never wait nor a
/// stream of newer ones can keep it from starting.
const NEW_FIBER_TURN: usize = 8;

/// Stacks a worker keeps for its next fibers, warm in the cache: one batch's worth.
const HOT_STACKS: usize = BATCH_FIBERS;

/// Calls that fail with `ECANCELED`, and fibers spawned in vain, before a fiber is unwound: one that
/// handles the errors ends long before; a loop that only tries again would never.
const REFUSALS_MAX: u32 = 100;

/// What an expired timer does.
pub(crate) enum Expiry {
    Resume(FiberRef),
    TimeOut(Token),
}

pub(crate) struct Worker {
    index: usize,
    shared: Arc<Shared>,
    remote: Arc<Remote>,
    /// New fibers; other workers steal from it.
    deque: Deque<FiberRef>,
    /// Started fibers that can go on. Each is in it at most once.
    ready: RefCell<VecDeque<FiberRef>>,
    driver: RefCell<Uring>,
    operations: RefCell<Operations>,
    timers: RefCell<Timers<Expiry>>,
    hot_stacks: RefCell<Vec<Stack>>,
    /// Every fiber that started here and has not ended.
    live: RefCell<Slab<FiberRef>>,
    /// The running fiber, until it hands its reference to whoever resumes it.
    current: RefCell<Option<FiberRef>>,
    /// The running fiber's control block; null while the loop runs.
    running: Cell<*const Control>,
    /// Whether this worker is counted as searching.
    searching: Cell<bool>,
    cancelled_all: Cell<bool>,
}

/// The loop and what it calls.
impl Worker {
    /// Makes the worker for the calling thread, its ring included.
    pub(crate) fn new(
        index: usize,
        shared: Arc<Shared>,
        deque: Deque<FiberRef>,
    ) -> io::Result<Worker> {
        let driver = Uring::new()?;
        let remote = Arc::clone(shared.remote(index));
        remote.set_waker(Some(driver.waker()?));
        Ok(Worker {
            index,
            shared,
            remote,
            deque,
            ready: RefCell::default(),
            driver: RefCell::new(driver),
            operations: RefCell::default(),
            timers: RefCell::new(Timers::new(Instant::now())),
            hot_stacks: RefCell::default(),
            live: RefCell::default(),
            current: RefCell::default(),
            running: Cell::new(ptr::null()),
            searching: Cell::new(false),
            cancelled_all: Cell::new(false),
        })
    }

    pub(crate) fn driver_description(&self) -> String {
        self.driver.borrow().description()
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Runs fibers until the runtime is shut down and nothing is left.
    pub(crate) fn run(&self) {
        let bomb = AbortOnUnwind;
        current::enter(self, || self.run_to_end());
        self.remote.set_waker(None);
        for stack in self.hot_stacks.take() {
            self.shared.stacks.give(stack);
        }
        std::mem::forget(bomb);
    }

    fn run_to_end(&self) {
        loop {
            self.run_batch();
            if self.look_around() || self.search() {
                continue;
            }
            if self.has_ended() {
                break;
            }
            self.sleep();
        }
    }

    fn run_batch(&self) {
        for turn in 1..=BATCH_FIBERS {
            let next = if turn % NEW_FIBER_TURN == 0 {
                self.remote.take_oldest().or_else(|| self.next_ready())
            } else {
                self.next_ready().or_else(|| self.deque.pop())
            };
            match next {
                Some(fiber) => self.run_fiber(fiber),
                None => break,
            }
        }
    }

    fn next_ready(&self) -> Option<FiberRef> {
        self.ready.borrow_mut().pop_front()
    }

    /// Takes in what happened outside; whether there is work now. Where there was work before, the
    /// ring is only flushed: with none left, `sleep` passes submissions on while it waits.
    fn look_around(&self) -> bool {
        if self.shared.is_shut_down() {
            self.cancel_all();
        }
        if self.has_own_work() {
            self.driver.borrow_mut().flush();
            if let Some(fiber) = self.shared.take_injected() {
                // Whoever was woken for it may have missed it on its way.
                self.spawn(fiber);
            }
        }
        self.take_in();
        let found = self.has_own_work();
        if found {
            self.end_search();
        }
        found
    }

    /// Takes in mail, completions and expired timers.
    fn take_in(&self) {
        self.ready.borrow_mut().extend(self.remote.inbox().take());
        self.reap();
        self.expire_timers();
    }

    fn reap(&self) {
        let mut operations = self.operations.borrow_mut();
        let mut ready = self.ready.borrow_mut();
        let mut timers = self.timers.borrow_mut();
        self.driver.borrow_mut().reap(|token, result| {
            let (fiber, timer) = operations.complete(token, result);
            if let Some(timer) = timer {
                timers.cancel(timer);
            }
            ready.push_back(fiber);
        });
    }

    fn expire_timers(&self) {
        let mut timers = self.timers.borrow_mut();
        if !timers.is_empty() {
            timers.expire(Instant::now(), |expiry| self.act_on(expiry));
        }
    }

    fn act_on(&self, expiry: Expiry) {
        match expiry {
            Expiry::Resume(fiber) => self.make_ready(fiber),
            Expiry::TimeOut(token) => {
                if self.operations.borrow_mut().time_out(token) {
                    self.driver.borrow_mut().cancel(token);
                }
            }
        }
    }

    fn has_own_work(&self) -> bool {
        !self.ready.borrow().is_empty() || !self.deque.is_empty()
    }

    /// Looks for new fibers elsewhere; runs one if it finds any.
    fn search(&self) -> bool {
        if !self.searching.replace(true) {
            self.shared.idle().begin_search();
        }
        match self.shared.steal(self.index, &self.deque) {
            Some(fiber) => {
                self.end_search();
                self.run_fiber(fiber);
                true
            }
            None => false,
        }
    }

    fn end_search(&self) {
        if self.searching.replace(false)
            && self.shared.idle().end_search()
            && self.shared.has_stealable_work()
        {
            self.shared.wake_one();
        }
    }

    /// Sleeps in the ring until there is something to do. The protocol is in README.md.
    fn sleep(&self) {
        self.shared.idle().announce_sleep(&self.remote.sleeper);
        self.searching.set(false);
        let saw_work = self.shared.has_stealable_work();
        let has_work = saw_work
            || self.remote.inbox().has_mail()
            || (self.shared.is_shut_down() && !self.cancelled_all.get());
        let timeout = if has_work {
            Some(Duration::ZERO)
        } else {
            let next = self.timers.borrow().next_deadline();
            next.map(|deadline| deadline.saturating_duration_since(Instant::now()))
        };
        self.driver.borrow_mut().wait(timeout);
        let idle = self.shared.idle();
        self.searching
            .set(idle.end_sleep(&self.remote.sleeper, saw_work));
    }

    fn run_fiber(&self, fiber: FiberRef) {
        let control: *const Control = fiber.control();
        if !fiber.control().has_started() && !self.start(&fiber) {
            return;
        }
        *self.current.borrow_mut() = Some(fiber);
        self.running.set(control);
        let resumed = resume(control);
        self.running.set(ptr::null());
        match resumed {
            Resumed::Paused(Pause::Held) => {}
            Resumed::Paused(Pause::Parked) => {
                let fiber = self.take_current();
                if !fiber.control().token.settle_park() {
                    self.make_ready(fiber);
                }
            }
            Resumed::Ended(stack) => {
                let fiber = self.take_current();
                let registration = fiber.control().registration.get();
                self.live.borrow_mut().remove(registration);
                self.return_stack(stack);
            }
        }
    }

    /// Gives a new fiber a stack and a home; false if there is no memory for one, and the fiber was
    /// abandoned.
    #[allow(unsafe_code, reason = "starting a fiber")]
    fn start(&self, fiber: &FiberRef) -> bool {
        let hot = self.hot_stacks.borrow_mut().pop();
        let stack = match hot.map_or_else(|| self.shared.stacks.take(), Ok) {
            Ok(stack) => stack,
            Err(error) => {
                fiber.abandon(Box::new(format!("uthread: no stack for a fiber: {error}")));
                return false;
            }
        };
        let registration = self.live.borrow_mut().insert(Arc::clone(fiber));
        fiber.control().registration.set(registration);
        let entry = match self.shared.is_shut_down() {
            false => |body: &dyn Body| body.run(),
            true => |body: &dyn Body| body.abandon(Box::new(Cancelled)),
        };
        let body: *const dyn Body = Arc::as_ptr(fiber);
        let home: Arc<dyn Home> = Arc::clone(&self.remote) as Arc<dyn Home>;
        // SAFETY: a fiber that has not started was taken from a queue by this worker alone, which
        // runs it to its end; `live` keeps it alive until then.
        unsafe { fiber.control().start(body, entry, stack, home) };
        true
    }

    fn return_stack(&self, stack: Stack) {
        let mut hot = self.hot_stacks.borrow_mut();
        if hot.len() < HOT_STACKS {
            hot.push(stack);
        } else {
            self.shared.stacks.give(stack);
        }
    }
}

/// Shutting down.
impl Worker {
    fn has_ended(&self) -> bool {
        self.cancelled_all.get()
            && self.live.borrow().is_empty()
            && self.operations.borrow().is_empty()
    }

    /// Cancels what is left, once: operations, sleeps, parked fibers. New calls are refused.
    fn cancel_all(&self) {
        if self.cancelled_all.replace(true) {
            return;
        }
        for token in self.operations.borrow().tokens() {
            self.driver.borrow_mut().cancel(token);
        }
        self.operations.borrow_mut().forget_timers();
        for expiry in self.timers.borrow_mut().drain() {
            if let Expiry::Resume(fiber) = expiry {
                self.make_ready(fiber);
            }
        }
        let live: Vec<_> = self
            .live
            .borrow()
            .iter()
            .map(|(_, fiber)| Arc::clone(fiber))
            .collect();
        live.iter().for_each(crate::fiber::wake);
    }

    /// Ends a fiber whose call cannot return an error, once the runtime is shut down. Where panics
    /// abort, nothing can: the call returns at once.
    pub(super) fn unwind_if_shut_down(&self) {
        // A second panic in a destructor would abort the process.
        if cfg!(panic = "unwind") && self.shared.is_shut_down() && !std::thread::panicking() {
            std::panic::resume_unwind(Box::new(Cancelled));
        }
    }

    /// The error for a call after shutdown.
    pub(super) fn refusal(&self) -> Option<io::Error> {
        if !self.shared.is_shut_down() {
            return None;
        }
        let refusals = &self.running_control().refusals;
        refusals.set(refusals.get() + 1);
        if refusals.get() > REFUSALS_MAX {
            self.unwind_if_shut_down();
        }
        Some(io::Error::from_raw_os_error(op::CANCELLED))
    }
}

/// What the running fiber calls.
impl Worker {
    /// Queues a fiber that has not started where idle workers find it.
    pub(super) fn spawn(&self, fiber: FiberRef) {
        self.deque.push(fiber);
        self.shared.wake_one();
    }

    /// Queues a woken fiber if its home is this worker.
    pub(super) fn enqueue_own(&self, home: &Remote, fiber: &FiberRef) -> bool {
        let own = ptr::eq(&*self.remote, home);
        if own {
            self.make_ready(Arc::clone(fiber));
        }
        own
    }

    pub(super) fn make_ready(&self, fiber: FiberRef) {
        self.ready.borrow_mut().push_back(fiber);
    }

    pub(super) fn add_timer(&self, deadline: Instant, expiry: Expiry) -> super::timers::Key {
        self.timers.borrow_mut().insert(deadline, expiry)
    }

    pub(crate) fn current_fiber(&self) -> FiberRef {
        let current = self.current.borrow();
        Arc::clone(current.as_ref().expect("a fiber runs"))
    }

    pub(super) fn take_current(&self) -> FiberRef {
        self.current.borrow_mut().take().expect("a fiber runs")
    }

    pub(super) fn take_wake(&self) -> bool {
        self.running_control().token.take()
    }

    /// Submits the operation, suspends the fiber, and returns the result.
    #[allow(
        unsafe_code,
        reason = "the kernel gets pointers to what the operation borrows"
    )]
    pub(super) fn perform(
        &self,
        operation: &mut Operation<'_>,
        timeout: Option<Duration>,
    ) -> io::Result<u32> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal);
        }
        let token = self.operations.borrow_mut().insert(self.take_current());
        // SAFETY: the fiber is suspended below until this very completion was reaped: until then
        // nothing can touch or free what the operation borrows, nor the operation itself.
        unsafe { self.driver.borrow_mut().submit(operation, token) };
        if let Some(deadline) = timeout.and_then(|timeout| Instant::now().checked_add(timeout)) {
            let timer = self.add_timer(deadline, Expiry::TimeOut(token));
            self.operations.borrow_mut().set_timer(token, timer);
        }
        self.suspend(Pause::Held);
        let completion = self.running_control().completion.take();
        match u32::try_from(completion.result) {
            Ok(result) => Ok(result),
            Err(_) if completion.timed_out => Err(io::Error::from_raw_os_error(op::TIMED_OUT)),
            Err(_) => Err(io::Error::from_raw_os_error(-completion.result)),
        }
    }

    /// Switches to the worker's loop until the fiber is resumed.
    #[allow(unsafe_code, reason = "leaving the fiber's stack")]
    pub(super) fn suspend(&self, pause: Pause) {
        // SAFETY: called by the running fiber; with `Held`, after its reference was handed on.
        unsafe { self.running_control().suspend(pause) };
    }

    pub(super) fn running_control(&self) -> &Control {
        self.running().expect("a fiber runs")
    }

    #[allow(unsafe_code, reason = "the running fiber is alive")]
    pub(super) fn running(&self) -> Option<&Control> {
        // SAFETY: not null only while that fiber runs, which `live` keeps alive until it has ended.
        unsafe { self.running.get().as_ref() }
    }
}

/// Ends the process when dropped while unwinding. A fiber's panic is its result; one of the scheduler
/// itself must not run on, not even to destroy the suspended fibers the kernel still writes to.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        eprintln!("uthread: a worker failed; the message is above");
        std::process::abort();
    }
}

#[allow(unsafe_code, reason = "entering a fiber's stack")]
fn resume(control: *const Control) -> Resumed {
    // SAFETY: `live` keeps the fiber alive until it has ended.
    let control = unsafe { &*control };
    // SAFETY: called by the loop of the worker that started the fiber.
    unsafe { control.resume() }
}

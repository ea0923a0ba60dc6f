//! A fiber: its control block, its closure and its result, in one allocation.
//!
//! ```text
//!   Fiber<F, T> = Control   id, name, spawn site, wake-up state, coroutine
//!               + closure   taken when the fiber starts
//!               + Outcome   the value or the panic, and who waits for it
//! ```
//!
//! Nothing here knows a queue or a driver: a woken fiber goes to its [`Scheduler`], which the scheduler
//! implements.

mod children;
pub(crate) mod control;
mod last_worker;
pub(crate) mod limits;
pub(crate) mod locals;
mod outcome;
pub(crate) mod wake;
pub(crate) mod wake_handle;

use std::cell::UnsafeCell;
use std::error::Error;
use std::panic::{self, AssertUnwindSafe, Location};
use std::sync::Arc;
use std::{fmt, io, thread};

pub(crate) use children::Children;
pub(crate) use control::{Control, Pause, Started};
use locals::Locals;
pub(crate) use outcome::{Outcome, drop_quietly};
pub(crate) use wake_handle::WakeHandle;

use crate::forked;

/// A fiber as queues hold it.
pub(crate) type FiberRef = Arc<dyn Body>;

/// Where a woken fiber goes: the worker it started on or, where fibers migrate, all of them.
pub(crate) trait Scheduler: Send + Sync {
    /// Queues a started fiber to be resumed.
    fn enqueue(&self, fiber: Started);
    /// Has that worker end the operation of a fiber, if it has one that may not wait any more.
    fn interrupt(&self, fiber: FiberRef, worker: u32);
}

/// What a queue can do with a fiber without knowing its types.
pub(crate) trait Body: Send + Sync {
    fn control(&self) -> &Control;
    /// Runs the closure to its end, on the fiber's own stack.
    fn run(&self);
    /// Drops the closure instead of running it; joining yields `payload`. On the fiber's own stack
    /// too where it has one, as destructors may wait.
    fn abandon(&self, payload: Payload);
    /// Yields [`Cancelled`] to whoever joins a fiber that is never run, or run again. Called once nothing uses what it may
    /// have lent or borrowed.
    fn give_up(&self);
}

/// What a panic carries.
pub(crate) type Payload = Box<dyn std::any::Any + Send>;

/// A fiber was cancelled, or cut off because its runtime was dropped.
///
/// [`JoinHandle::join`](crate::thread::JoinHandle::join) returns it in `Err`, and it unwinds a
/// fiber that cannot be told by an error value.
///
/// ```
/// use uthread::thread::{Cancelled, park};
///
/// let endless = uthread::spawn(|| loop {
///     park();
/// });
/// endless.cancel();
/// assert!(endless.join().unwrap_err().is::<Cancelled>());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("cancelled")
    }
}

impl Error for Cancelled {}

/// As calls return it: `ECANCELED`.
impl From<Cancelled> for io::Error {
    fn from(_: Cancelled) -> io::Error {
        io::Error::from_raw_os_error(libc::ECANCELED)
    }
}

/// The time of a [`timeout`](crate::time::timeout) was over.
///
/// It also unwinds what cannot be told by an error value, up to that call.
///
/// ```
/// use std::time::Duration;
/// use uthread::{sleep, time::Elapsed, timeout};
///
/// let slept = timeout(Duration::from_millis(1), || sleep(Duration::from_secs(3600)));
/// assert_eq!(slept, Err(Elapsed));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the time is over")
    }
}

impl Error for Elapsed {}

/// As calls return it: `ETIMEDOUT`.
impl From<Elapsed> for io::Error {
    fn from(_: Elapsed) -> io::Error {
        io::Error::from_raw_os_error(libc::ETIMEDOUT)
    }
}

/// Whether a fiber that ended with this was cut off, and did not panic.
pub(crate) fn is_cut_off(payload: &Payload) -> bool {
    payload.is::<Cancelled>() || payload.is::<Elapsed>()
}

/// Wakes the fiber: one token that its next (or present) park consumes.
pub(crate) fn wake(fiber: &FiberRef) {
    if let Some((scheduler, fiber)) = end_park(fiber) {
        scheduler.enqueue(fiber);
    }
}

/// Leaves that token; the fiber and its scheduler, if it was parked: the caller queues it.
#[allow(unsafe_code, reason = "a handle without a count")]
pub(crate) fn end_park(fiber: &FiberRef) -> Option<(&Arc<dyn Scheduler>, Started)> {
    let scheduler = fiber.control().store_wake_up()?;
    // SAFETY: woken out of a park it has started and not ended, so a reactor keeps it, and no queue
    // has it yet.
    Some((scheduler, unsafe { Started::new(fiber.control()) }))
}

/// Ends what the fiber does: its calls do not wait any more, from the present one on.
pub(crate) fn cancel(fiber: &FiberRef) {
    if fiber.control().limits.cancel() {
        end_wait(fiber);
    }
}

/// Lets the fiber look whether it may wait: called after its limits have changed.
pub(crate) fn end_wait(fiber: &FiberRef) {
    if let Some((scheduler, worker)) = fiber.control().find() {
        scheduler.interrupt(Arc::clone(fiber), worker);
    }
    wake(fiber);
}

/// Lets the fiber's next (or present) `park` return, whatever else it waits for before.
pub(crate) fn unpark(fiber: &FiberRef) {
    fiber.control().store_unpark();
    wake(fiber);
}

pub(crate) struct Fiber<F, T> {
    control: Control,
    /// Taken once, by the worker that starts or abandons the fiber.
    closure: UnsafeCell<Option<F>>,
    outcome: Outcome<thread::Result<T>>,
    scope: Option<Arc<Children>>,
}

#[allow(unsafe_code, reason = "the closure's cell has one user at a time")]
// SAFETY: `closure` is touched only by `take_closure`, which runs once on one thread (the queue
// hands each fiber to one worker); the other fields are `Sync` by themselves when `T: Send`.
unsafe impl<F: Send, T: Send> Sync for Fiber<F, T> {}

impl<F, T> Fiber<F, T>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    pub(crate) fn new(control: Control, closure: F, scope: Option<Arc<Children>>) -> Arc<Self> {
        Arc::new(Fiber {
            control,
            closure: UnsafeCell::new(Some(closure)),
            outcome: Outcome::new(),
            scope,
        })
    }

    /// A fiber whose closure and value may borrow; in the forms that queues and handles hold.
    ///
    /// The caller returns to the owner of what is borrowed only after the fiber has ended and its
    /// value was taken or dropped: a scope waits for its children, `Runtime::run` joins.
    #[allow(unsafe_code, reason = "queues hold fibers without their lifetime")]
    pub(crate) fn borrowing(
        control: Control,
        closure: F,
        scope: Option<Arc<Children>>,
    ) -> (FiberRef, Arc<dyn Joinable<T>>) {
        let fiber = Fiber::new(control, closure, scope);
        let body: Arc<dyn Body + '_> = fiber.clone();
        let children = fiber.scope.clone();
        let joinable: Arc<dyn Joinable<T> + '_> = fiber;
        // SAFETY: only the lifetime changes. The closure is gone when the fiber has ended, and the
        // value with it or with its handle: nothing borrowed is left, as promised above.
        let body = unsafe { std::mem::transmute::<Arc<dyn Body + '_>, FiberRef>(body) };
        // SAFETY: as above.
        let joinable = unsafe {
            std::mem::transmute::<Arc<dyn Joinable<T> + '_>, Arc<dyn Joinable<T>>>(joinable)
        };
        if let Some(children) = children {
            children.admit(&body);
        }
        (body, joinable)
    }

    #[allow(unsafe_code, reason = "the closure's cell has one user at a time")]
    fn take_closure(&self) -> F {
        // SAFETY: the queues hand a fiber that has not started to exactly one worker, so nothing
        // else refers to the closure.
        let closure = unsafe { &mut *self.closure.get() };
        closure.take().expect("a fiber starts or is abandoned once")
    }

    fn finish(&self, result: thread::Result<T>) {
        let result = match self.control.locals.get() {
            None => result,
            Some(locals) => self.end_locals(locals, result),
        };
        if let (Some(children), Err(payload)) = (&self.scope, &result) {
            // Before the outcome is there to be joined, which may take the panic back.
            children.acknowledge_end(payload);
        }
        self.outcome.complete(result);
        // The destructors of a result that nobody asked for may have made the first ones.
        if let Some(locals) = self.control.locals.get() {
            self.close_locals(locals);
        }
        // Last: after this the scope's borrows may end.
        if let Some(children) = &self.scope {
            children.discharge(&self.control);
        }
    }

    /// Drops what the fiber keeps by keys. A panic of a destructor is its result, if it has no other.
    fn end_locals<R>(&self, locals: &Locals, result: thread::Result<R>) -> thread::Result<R> {
        let ended = self.shield(|| locals.end());
        if locals.is_in_child() {
            forked::end(result.is_err());
        }
        match (ended, result) {
            (Err(payload), Ok(value)) => {
                drop_quietly(value);
                Err(payload)
            }
            (Err(payload), result) => {
                drop_quietly(payload);
                result
            }
            (Ok(()), result) => result,
        }
    }

    /// Drops what the destructors of the result, and of panics, have made since. No value is made after this: it would end
    /// with the control block, on any thread.
    fn close_locals(&self, locals: &Locals) {
        // Comes to an end, as the value of each key is made once.
        while let Err(payload) = self.shield(|| locals.end()) {
            drop_quietly(payload);
        }
        locals.close();
    }

    /// Calls `end` in a shield: a destructor that waits, which is called without a panic, would be cut short.
    fn shield(&self, end: impl FnOnce() -> thread::Result<()>) -> thread::Result<()> {
        let outer = self.control.limits.enter_shield();
        let ended = end();
        self.control.limits.leave(outer);
        ended
    }
}

impl<F, T> Body for Fiber<F, T>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    fn control(&self) -> &Control {
        &self.control
    }

    fn run(&self) {
        let closure = self.take_closure();
        let result = panic::catch_unwind(AssertUnwindSafe(closure));
        self.control.panics.set(false);
        self.finish(result);
    }

    fn abandon(&self, payload: Payload) {
        // A destructor of the closure's captures may panic: that too is the fiber's result.
        let closure = self.take_closure();
        let dropped = panic::catch_unwind(AssertUnwindSafe(|| drop(closure)));
        self.control.panics.set(false);
        self.finish(Err(dropped.err().unwrap_or(payload)));
    }

    fn give_up(&self) {
        // It may have had its outcome, and have waited in a destructor after that.
        if !self.outcome.is_done() {
            self.outcome.complete(Err(Box::new(Cancelled)));
        }
    }
}

/// What a join handle can do with a fiber without knowing its closure.
pub(crate) trait Joinable<T>: Body {
    fn outcome(&self) -> &Outcome<thread::Result<T>>;
}

impl<F, T> Joinable<T> for Fiber<F, T>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    fn outcome(&self) -> &Outcome<thread::Result<T>> {
        &self.outcome
    }
}

/// Identity of a new fiber.
pub(crate) struct Identity {
    pub(crate) name: Option<Box<str>>,
    pub(crate) spawn_site: &'static Location<'static>,
}

impl Identity {
    pub(crate) fn anonymous(spawn_site: &'static Location<'static>) -> Identity {
        Identity {
            name: None,
            spawn_site,
        }
    }
}

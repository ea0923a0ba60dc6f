//! A fiber: its control block, closure and result, in one allocation.
//!
//! ```text
//!   Fiber<F, T> = Control   id, name, spawn site, wake-up state, runner
//!               + scope     where a debugger finds it, whatever the types
//!               + closure   taken when the fiber starts
//!               + Outcome   the value or the panic, and the waiting joiner
//! ```
//!
//! This layer knows neither queues nor drivers: a woken fiber is passed to its [`Scheduler`], a
//! trait that the layer `sched` implements.

mod awaiting;
mod blocks;
mod children;
mod context;
pub(crate) mod control;
mod destination;
mod free_blocks;
pub(crate) mod host;
mod info;
mod joinable;
pub(crate) mod kept;
mod last_worker;
mod lazy_box;
pub(crate) mod limits;
pub(crate) mod locals;
mod outcome;
mod pause;
mod reference;
mod runner;
pub(crate) mod wake;
pub(crate) mod wake_handle;

use std::cell::UnsafeCell;
use std::error::Error;
use std::hint;
use std::panic::{self, AssertUnwindSafe, Location};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;
use std::{fmt, io, mem, thread};

pub(crate) use awaiting::Awaiting;
pub(crate) use children::Children;
pub(crate) use context::AnyContext;
pub use context::FiberContext;
use control::ColdState;
pub(crate) use control::layout::LAYOUT;
pub(crate) use control::{Control, Finish, Reserved, Started};
pub(crate) use destination::{Destination, Destinations};
pub use info::{FiberInfo, FiberState};
pub(crate) use info::{Grouped, Listed};
pub(crate) use joinable::Joinable;
pub(crate) use kept::Kept;
use limits::Limits;
use locals::Locals;
pub(crate) use outcome::{Outcome, drop_quietly};
pub(crate) use pause::Pause;
pub(crate) use reference::FiberRef;
use reference::{Body, Functions};
pub(crate) use runner::Runner;
pub(crate) use wake_handle::WakeHandle;

use crate::clock::VirtualClock;
use crate::forked;
use crate::tls::images::{self, Values};
use crate::tls::record;

/// The destination of a woken fiber: the worker that has started it.
pub(crate) trait Scheduler: Send + Sync {
    /// Queues a started fiber to be resumed.
    fn enqueue(&self, fiber: Started);
    /// Returns `true` if the runtime abandons its fibers.
    fn is_abandoned(&self) -> bool;
    /// Makes `worker` cancel the fiber's operation, if it has one and may not wait any more.
    fn interrupt(&self, fiber: FiberRef, worker: u32);
    /// Returns the clock of a runtime with virtual time.
    fn clock(&self) -> Option<&VirtualClock> {
        None
    }
}

/// The payload of a panic.
pub(crate) type Payload = Box<dyn std::any::Any + Send>;

/// The error that a fiber was cancelled, by a handle or because its runtime was dropped.
///
/// [`JoinHandle::join`](crate::thread::JoinHandle::join) returns it in `Err`. It also is the
/// payload that unwinds a fiber from a call that cannot return an error. Later versions add no
/// fields, so that programs can compare with it.
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
#[allow(clippy::exhaustive_structs, reason = "programs match or construct it")]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("cancelled")
    }
}

impl Error for Cancelled {}

/// Converts to `ECANCELED`, the error that calls return.
impl From<Cancelled> for io::Error {
    fn from(_: Cancelled) -> io::Error {
        io::Error::from_raw_os_error(libc::ECANCELED)
    }
}

/// The error that the deadline of a [`timeout`](crate::time::timeout) has passed.
///
/// It also is the payload that unwinds from a call that cannot return an error up to the `timeout`.
/// Later versions add no fields, so that programs can compare with it.
///
/// ```
/// use std::time::Duration;
/// use uthread::{sleep, time::Elapsed, timeout};
///
/// let slept = timeout(Duration::from_millis(1), || sleep(Duration::from_secs(3600)));
/// assert_eq!(slept, Err(Elapsed));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "programs match or construct it")]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the deadline has passed")
    }
}

impl Error for Elapsed {}

/// Converts to `ETIMEDOUT`, the error that calls return.
impl From<Elapsed> for io::Error {
    fn from(_: Elapsed) -> io::Error {
        io::Error::from_raw_os_error(libc::ETIMEDOUT)
    }
}

/// Returns `true` if the payload is that of a cancellation or deadline, not of a panic.
pub(crate) fn is_cut_off(payload: &Payload) -> bool {
    payload.is::<Cancelled>() || payload.is::<Elapsed>()
}

/// Returns `true` if the destructor of the payload may be code of the program, and not that of a
/// cancellation, a deadline or a panic with a text.
fn may_run_code(payload: &Payload) -> bool {
    !(is_cut_off(payload) || payload.is::<String>() || payload.is::<&'static str>())
}

/// Wakes the fiber by a token that its current or next park consumes.
pub(crate) fn wake(fiber: &FiberRef) {
    if let Some((scheduler, fiber)) = end_park(fiber) {
        scheduler.enqueue(fiber);
    }
}

/// Leaves a wake-up token. If the fiber was parked, returns it with its scheduler, and the caller
/// must enqueue it.
#[allow(unsafe_code, reason = "a handle without a count")]
pub(crate) fn end_park(fiber: &FiberRef) -> Option<(&Arc<dyn Scheduler>, Started)> {
    let scheduler = fiber.control().store_wake_up()?;
    // SAFETY: the fiber was parked, so it has started and not ended; a reactor keeps it, and no
    // queue holds it.
    Some((scheduler, unsafe { Started::new(fiber.control()) }))
}

/// Cancels the fiber: from its current call on, calls do not wait.
pub(crate) fn cancel(fiber: &FiberRef) {
    if fiber.control().limits.cancel() {
        end_wait(fiber);
    }
}

/// Makes the fiber check whether it may wait. Called after its limits have changed.
pub(crate) fn end_wait(fiber: &FiberRef) {
    if let Some((scheduler, worker)) = fiber.control().find() {
        scheduler.interrupt(fiber.clone(), worker);
    }
    wake(fiber);
}

/// Makes the current or next `park` of the fiber return, whatever else it waits for before.
pub(crate) fn unpark(fiber: &FiberRef) {
    fiber.control().store_unpark();
    wake(fiber);
}

#[repr(C)]
pub(crate) struct Fiber<F, T> {
    control: Control,
    scope: Option<Arc<Children>>,
    /// Taken once, by the worker that starts or abandons the fiber.
    closure: UnsafeCell<Option<F>>,
    outcome: Outcome<thread::Result<T>>,
}

/// Where the scope of a fiber is, whatever the type of that.
const SCOPE_AT: usize = size_of::<Control>();

#[allow(unsafe_code, reason = "the closure's cell has one user at a time")]
// SAFETY: `closure` is accessed only by `take_closure`, which runs once, on one thread, as the
// queues hand each fiber to one worker. The other fields are `Sync` if `T: Send`.
unsafe impl<F: Send, T: Send> Sync for Fiber<F, T> {}

impl<F, T> Fiber<F, T>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    /// Creates a fiber. Returns it in the forms that queues and handles hold.
    #[inline]
    #[allow(unsafe_code, reason = "a fiber that may borrow from its scope")]
    pub(crate) fn owning(identity: Identity, closure: F) -> (FiberRef, Joinable<T>)
    where
        F: 'static,
        T: 'static,
    {
        // SAFETY: the closure borrows nothing.
        unsafe { Fiber::forms(identity, None, closure, None) }
    }

    /// Creates a fiber in the forms that queues and handles hold.
    ///
    /// # Safety
    ///
    /// The contract of [`FiberRef::pair`].
    #[inline]
    #[allow(unsafe_code, reason = "a fiber that may borrow from its scope")]
    unsafe fn forms(
        Identity { name, spawn_site }: Identity,
        deadline: Option<Instant>,
        closure: F,
        scope: Option<Arc<Children>>,
    ) -> (FiberRef, Joinable<T>) {
        const {
            assert!(mem::offset_of!(Self, scope) == SCOPE_AT);
        }
        let memory = FiberRef::allocate::<Self>();
        let fiber = Fiber {
            control: Control::new(
                Functions::of::<Self>(),
                control::next_id(),
                ColdState::of_new(name),
                spawn_site,
                Limits::with_deadline(deadline),
            ),
            scope,
            closure: UnsafeCell::new(Some(closure)),
            outcome: Outcome::new(),
        };
        // SAFETY: the memory is new, and has the size and the alignment of a fiber.
        unsafe { memory.write(fiber) };
        // SAFETY: by the caller's contract.
        let (body, handle) = unsafe { FiberRef::pair(memory) };
        // SAFETY: the fiber is initialized, and the handle keeps it.
        let fiber = unsafe { memory.as_ref() };
        let outcome = NonNull::from_ref(&fiber.outcome);
        // SAFETY: the outcome is that of this fiber.
        (body, unsafe { Joinable::new(handle, outcome) })
    }

    /// Creates a fiber whose closure and value may borrow, and whose calls stop waiting at
    /// `deadline`. Returns it in the forms that queues and handles hold.
    ///
    /// The caller must return to the owner of the borrowed data only after the fiber has ended and
    /// its value was taken or dropped: a scope waits for its children, `Runtime::run` joins.
    #[allow(unsafe_code, reason = "queues hold fibers without their lifetime")]
    pub(crate) fn borrowing(
        identity: Identity,
        deadline: Option<Instant>,
        closure: F,
        scope: Option<Arc<Children>>,
    ) -> (FiberRef, Joinable<T>) {
        let children = scope.clone();
        // SAFETY: the closure is dropped when the fiber has ended, and the value with it or with
        // its handle, so no borrow is left, as the contract above requires.
        let (body, joinable) = unsafe { Fiber::forms(identity, deadline, closure, scope) };
        if let Some(children) = children {
            children.admit(&body);
        }
        (body, joinable)
    }

    #[allow(unsafe_code, reason = "the closure's cell has one user at a time")]
    fn take_closure(&self) -> F {
        // SAFETY: the queues hand a fiber that has not started to exactly one worker, so there is
        // no other reference to the closure.
        let closure = unsafe { &mut *self.closure.get() };
        closure.take().expect("a fiber starts or is abandoned once")
    }

    fn finish(&self, result: thread::Result<T>) {
        finish(&self.control, &self.scope, &self.outcome, result);
    }
}

/// Ends a fiber with `result`. Not generic over its closure, so that this is compiled once per type
/// of value.
fn finish<T>(
    control: &Control,
    scope: &Option<Arc<Children>>,
    outcome: &Outcome<thread::Result<T>>,
    result: thread::Result<T>,
) {
    if scope.is_some() || control.locals().is_some() || control.thread_pointer().is_some() {
        return finish_all(control, scope.as_deref(), outcome, result);
    }
    if let Some(result) = outcome.deliver(result) {
        end_unjoined(control, result);
    }
}

/// Ends a fiber that may have a scope, fiber-local values, or thread-local storage of its own.
#[inline(never)]
fn finish_all<T>(
    control: &Control,
    scope: Option<&Children>,
    outcome: &Outcome<thread::Result<T>>,
    result: thread::Result<T>,
) {
    let result = match control.locals() {
        None => result,
        Some(locals) => end_locals(control, locals, result),
    };
    if let (Some(children), Err(payload)) = (scope, &result) {
        // Before the outcome can be joined, which may discount the panic.
        children.acknowledge_end(payload);
    }
    if control.thread_pointer().is_some() {
        match control.limits.without(images::drop_values) {
            Values::Dropped => {}
            Values::Left => return finish_after_thread(control, scope, outcome, result),
        }
    }
    publish(control, scope, outcome, result, || {
        if control.thread_pointer().is_some() {
            // If that is incomplete, the runner finds it again, and runs no other fiber.
            record::across(|| _ = images::reset());
        }
    });
}

/// Ends a fiber for which the C library has to end the thread first.
#[cold]
#[allow(unsafe_code, reason = "the parts of a fiber without their lifetime")]
fn finish_after_thread<T>(
    control: &Control,
    scope: Option<&Children>,
    outcome: &Outcome<thread::Result<T>>,
    result: thread::Result<T>,
) {
    let drops_values = match &result {
        Ok(_) => mem::needs_drop::<T>(),
        Err(payload) => may_run_code(payload),
    } || control.locals().is_some();
    let complete: Box<dyn FnOnce() + '_> =
        Box::new(move || publish(control, scope, outcome, result, || {}));
    // SAFETY: the worker calls it while it keeps the fiber, and before the outcome is complete
    // nothing that the fiber borrows is dropped. The value is sent to where it would be dropped or
    // taken otherwise.
    let complete =
        unsafe { mem::transmute::<Box<dyn FnOnce() + '_>, Box<dyn FnOnce() + Send>>(complete) };
    control.finish_later(Finish {
        complete,
        drops_values,
    });
}

/// Completes the outcome of a fiber whose values have been dropped. Calls `renew` if something else
/// has to be dropped, which may use thread-local storage, as on a new thread.
fn publish<T>(
    control: &Control,
    scope: Option<&Children>,
    outcome: &Outcome<thread::Result<T>>,
    result: thread::Result<T>,
    renew: impl FnOnce(),
) {
    let unjoined = outcome.deliver(result);
    if unjoined.is_some() || control.locals().is_some() {
        renew();
    }
    if let Some(result) = unjoined {
        end_unjoined(control, result);
    } else if let Some(locals) = control.locals() {
        close_locals(control, locals);
    }
    // Last: after this, the borrows of the scope may end.
    if let Some(children) = scope {
        children.discharge(control);
    }
}

/// Drops a result that nobody joins, and the values that its destructors have created.
#[inline(never)]
fn end_unjoined<T>(control: &Control, result: thread::Result<T>) {
    drop_quietly(result);
    if let Some(locals) = control.locals() {
        close_locals(control, locals);
    }
}

/// Drops the fiber-local values. The panic of a destructor becomes the result, unless the fiber has
/// panicked before.
#[cold]
fn end_locals<T>(
    control: &Control,
    locals: &Locals,
    result: thread::Result<T>,
) -> thread::Result<T> {
    let ended = shield(control, || locals.end());
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

/// Drops values that destructors of the result and of panic payloads have created. No value is
/// created afterwards: it would be dropped with the control block, on any thread.
#[cold]
fn close_locals(control: &Control, locals: &Locals) {
    // Terminates, as the value of each key is created once.
    while let Err(payload) = shield(control, || locals.end()) {
        drop_quietly(payload);
    }
    locals.close();
}

/// Calls the closure of a fiber. Backtraces end here unless they are full: `std` knows this name.
#[inline(never)]
fn __rust_begin_short_backtrace<T>(closure: impl FnOnce() -> T) -> T {
    let value = closure();
    // Not the last call, which would replace this one.
    hint::black_box(());
    value
}

/// Calls `end` in a shield. Otherwise a cancelled destructor that waits would be unwound.
fn shield(control: &Control, end: impl FnOnce() -> thread::Result<()>) -> thread::Result<()> {
    let outer = control.limits.enter_shield();
    let ended = end();
    control.limits.leave(outer);
    ended
}

#[allow(unsafe_code, reason = "the layout that references rely on")]
// SAFETY: the control block is the first field in the order of C, and `forms` gives it the
// functions.
unsafe impl<F, T> Body for Fiber<F, T>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    fn run(&self) {
        let closure = self.take_closure();
        let closure = || __rust_begin_short_backtrace(closure);
        let result = panic::catch_unwind(AssertUnwindSafe(closure));
        self.control.panics.set(false);
        self.finish(result);
    }

    fn abandon(&self, payload: Payload) {
        // The panic of a destructor of the closure's captures becomes the fiber's result.
        let closure = self.take_closure();
        let dropped = panic::catch_unwind(AssertUnwindSafe(|| drop(closure)));
        self.control.panics.set(false);
        self.finish(Err(dropped.err().unwrap_or(payload)));
    }

    fn give_up(&self) {
        // The fiber may have completed its outcome, and then have waited in a destructor.
        if !self.outcome.is_done() {
            self.outcome.complete(Err(Box::new(Cancelled)));
        }
    }

    fn drop_little(&mut self) -> bool {
        self.control.give_scheduler_back();
        self.control.is_plain()
            && self.closure.get_mut().is_none()
            && self.outcome.is_taken()
            && self.scope.is_none()
    }
}

/// The name and origin of a new fiber.
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

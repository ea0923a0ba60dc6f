//! How a caller waits: a fiber gives its worker up, a thread outside the runtime blocks.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::cancellation::End;
use super::worker::{Worker, calls};
use super::{budget, cancellation, current, threads};
use crate::driver::native::{self, Deadline, Interrupted};
use crate::fiber::locals::Locals;
use crate::fiber::{Control, FiberRef, Pause, Started, WakeHandle};
use crate::op::{self, Operation};
use crate::stack::Stack;

pub(crate) use super::cancellation::{
    Within, deadline, is_abandoned, is_cancelled, is_shut_down, refusal, refuse_if_cancelled,
    unwind_if_cancelled, vanish_if_abandoned,
};
pub(crate) use super::exit::begin as begin_exit;
pub(crate) use super::worker::panics::{
    Since, catch_unwind, contain, is_panicking, note as record_panic,
};

/// Carries an operation out; returns only after its terminal completion.
///
/// # Errors
///
/// The kernel's; `EAGAIN` after the timeout, `ECANCELED` once the fiber is cancelled.
pub(crate) fn perform(operation: &mut Operation<'_>, timeout: Option<Duration>) -> io::Result<u32> {
    calls::perform(operation, timeout).unwrap_or_else(|| block_in(operation, timeout))
}

/// The same of a thread.
fn block_in(operation: &mut Operation<'_>, timeout: Option<Duration>) -> io::Result<u32> {
    if let Some(context) = threads::current() {
        context.begin_call();
    }
    refuse_if_cancelled()?;
    let own = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let deadline = Deadline::new(cancellation::earliest(own));
    match native::perform(operation, deadline, interrupted) {
        Err(error) if error.raw_os_error() == Some(op::TIMED_OUT) => {
            Err(refusal().unwrap_or(error))
        }
        Err(error) if error.raw_os_error() == Some(op::CANCELLED) => {
            vanish_if_abandoned(cancellation::IN_A_CALL);
            Err(error)
        }
        result => result,
    }
}

/// What a thread does whose call a signal has interrupted. To a fiber signals mean nothing, as on a worker.
fn interrupted() -> Interrupted {
    match in_fiber() {
        true if is_cancelled() => Interrupted::Cancelled,
        true => Interrupted::Again,
        false => Interrupted::Reported,
    }
}

/// Waits for a wake-up of the caller; may return without one.
#[inline(always)]
pub(crate) fn park() {
    match running() {
        Some(fiber) => {
            let token = &fiber.control().token;
            if !token.take() {
                calls::suspend(fiber, Pause::Parked);
                token.take();
            }
        }
        None => block(None),
    }
}

/// As [`park`], until this time at the latest, or the caller's deadline if that is earlier.
pub(crate) fn park_deadline(time: Instant) {
    let deadline = cancellation::deadline().map_or(time, |deadline| deadline.min(time));
    match running() {
        Some(fiber) => {
            let token = &fiber.control().token;
            if !token.take() {
                calls::park_deadline(fiber, deadline);
                token.take();
            }
        }
        None => block(Some(deadline)),
    }
}

/// The same of a thread.
#[inline(never)]
fn block(deadline: Option<Instant>) {
    match (threads::current(), deadline) {
        (Some(context), deadline) => context.park(deadline),
        (None, None) => std::thread::park(),
        (None, Some(deadline)) => {
            std::thread::park_timeout(deadline.saturating_duration_since(Instant::now()));
        }
    }
}

/// As [`park`], but no longer than the caller may wait; false, and at once, if it may not.
#[inline(always)]
pub(crate) fn park_unless_cancelled() -> bool {
    let may_wait = !is_cancelled();
    if may_wait {
        match cancellation::deadline() {
            None => park(),
            Some(deadline) => park_deadline(deadline),
        }
    }
    may_wait
}

/// The same, until the deadline at the latest, if there is one.
pub(crate) fn park_unless_over(deadline: Option<Instant>) {
    match deadline {
        None => drop(park_unless_cancelled()),
        Some(deadline) if !is_cancelled() => park_deadline(deadline),
        Some(_) => {}
    }
}

/// Called once by each call that may have no need to wait: now and then lets others run, so that a fiber
/// that never waits does not keep its worker.
#[inline(always)]
pub(crate) fn spend_turn() {
    #[cold]
    #[inline(never)]
    fn let_others_run() {
        // A thread learns here that it is cancelled.
        if in_fiber() {
            yield_now();
        }
    }
    if budget::is_used_up() {
        let_others_run();
    }
}

/// Called by each look at what other fibers do that finds it not done yet, a try of a lock above all: as [`spend_turn`],
/// so that a loop of them lets the fiber run that it waits for. A cancelled fiber may go on with its loop as long as with
/// one of refused calls.
#[cold]
pub(crate) fn spend_try() {
    if in_fiber() && budget::is_used_up() {
        let _ = yield_within_call();
    }
}

/// The user's own park, ended by an unpark or at the deadline: unwound if the caller may not wait. An
/// unpark that came during another wait, which took its wake-up, is remembered apart.
pub(crate) fn park_cancellable(deadline: Option<Instant>) {
    unwind_if_cancelled();
    if with_control(Control::take_unpark) == Some(true) {
        with_control(|control| control.token.take()); // It came along.
    } else if !is_cancelled() {
        // After shutdown nobody else ends a park in a destructor.
        cancellation::earliest(deadline).map_or_else(park, park_deadline);
        with_control(Control::take_unpark);
    }
    unwind_if_cancelled();
}

/// Counts a spawn by a fiber whose runtime is shut down, so that a loop that restarts what has ended does
/// not go on for ever.
pub(crate) fn count_spawn() {
    let _ = refusal();
}

/// Counts a wait with a time of its own that ends early because the caller is cancelled, so that a loop of them does not go on
/// for ever.
pub(crate) fn count_early_end() {
    let _ = refusal();
}

/// Waits until `done`, which whoever makes it true follows by a wake-up.
#[inline(always)]
pub(crate) fn park_until(done: impl Fn() -> bool) {
    while !done() {
        park();
    }
}

/// As [`park_until`], of what other fibers of its runtime do for the caller: once that one is cancelled, they are by
/// `cancel`. With them it may be abandoned.
pub(crate) fn park_until_or_cancel(done: impl Fn() -> bool, cancel: impl FnOnce()) {
    let done_or_vanish = || {
        let done = done();
        if !done && is_shut_down() {
            vanish_if_abandoned("it waits for fibers that do not end");
        }
        done
    };
    park_until_or_cancel_outside(done_or_vanish, cancel);
}

/// The same of what is done outside of the runtime.
pub(crate) fn park_until_or_cancel_outside(done: impl Fn() -> bool, cancel: impl FnOnce()) {
    let mut cancel = Some(cancel);
    while !done() {
        if cancel.is_some()
            && cancellation::end() == Some(End::Cancelled)
            && let Some(cancel) = cancel.take()
        {
            cancel();
        } else {
            park();
        }
    }
}

/// Notes, until it is dropped, that the calling fiber waits for something outside of its runtime, which will come.
pub(crate) struct Outside(());

impl Outside {
    pub(crate) fn enter() -> Outside {
        count_outside(|count| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        Outside(())
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        count_outside(|count| {
            count.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Relaxed: a count that is a little old postpones the end of a runtime that stands still.
fn count_outside(change: impl Fn(&AtomicUsize)) {
    if current::with_fiber(|worker| change(&worker.shared().outside)).is_none()
        && let Some(context) = threads::current()
    {
        change(context.outside());
    }
}

/// A handle by which the caller is woken from [`park`].
pub(crate) fn wake_handle() -> WakeHandle {
    match current::with_fiber(|worker| worker.running_reference()) {
        Some(fiber) => WakeHandle::Fiber(fiber),
        None => threads::current().map_or_else(
            || WakeHandle::Thread(std::thread::current(), None),
            |context| context.wake_handle(),
        ),
    }
}

/// Whether the waiter is the caller's.
pub(crate) fn is_caller(waiter: &WakeHandle) -> bool {
    match waiter {
        WakeHandle::Fiber(fiber) => {
            with_control(|running| ptr::eq(fiber.control(), running)).unwrap_or(false)
        }
        WakeHandle::Thread(thread, _) => !in_fiber() && thread.id() == std::thread::current().id(),
    }
}

/// Lets others run; unwound once the runtime is shut down.
#[inline(always)]
pub(crate) fn yield_now() {
    unwind_if_cancelled();
    pass_turn();
}

/// The same, whatever the caller's limits.
#[inline(always)]
pub(crate) fn pass_turn() {
    match running() {
        Some(fiber) => calls::suspend(fiber, Pause::Yielded),
        None => std::thread::yield_now(),
    }
}

/// Lets others run in the midst of a call that can return an error.
///
/// # Errors
///
/// `ECANCELED` once the fiber is cancelled.
pub(crate) fn yield_within_call() -> io::Result<()> {
    pass_turn();
    refuse_if_cancelled()
}

/// The deadline for a fiber without whose value the caller cannot go on: none where the caller unwinds already, as it could not be
/// unwound for want of the value.
pub(crate) fn deadline_to_inherit() -> Option<Instant> {
    deadline().filter(|_| !is_panicking())
}

/// The time by the clock that the caller's waits go by.
pub(crate) fn now() -> Instant {
    current::with_fiber(Worker::now).unwrap_or_else(Instant::now)
}

/// That time, or what is as far as the clock goes for practical purposes.
pub(crate) fn after(begin: Instant, duration: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    begin.checked_add(duration).unwrap_or(begin + CENTURY)
}

/// Waits until that time, or until the caller may not wait any more.
pub(crate) fn sleep_until(time: Instant) {
    unwind_if_cancelled();
    if now() >= time {
        return yield_now();
    }
    // It may be unwinding already, and nothing shall hold up the end.
    while !is_cancelled() && now() < time {
        match in_fiber() {
            true => park_deadline(time),
            // Not by a park, which would take the wake-up for the next one.
            false => native::sleep_until(cancellation::earliest(Some(time)).unwrap_or(time)),
        }
    }
    unwind_if_cancelled();
}

/// Has the caller's worker pass on now what its driver has, if it has a worker.
pub(crate) fn flush() {
    current::with_worker(Worker::try_flush);
}

/// Whether the caller belongs to a runtime, so that [`spawn_here`] may be called.
pub(crate) fn is_inside() -> bool {
    current::with_worker(|_| ()).is_some() || threads::current().is_some()
}

/// A stack for a new fiber that needs so many bytes, where that is more than the caller's runtime gives each;
/// threads bring theirs along.
///
/// # Errors
///
/// `ENOMEM` where there is no memory for it.
pub(crate) fn take_larger_stack(bytes: usize) -> io::Result<Option<Stack>> {
    current::with_worker(|worker| worker.shared().stacks.take_larger(bytes)).unwrap_or(Ok(None))
}

/// Queues a new fiber on the caller's worker, or starts it where fibers are threads, there with a stack of so
/// many bytes, if that is said.
///
/// # Errors
///
/// The system's, where it has no thread for the fiber, which is abandoned then.
///
/// # Panics
///
/// When the caller belongs to no runtime.
pub(crate) fn spawn_here(fiber: FiberRef, stack_size: Option<usize>) -> io::Result<()> {
    queue_here(fiber, stack_size, Worker::spawn)
}

/// As [`spawn_here`], of a part of what the calling fiber does. [`take_back`] follows.
///
/// # Errors
///
/// As [`spawn_here`].
///
/// # Panics
///
/// As [`spawn_here`].
pub(crate) fn fork_here(fiber: FiberRef) -> io::Result<()> {
    queue_here(fiber, None, Worker::fork)
}

#[inline(always)]
fn queue_here(
    fiber: FiberRef,
    stack_size: Option<usize>,
    queue: impl FnOnce(&Worker, FiberRef),
) -> io::Result<()> {
    let mut fiber = Some(fiber);
    current::with_worker(|worker| fiber.take().map(|fiber| queue(worker, fiber)));
    let Some(fiber) = fiber else {
        return Ok(());
    };
    let context = threads::current().expect("only who belongs to a runtime spawns here");
    context.spawn(fiber, stack_size)
}

/// Takes a new fiber back that the calling fiber has queued, if it is still the newest of its worker:
/// true if only the caller has it now.
pub(crate) fn take_back(fiber: &FiberRef) -> bool {
    current::with_fiber(|worker| worker.take_back(fiber)).unwrap_or(false)
}

/// Whether the caller is a fiber, on a worker or as a thread.
pub(crate) fn in_fiber() -> bool {
    with_control(|_| ()).is_some()
}

/// Whether the caller is a fiber on a worker, which it must not block.
pub(crate) fn is_on_worker() -> bool {
    running().is_some()
}

/// Calls `action` with the calling fiber's control block, if the caller is one.
#[inline(always)]
pub(crate) fn with_control<R>(action: impl FnOnce(&Control) -> R) -> Option<R> {
    match running() {
        Some(fiber) => Some(action(fiber.control())),
        None => threads::current().map(|context| action(context.control())),
    }
}

/// Calls `action` with what the calling fiber keeps by keys, if the caller is one.
#[inline(always)]
pub(crate) fn with_locals<R>(action: impl FnOnce(&Locals) -> R) -> Option<R> {
    with_control(|control| action(control.locals.get_or_init(Box::default)))
}

/// The fiber that the calling worker runs.
#[inline(always)]
fn running() -> Option<Started> {
    current::with_worker(Worker::running).flatten()
}

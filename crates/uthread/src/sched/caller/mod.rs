//! The scheduler as its caller sees it: a fiber on a worker, a fiber that is a thread, or a plain
//! thread.
//!
//! | module | contents |
//! | --- | --- |
//! | [`spawn`] | spawning fibers |
//! | [`wait`] | waiting for a wake-up, a time or the end of an operation |
//! | [`turn`] | letting other fibers run |
//! | [`panics`] | its panics |
//! | [`cancellation`] | whether it may wait |

pub(crate) mod cancellation;
pub(crate) mod panics;
pub(crate) mod spawn;
pub(crate) mod turn;
pub(crate) mod wait;

use std::io;
use std::iter;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::fiber::FiberRef;
use crate::fiber::locals::Locals;
use crate::fiber::{Control, WakeHandle};
use crate::pool::Pool;
use crate::priorities::Priority;
use crate::root::Awaited;
use crate::sched::shared::{Reading, Shared};
use crate::sched::threads;
use crate::sched::worker::current::running;
pub(crate) use crate::sched::worker::exit::begin as begin_exit;
use crate::sched::worker::{Worker, current};
use crate::world::{self, World};

/// Returns a handle that wakes the caller from `park`.
pub(crate) fn wake_handle() -> WakeHandle {
    match running() {
        Some(fiber) => WakeHandle::Fiber(fiber.reference()),
        None => threads::current().map_or_else(
            || WakeHandle::Thread(std::thread::current(), None),
            |context| context.wake_handle(),
        ),
    }
}

/// Returns `true` if the handle is that of the caller.
pub(crate) fn is_caller(waiter: &WakeHandle) -> bool {
    match waiter {
        WakeHandle::Fiber(fiber) => {
            with_control(|running| ptr::eq(fiber.control(), running)).unwrap_or(false)
        }
        WakeHandle::Thread(thread, _) => !in_fiber() && thread.id() == std::thread::current().id(),
    }
}

/// Returns the current time of the clock that the caller's waits use.
pub(crate) fn now() -> Instant {
    current::with_present_running(|worker, _| worker.io.now()).unwrap_or_else(Instant::now)
}

/// Returns `begin + duration`, or a time that is practically never reached if the clock cannot
/// represent that.
pub(crate) fn after(begin: Instant, duration: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    let after = |duration| begin.checked_add(duration);
    after(duration).or_else(|| after(CENTURY)).unwrap_or(begin)
}

/// Returns `true` if the caller belongs to a runtime, so that `spawn::here` may be called.
pub(crate) fn is_inside() -> bool {
    current::with_worker(|_| ()).is_some() || threads::current().is_some()
}

/// Returns the address of the state of the caller's runtime, or `None` outside of runtimes.
pub(crate) fn runtime_id() -> Option<usize> {
    if let Some(context) = threads::current() {
        let of_threads = Arc::as_ptr(&context.threads).addr();
        return Some(
            context
                .runtime()
                .map_or(of_threads, |runtime| Arc::as_ptr(runtime).addr()),
        );
    }
    current::with_worker(|worker| ptr::from_ref(worker.shared()).addr())
}

/// Returns the state of the caller's runtime, if that has workers.
pub(crate) fn runtime() -> Option<Arc<Shared>> {
    match threads::current() {
        Some(context) => context.runtime().cloned(),
        None => current::with_worker(Worker::runtime),
    }
}

/// Returns `true` if the caller is a fiber, on a worker or as a thread.
pub(crate) fn in_fiber() -> bool {
    with_control(|_| ()).is_some()
}

/// Returns the bits by which the state of a lock names the calling fiber as its holder; zero if the
/// caller is no fiber on a worker.
#[inline]
pub(crate) fn holder_bits() -> u32 {
    running().map_or(0, |fiber| Awaited::bits_of(fiber.into_raw().addr() as u64))
}

/// Returns `true` if the caller is a fiber on a worker, which it must not block.
pub(crate) fn is_on_worker() -> bool {
    current::running().is_some()
}

/// Calls `action` with the calling fiber's control block, if the caller is a fiber.
pub(crate) fn with_control<R>(action: impl FnOnce(&Control) -> R) -> Option<R> {
    match current::running() {
        Some(fiber) => Some(action(fiber.control())),
        None => threads::current().map(|context| action(context.control())),
    }
}

/// Calls `read` with the state of each worker of the caller's runtime, the number of fibers that
/// any of them may take, and the pool for blocking calls, if the caller is a fiber.
pub(crate) fn with_readings<R>(
    read: impl FnOnce(&mut dyn Iterator<Item = Reading<'_>>, usize, Option<&Pool>) -> R,
) -> Option<R> {
    if let Some(context) = threads::current() {
        return Some(match context.runtime() {
            Some(runtime) => read_of(runtime, read),
            None => {
                let reading = Reading::of_threads(context.threads.counters());
                read(&mut iter::once(reading), 0, None)
            }
        });
    }
    current::with_fiber(|worker| read_of(worker.shared(), read))
}

fn read_of<R>(
    shared: &Shared,
    read: impl FnOnce(&mut dyn Iterator<Item = Reading<'_>>, usize, Option<&Pool>) -> R,
) -> R {
    let pool = Some(shared.calls.get().as_ref());
    read(&mut shared.readings(), shared.injected(), pool)
}

/// Calls `action` with the calling fiber's local values, if the caller is a fiber.
pub(crate) fn with_locals<R>(action: impl FnOnce(&Locals) -> R) -> Option<R> {
    with_control(|control| action(control.locals_or_new()))
}

/// Returns `true` if the runtime of the caller has virtual time.
pub(crate) fn has_virtual_time() -> bool {
    current::with_virtual_clock(|_| Some(())).is_some()
}

/// Returns the simulated world of the caller, if it has one.
#[inline]
pub(crate) fn world() -> Option<Arc<dyn World>> {
    if world::exists() {
        current::with_virtual_clock(|clock| clock.world().cloned())
    } else {
        None
    }
}

/// Tells the simulated world of the caller, if it has one, what is about to happen outside of it.
///
/// # Errors
///
/// `EPERM` if that is denied.
pub(crate) fn escape(what: &str) -> io::Result<()> {
    world().map_or(Ok(()), |world| world.escape(what))
}

/// Returns the priority of the calling fiber; outside of fibers, the normal one.
pub(crate) fn priority() -> Priority {
    with_control(|control| control.limits.priority()).unwrap_or_default()
}

/// Sets the priority of the calling fiber and returns the previous one. Does nothing outside of
/// fibers.
pub(crate) fn set_priority(priority: Priority) -> Priority {
    let before = with_control(|control| control.limits.set_priority(priority));
    if priority != Priority::Normal {
        current::with_fiber(Worker::begin_ordering);
    }
    before.unwrap_or_default()
}

/// Gives a new fiber this priority, or that of the caller. Called before the fiber is queued.
pub(crate) fn pass_priority(fiber: &FiberRef, own: Option<Priority>) {
    let priority = own.unwrap_or_else(priority);
    if priority != Priority::Normal {
        fiber.control().limits.set_priority(priority);
    }
}

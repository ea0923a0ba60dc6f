//! Spawning fibers from the calling fiber.

use std::io;

use super::panics::is_panicking;
use super::pass_priority;
use super::turn;
use crate::fiber::{FiberRef, Reserved};
use crate::priorities::Priority;
use crate::sched::threads::{self, ThreadContext};
use crate::sched::worker::queues::Queues;
use crate::sched::worker::{Worker, current};

/// Returns a stack of at least `bytes` bytes for a new fiber, or `None` if the default stacks of
/// the caller's runtime are large enough. The fibers of the threads driver have the stacks of their
/// threads.
///
/// # Errors
///
/// `ENOMEM` if there is no memory for the stack.
pub(crate) fn take_larger_stack(bytes: usize) -> io::Result<Option<Reserved>> {
    let here = current::with_worker(|worker| worker.shared().take_larger_stack(bytes));
    here.unwrap_or_else(|| {
        match threads::current()
            .as_deref()
            .and_then(ThreadContext::runtime)
        {
            Some(runtime) => runtime.take_larger_stack(bytes),
            None => Ok(None),
        }
    })
}

/// Queues a new fiber on the caller's worker or, if its priority is not normal or the caller is a
/// dedicated fiber, for all workers. With the threads driver, starts its thread instead, with a
/// stack of `stack_size` bytes if that is given.
///
/// # Errors
///
/// Any error that `pthread_create(3)` reports for the fiber's thread. The fiber is abandoned then.
///
/// # Panics
///
/// Panics if the caller belongs to no runtime.
pub(crate) fn here(fiber: FiberRef, stack_size: Option<usize>) -> io::Result<()> {
    if fiber.control().limits.priority() != Priority::Normal {
        current::with_worker(Worker::begin_ordering);
    }
    match queue_here(fiber, Queues::spawn) {
        None => {
            let_some_start();
            Ok(())
        }
        Some(fiber) => start_thread(fiber, stack_size),
    }
}

/// Queues a new fiber on the caller's worker, like [`here`]. If it cannot be queued, its outcome
/// has the error.
///
/// A function of its own, which calls nothing in the most frequent case, and so saves no registers.
pub(crate) fn ordinary(fiber: FiberRef) {
    let mut fiber = Some(fiber);
    current::with_worker(|worker| worker.queues.spawn_ordinary(&mut fiber));
    if let Some(fiber) = fiber {
        spawn_elsewhere(fiber);
    }
}

#[cold]
fn spawn_elsewhere(fiber: FiberRef) {
    // The fiber's outcome holds the error as well.
    let _ = here(fiber, None);
}

/// Lets new fibers start while the calling fiber's worker has too many of them.
fn let_some_start() {
    while current::with_fiber(|worker| worker.queues.has_many_new()) == Some(true)
        && !is_panicking()
    {
        turn::pass();
    }
}

/// Queues a new fiber that is a part of the calling fiber's work, for which [`take_back`] is called
/// later.
///
/// # Errors
///
/// The errors of [`here`].
///
/// # Panics
///
/// Panics if the caller belongs to no runtime.
pub(crate) fn fork(fiber: FiberRef) -> io::Result<()> {
    queue_here(fiber, Queues::fork).map_or(Ok(()), |fiber| {
        pass_priority(&fiber, None);
        start_thread(fiber, None)
    })
}

/// Queues a new fiber on the caller's worker. Returns it if the caller is on none.
fn queue_here(fiber: FiberRef, queue: impl FnOnce(&Queues, FiberRef)) -> Option<FiberRef> {
    let mut fiber = Some(fiber);
    current::with_worker(|worker| fiber.take().map(|fiber| queue(&worker.queues, fiber)));
    fiber
}

/// Starts the thread of a new fiber, whose spawner is a thread, too, or queues it if the spawner is
/// a dedicated fiber.
fn start_thread(fiber: FiberRef, stack_size: Option<usize>) -> io::Result<()> {
    let context = threads::current()
        .expect("the caller belongs to a runtime: check `caller::is_inside` first");
    context.spawn(fiber, stack_size)
}

/// Makes the fiber that the caller spawns next start on the next worker in turn: it will serve a
/// connection.
pub(crate) fn spread_next() {
    current::with_worker(|worker| worker.queues.spread_next());
}

/// Removes a fiber from the queue if it is still the newest one of the caller's worker. Returns
/// `true` if it was, so that the caller owns it.
pub(crate) fn take_back(fiber: &FiberRef) -> bool {
    current::with_fiber(|worker| worker.queues.take_back(fiber)).unwrap_or(false)
}

//! Starting fibers from the calling fiber.

use std::io;

use crate::fiber::FiberRef;
use crate::sched::threads;
use crate::sched::worker::{Worker, current};
use crate::stack::Stack;

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

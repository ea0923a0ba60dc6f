//! Starting dedicated fibers: each runs on a thread of its own, beside the workers of its runtime.
//!
//! ```text
//!   worker   ... fibers, among them the keeper, which waits  <---- woken when the fiber has ended
//!   thread   the dedicated fiber: its calls block            ----> queues what it spawns for the workers
//! ```
//!
//! The *keeper* has the name and the spawn site of the fiber. It makes the runtime count the fiber,
//! show it in dumps, and wait for it at its end.

use std::io;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crate::fiber::{Fiber, FiberRef, Identity, Outcome};
use crate::sched::caller::wait::Awaiting;
use crate::sched::caller::{self, wait};
use crate::sched::shared::Shared;
use crate::sched::shared::dedicated::{DedicatedFibers, Membership};
use crate::sched::threads::{self, Threads};
use crate::sched::worker::current;

/// Default stack size: that of a thread of `std`, as the code is often a library that was written
/// for threads.
const STACK_SIZE: usize = 2 * 1024 * 1024;

/// Starts a dedicated fiber of the caller's runtime, with a stack of `stack_size` bytes if given.
/// With the threads driver, where each fiber has a thread, starts an ordinary one.
///
/// # Errors
///
/// The errors of [`start`].
///
/// # Panics
///
/// Panics if the caller belongs to no runtime.
pub(crate) fn start_here(fiber: FiberRef, stack_size: Option<usize>) -> io::Result<()> {
    if let Some(runtime) = current::with_worker(|worker| Arc::clone(&worker.queues.shared)) {
        return start(&runtime, fiber, stack_size);
    }
    let context = threads::current()
        .expect("the caller belongs to a runtime: check `caller::is_inside` first");
    match context.runtime() {
        Some(runtime) => start(runtime, fiber, stack_size),
        None => context.spawn(fiber, stack_size),
    }
}

/// Starts a dedicated fiber of this runtime, with a stack of `stack_size` bytes if given.
///
/// # Errors
///
/// `EAGAIN` if the system has no thread or no memory for it; any other error `pthread_create(3)`
/// reports. The fiber is abandoned then.
pub(crate) fn start(
    runtime: &Arc<Shared>,
    fiber: FiberRef,
    stack_size: Option<usize>,
) -> io::Result<()> {
    let identity = Identity {
        name: fiber.control().name().map(Box::from),
        spawn_site: fiber.control().spawn_site(),
    };
    let ended = Arc::new(Outcome::new());
    let thread = Arc::default();
    let keeper = keeper(identity, Arc::clone(&ended), Arc::clone(&thread));
    let membership = Membership {
        runtime: Arc::clone(runtime),
        ended,
        thread,
    };
    let make = || Threads::new(STACK_SIZE) as Arc<dyn DedicatedFibers>;
    let dedicated = Arc::clone(runtime.dedicated_or_init(make));
    dedicated.spawn(fiber, stack_size.unwrap_or(STACK_SIZE), membership)?;
    // Until here, the caller's own fiber or runtime keeps the workers.
    runtime.inject_late(keeper);
    Ok(())
}

/// Returns a fiber that waits until `ended` is complete, which happens on the thread whose id is in
/// `thread`.
fn keeper(identity: Identity, ended: Arc<Outcome<()>>, thread: Arc<AtomicU32>) -> FiberRef {
    let wait = move || {
        if ended.await_done(caller::wake_handle()) {
            // Not cancelled: the end of the runtime cancels the dedicated fiber directly.
            let until_done = || wait::park_until(|| ended.is_done());
            wait::awaiting(Awaiting::Thread(&thread), until_done);
        }
    };
    let (keeper, _detached) = Fiber::owning(identity, wait);
    keeper
}

/// Returns `true` if the caller is a dedicated fiber of this runtime: its keeper's worker cannot
/// end before the caller continues.
pub(crate) fn is_caller_of(runtime: &Shared) -> bool {
    let context = threads::current();
    let own = context.as_deref().and_then(|context| context.runtime());
    own.is_some_and(|own| ptr::eq(&**own, runtime))
}

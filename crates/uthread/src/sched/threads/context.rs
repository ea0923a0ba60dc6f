//! The fiber of the calling thread, and its waits.

use std::cell::RefCell;
use std::io;
use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Departure, Parker, Threads, handles};
use crate::fiber::{Cancelled, Control, FiberRef, WakeHandle, end_park};
use crate::sched::budget;
use crate::sched::shared::Shared;
use crate::sched::shared::abandonment::Abandonment;

thread_local! {
    static CURRENT: RefCell<Option<Rc<ThreadContext>>> = const { RefCell::new(None) };
}

/// The fiber that a thread runs.
pub(in crate::sched) struct ThreadContext {
    pub(in crate::sched) threads: Arc<Threads>,
    /// The runtime of a dedicated fiber.
    pub(super) runtime: Option<Arc<Shared>>,
    pub(super) fiber: FiberRef,
    pub(super) parker: Arc<Parker>,
}

/// Makes the calling thread run a fiber.
pub(super) fn enter(context: ThreadContext) {
    CURRENT.set(Some(Rc::new(context)));
    budget::renew();
}

/// Ends the fiber of the calling thread.
pub(super) fn leave() {
    CURRENT.set(None);
}

/// Returns the calling thread's fiber, if it is one. Never inlined, like every access to a
/// thread-local that fibers make.
#[inline(never)]
pub(in crate::sched) fn current() -> Option<Rc<ThreadContext>> {
    CURRENT
        .try_with(|context| context.borrow().clone())
        .ok()
        .flatten()
}

/// Makes the calling thread a plain one until it ends. If it is a fiber, that must not return.
pub(in crate::sched) fn leave_for_good() {
    // Its context is shared with threads that may be modifying it.
    let _ = CURRENT.try_with(|context| {
        context
            .try_borrow_mut()
            .map(|mut context| mem::forget(context.take()))
    });
}

/// Records that the calling fiber, if it is a thread, has noticed that it may not wait.
#[cold]
pub(in crate::sched) fn acknowledge_end() {
    if let Some(context) = current() {
        context.parker.interrupted.store(false, Ordering::Relaxed);
    }
}

/// Abandons the calling fiber, which is a thread: never returns.
pub(in crate::sched) fn vanish() -> ! {
    if let Some(context) = current() {
        let id = context.control().id();
        handles::give_up(id);
        context.threads.remove(id, Departure::Abandoned);
    }
    loop {
        thread::park();
    }
}

impl ThreadContext {
    pub(in crate::sched) fn abandonment(&self) -> Abandonment {
        match (self.threads.abandonment.get(), &self.runtime) {
            // The runtime of a dedicated fiber is the first to know.
            (Abandonment::None, Some(runtime)) => runtime.abandonment(),
            (own, _) => own,
        }
    }

    pub(in crate::sched) fn outside(&self) -> &AtomicUsize {
        &self.threads.outside
    }

    pub(in crate::sched) fn control(&self) -> &Control {
        self.fiber.control()
    }

    pub(in crate::sched) fn wake_handle(&self) -> WakeHandle {
        WakeHandle::Fiber(self.fiber.clone())
    }

    /// Returns the runtime with workers to which a dedicated fiber belongs. That of another fiber
    /// has none.
    pub(in crate::sched) fn runtime(&self) -> Option<&Arc<Shared>> {
        self.runtime.as_ref()
    }

    /// Starts a fiber on a thread, with a stack of `stack_size` bytes if given. That of a dedicated
    /// fiber is queued for the workers instead.
    ///
    /// # Errors
    ///
    /// The errors of [`Threads::spawn`].
    pub(in crate::sched) fn spawn(
        &self,
        fiber: FiberRef,
        stack_size: Option<usize>,
    ) -> io::Result<()> {
        let Some(runtime) = &self.runtime else {
            return self.threads.spawn(fiber, stack_size);
        };
        if self.is_shut_down() {
            fiber.abandon(Box::new(Cancelled));
        } else {
            runtime.inject_late(fiber);
        }
        Ok(())
    }

    pub(in crate::sched) fn is_shut_down(&self) -> bool {
        // The runtime counts, too: a fiber on a worker that this one waits for may have ended with
        // it already.
        let runtime = self.runtime.as_ref();
        self.threads.is_shut_down() || runtime.is_some_and(|runtime| runtime.is_shut_down())
    }

    /// Begins a call and forgets earlier interrupts. Called before the check whether a system call
    /// may wait: a canceller goes the other way round.
    pub(in crate::sched) fn begin_call(&self) {
        self.control().limits.last_worker.set(0);
        // Acquire pairs with the Release in `interrupt`.
        self.parker.interrupted.swap(false, Ordering::Acquire);
    }

    /// Waits for a wake-up, until the deadline if there is one. May return spuriously.
    pub(in crate::sched) fn park(&self, deadline: Option<Instant>) {
        // A wake-up came with every interrupt.
        self.parker.interrupted.store(false, Ordering::Relaxed);
        let token = &self.control().token;
        if !token.take() {
            if token.settle_park() {
                self.parker.parks.fetch_add(1, Ordering::Relaxed);
                self.parker
                    .parked
                    .store(deadline.is_none(), Ordering::Relaxed);
                self.block(deadline);
                self.parker.parked.store(false, Ordering::Relaxed);
            }
            token.take();
        }
    }

    /// Blocks until the settled park is over.
    fn block(&self, mut deadline: Option<Instant>) {
        // Acquire pairs with the Release in `enqueue`.
        while !self.parker.resumed.load(Ordering::Acquire) {
            let rest = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            match rest {
                None => thread::park(),
                Some(Duration::ZERO) if end_park(&self.fiber).is_some() => return,
                // Another thread is about to end it.
                Some(Duration::ZERO) => deadline = None,
                Some(rest) => thread::park_timeout(rest),
            }
        }
        // Relaxed: it is set again only after the next park was settled, which orders the two.
        self.parker.resumed.store(false, Ordering::Relaxed);
    }
}

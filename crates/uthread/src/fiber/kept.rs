//! What a thread keeps of released fibers for the next ones: memory, and references to a scheduler.
//!
//! ```text
//!   thread of a worker, and the fibers that it runs   from its begin to its end
//!   any other thread                                  from the first release until it ends
//! ```
//!
//! It is found by the [record](crate::tls::record) of the thread, or of the fiber if that has
//! thread-local storage of its own: the worker updates it whenever it resumes such a fiber. So what
//! is kept stays on its thread, and needs no lock, also if the worker is taken from there.

use std::cell::{Cell, OnceCell};
use std::ptr;
use std::sync::Arc;

use super::Scheduler;
use super::free_blocks::FreeBlocks;
use crate::tls::record;

#[derive(Default)]
pub(crate) struct Kept {
    pub(super) blocks: FreeBlocks,
    pub(super) recycled: Recycled,
}

/// References to one scheduler.
#[derive(Default)]
pub(super) struct Recycled {
    /// Null if none are kept, as the thread runs no worker.
    pub(super) scheduler: Cell<*const Arc<dyn Scheduler>>,
    /// Number of references. As many are counted and belong to nobody else.
    pub(super) count: Cell<usize>,
}

impl Recycled {
    /// Begins to keep references to this scheduler.
    pub(super) fn begin(&self, scheduler: *const Arc<dyn Scheduler>) {
        debug_assert_eq!(self.count.get(), 0, "a thread keeps those of one worker");
        self.scheduler.set(scheduler);
    }

    /// Drops the references, and keeps no more.
    #[allow(unsafe_code, reason = "references that are counted but are no values")]
    pub(super) fn end(&self) {
        let scheduler = self.scheduler.replace(ptr::null());
        for _ in 0..self.count.take() {
            // SAFETY: the thread has kept the reference, and gives it up.
            unsafe { Arc::decrement_strong_count(scheduler) };
        }
    }
}

impl Kept {
    /// Ends the use by the calling thread of what it keeps for a worker.
    pub(crate) fn end(&self) {
        withdraw();
        self.recycled.end();
    }
}

thread_local! {
    /// Exists from the first release on, if the thread is no worker's.
    static OWN: Own = const { Own(OnceCell::new()) };
}

struct Own(OnceCell<Box<Kept>>);

impl Drop for Own {
    fn drop(&mut self) {
        // What is released from now on is not kept.
        withdraw();
    }
}

/// Withdraws what was lent to the calling thread or fiber.
#[inline(never)]
pub(crate) fn withdraw() {
    record::with(|record| record.kept.set(ptr::null()));
}

/// Calls `action` with what the calling thread keeps, if there is any. It does not suspend its
/// fiber.
#[inline]
#[allow(unsafe_code, reason = "a reference without its lifetime")]
pub(super) fn with<R>(action: impl FnOnce(&Kept) -> R) -> Option<R> {
    let kept = record::with(|record| record.kept.get()).cast::<Kept>();
    // SAFETY: what was lent is withdrawn before it is dropped, and what the thread has is dropped
    // after the pointer was removed.
    unsafe { kept.as_ref() }.map(action)
}

/// Calls `action` with what the calling thread keeps from now on, unless it ends. Like [`with`].
#[cold]
pub(super) fn with_new<R>(action: impl FnOnce(&Kept) -> R) -> Option<R> {
    if record::with(|record| !record.fiber.get().is_null()) {
        // A fiber uses what its thread keeps.
        return None;
    }
    OWN.try_with(|Own(own)| {
        let kept = own.get_or_init(Box::default);
        record::with(|record| record.kept.set(ptr::from_ref(&**kept).cast()));
        action(kept)
    })
    .ok()
}

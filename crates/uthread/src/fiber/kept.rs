//! What a thread keeps of released fibers for the next ones: memory, and references to a scheduler.
//!
//! ```text
//!   thread of a worker, and the fibers that it runs   what the worker has, from its begin to its end
//!   any other thread                                  its own, from the first release until it ends
//! ```
//!
//! A thread finds it by its [record](crate::tls::record), as fibers with thread-local storage of
//! their own have one each.

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

/// The references that a worker keeps, all to one scheduler.
#[derive(Default)]
pub(super) struct Recycled {
    /// Null if none are kept: it is no worker's, or its worker has ended.
    pub(super) scheduler: Cell<*const Arc<dyn Scheduler>>,
    /// Number of references. As many are counted and belong to nobody else.
    pub(super) count: Cell<usize>,
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

impl Kept {
    /// Lets the calling thread, or the calling fiber if it has thread-local storage of its own, use
    /// this, until it is [withdrawn](withdraw). Never inlined, like every access to a thread-local
    /// that fibers make.
    ///
    /// # Safety
    ///
    /// It is withdrawn before it is dropped, and nobody else uses it meanwhile.
    #[inline(never)]
    #[allow(unsafe_code, reason = "a reference without its lifetime")]
    pub(crate) unsafe fn lend(&self) {
        record::with(|record| record.kept.set(ptr::from_ref(self).cast()));
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
    OWN.try_with(|Own(own)| {
        let kept = own.get_or_init(Box::default);
        record::with(|record| record.kept.set(ptr::from_ref(&**kept).cast()));
        action(kept)
    })
    .ok()
}

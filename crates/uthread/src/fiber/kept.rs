//! What a thread keeps of released fibers for the next ones: memory, and references to a scheduler.
//!
//! ```text
//!   thread of a worker, and the fibers that it runs   what the worker has, from its begin to its end
//!   any other thread                                  its own, from the first release until it ends
//! ```
//!
//! A thread finds it by one pointer, as fibers with thread-local storage of their own have one
//! each.

use std::cell::{Cell, OnceCell};
use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::Arc;

use super::Scheduler;
use super::free_blocks::FreeBlocks;

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
    static KEPT: Cell<Option<NonNull<Kept>>> = const { Cell::new(None) };
    /// Exists from the first release on, if the thread is no worker's.
    static OWN: Own = const { Own(OnceCell::new()) };
}

struct Own(OnceCell<Box<Kept>>);

impl Drop for Own {
    fn drop(&mut self) {
        // What is released from now on is not kept.
        KEPT.set(None);
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
        KEPT.set(Some(NonNull::from_ref(self)));
    }
}

/// Calls `reset`, which resets the thread-local storage of the calling fiber, and lends to it again
/// what was lent before. Never inlined, like [`lend`](Kept::lend).
#[inline(never)]
pub(crate) fn across(reset: fn()) {
    let kept = KEPT.get();
    reset();
    // An opaque value: the compiler must not find that it is stored already.
    KEPT.set(black_box(kept));
}

/// Withdraws what was lent to the calling thread or fiber.
#[inline(never)]
pub(crate) fn withdraw() {
    KEPT.set(None);
}

/// Calls `action` with what the calling thread keeps, if there is any. It does not suspend its
/// fiber.
#[inline]
#[allow(unsafe_code, reason = "a reference without its lifetime")]
pub(super) fn with<R>(action: impl FnOnce(&Kept) -> R) -> Option<R> {
    // SAFETY: what was lent is withdrawn before it is dropped, and what the thread has is dropped
    // after the pointer was removed.
    KEPT.get().map(|kept| action(unsafe { kept.as_ref() }))
}

/// Calls `action` with what the calling thread keeps from now on, unless it ends. Like [`with`].
#[cold]
pub(super) fn with_new<R>(action: impl FnOnce(&Kept) -> R) -> Option<R> {
    OWN.try_with(|Own(own)| {
        let kept = own.get_or_init(Box::default);
        KEPT.set(Some(NonNull::from_ref(&**kept)));
        action(kept)
    })
    .ok()
}

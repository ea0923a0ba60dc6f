//! The ends of the threads that fibers are: who joins such a fiber waits, as `std`'s join does, until the destructors of the
//! thread's thread-locals have run, which is after the fiber's outcome is there.
//!
//! A thread is kept here by its fiber's id from its start until the fiber's handle is used or dropped. Where no fiber is a
//! thread nothing is kept, and a look at a counter is all that a join costs.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use super::local_or_shared::lock;
use super::offload;

/// By the ids of their fibers; bounded by the number of handles, and of fibers that were abandoned: for one of those that was
/// so before it was kept there is none.
static KEPT: Mutex<Option<HashMap<NonZeroU64, Option<JoinHandle<()>>>>> = Mutex::new(None);

/// How many there are. Relaxed: who has a fiber's handle got it after the thread was counted.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Keeps the thread of a fiber, whose handle nobody has yet.
pub(super) fn keep(fiber: NonZeroU64, thread: JoinHandle<()>) {
    let mut kept = lock(&KEPT);
    let kept = kept.get_or_insert_default();
    if kept.remove(&fiber).is_none() {
        COUNT.fetch_add(1, Ordering::Relaxed);
        kept.insert(fiber, Some(thread));
    }
}

/// Keeps no thread for a fiber that is abandoned: it never ends.
pub(super) fn give_up(fiber: NonZeroU64) {
    if take(fiber).is_none() {
        lock(&KEPT).get_or_insert_default().insert(fiber, None);
    }
}

/// Waits until the thread of a fiber that has ended is gone, if it was one.
#[inline(always)]
pub(crate) fn await_end(fiber: impl FnOnce() -> NonZeroU64) {
    if COUNT.load(Ordering::Relaxed) != 0 {
        await_thread(fiber());
    }
}

/// Lets the thread of a fiber end by itself: the fiber's handle is dropped.
#[inline(always)]
pub(crate) fn detach(fiber: impl FnOnce() -> NonZeroU64) {
    if COUNT.load(Ordering::Relaxed) != 0 {
        drop(take(fiber()));
    }
}

#[cold]
fn await_thread(fiber: NonZeroU64) {
    let Some(thread) = take(fiber) else {
        return;
    };
    // A destructor may have the handle of its own thread.
    if thread.thread().id() != thread::current().id() {
        // The fiber's panic is in its outcome.
        let _ = offload::run(|| thread.join());
    }
}

#[cold]
fn take(fiber: NonZeroU64) -> Option<JoinHandle<()>> {
    let mut kept = lock(&KEPT);
    let thread = kept.as_mut()?.remove(&fiber)??;
    COUNT.fetch_sub(1, Ordering::Relaxed);
    Some(thread)
}

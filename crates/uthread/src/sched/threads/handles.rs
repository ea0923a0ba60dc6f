//! The handles of the threads that run fibers, by fiber, until the fiber's own handle is used or
//! dropped.
//!
//! Where no fiber is a thread nothing is kept, and a look at a counter is all that a join costs.
//! Where some are, the others are known by their control blocks.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use crate::atomic::lock;
use crate::fiber::Control;
use crate::forked::PerProcess;

/// By the ids of their fibers; bounded by the number of handles and of abandoned fibers. `None` for
/// a fiber that was abandoned before its thread was kept.
static KEPT: PerProcess<Mutex<Option<Kept>>> = PerProcess::new(Mutex::new(None), Mutex::default);

type Kept = HashMap<NonZeroU64, Option<JoinHandle<()>>>;

/// The number of threads. Relaxed: a fiber's handle exists only after its thread was counted.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Keeps the thread of a fiber whose handle does not exist yet.
pub(in crate::sched) fn keep(fiber: NonZeroU64, thread: JoinHandle<()>) {
    let mut kept = lock(KEPT.get());
    let kept = kept.get_or_insert_default();
    if kept.remove(&fiber).is_none() {
        COUNT.fetch_add(1, Ordering::Relaxed);
        kept.insert(fiber, Some(thread));
    }
}

/// Keeps no thread for a fiber that is abandoned: it never ends.
pub(in crate::sched) fn give_up(fiber: NonZeroU64) {
    if take(fiber).is_none() {
        lock(KEPT.get()).get_or_insert_default().insert(fiber, None);
    }
}

/// Detaches the thread of a fiber whose handle is dropped.
pub(crate) fn detach<'a>(fiber: impl FnOnce() -> &'a Control) {
    if !is_empty() {
        drop(take_of(fiber()));
    }
}

/// Returns `true` if no thread is kept.
#[inline]
pub(in crate::sched) fn is_empty() -> bool {
    COUNT.load(Ordering::Relaxed) == 0
}

/// Takes the thread of a fiber, if it has one.
#[cold]
pub(in crate::sched) fn take_of(fiber: &Control) -> Option<JoinHandle<()>> {
    fiber.is_thread().then(|| take(fiber.id())).flatten()
}

fn take(fiber: NonZeroU64) -> Option<JoinHandle<()>> {
    let mut kept = lock(KEPT.get());
    let thread = kept.as_mut()?.remove(&fiber)??;
    COUNT.fetch_sub(1, Ordering::Relaxed);
    Some(thread)
}

//! The number of ready fibers of a worker, which others read while it runs.
//!
//! The queues of a worker belong to it: they are in it, so that it reaches them without a pointer.
//! Their lengths are atomics beside them, which the worker lends for as long as it runs.

use std::sync::Mutex;

use crate::atomic::lock;
use crate::sched::queues::ready::Lengths;

/// See the [module](self).
#[derive(Default)]
pub(in crate::sched) struct Gauge(Mutex<Option<Lengths<'static>>>);

impl Gauge {
    /// Lends lengths to other threads.
    ///
    /// # Safety
    ///
    /// They are [taken back](Gauge::take_back) before they are dropped.
    #[allow(unsafe_code, reason = "references without their lifetime")]
    pub(in crate::sched) unsafe fn lend(&self, lengths: Lengths<'_>) {
        // SAFETY: only the lifetime changes. They are read under the lock alone, and by the
        // caller's contract taken back under it.
        let lengths = unsafe { std::mem::transmute::<Lengths<'_>, Lengths<'static>>(lengths) };
        *lock(&self.0) = Some(lengths);
    }

    pub(in crate::sched) fn take_back(&self) {
        *lock(&self.0) = None;
    }

    /// Returns the number, or zero if none is lent.
    pub(in crate::sched) fn get(&self) -> usize {
        lock(&self.0).as_ref().map_or(0, Lengths::sum)
    }
}

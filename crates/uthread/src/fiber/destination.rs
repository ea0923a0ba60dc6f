//! The references of fibers to their scheduler. Each fiber has one from its start to its release,
//! and counting them takes two atomic operations, a fifth of the time of a spawn and its join. So
//! the thread of a worker [keeps](kept) those of the fibers that are released on it, for those that
//! it starts.

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

use super::Scheduler;
use super::kept::{self, Kept};
use crate::tls::record::{self, Record};

/// The scheduler of a fiber, in one word.
pub(crate) type Destination = Arc<Arc<dyn Scheduler>>;

/// The reference of a worker, and the source of those of its fibers.
pub(crate) struct Destinations {
    own: Destination,
    /// What the thread of the worker keeps. Null before it runs.
    kept: Cell<*const Kept>,
}

#[allow(unsafe_code, reason = "references that are counted but are no values")]
impl Destinations {
    pub(crate) fn new(scheduler: Arc<dyn Scheduler>) -> Destinations {
        Destinations {
            own: Arc::new(scheduler),
            kept: Cell::new(ptr::null()),
        }
    }

    /// Makes the calling thread, which is the worker's, keep what fibers leave for others, until
    /// `kept` is [ended](Kept::end).
    ///
    /// # Safety
    ///
    /// `kept` is ended before it is dropped. Afterwards only [`drop_kept`](Destinations::drop_kept)
    /// may be called, or this.
    pub(crate) unsafe fn keep(&self, kept: &Kept) {
        kept.recycled.begin(Arc::as_ptr(&self.own));
        self.kept.set(kept);
        record::with(|record| self.lend(record));
    }

    /// Lets the thread or fiber that has this record use what the worker's thread keeps.
    #[inline]
    pub(crate) fn lend(&self, record: &Record) {
        record.kept.set(self.kept.get().cast());
    }

    /// Drops what the thread keeps, as the worker ends.
    pub(crate) fn drop_kept(&self) {
        // SAFETY: by the contract of `keep`, it lives.
        if let Some(kept) = unsafe { self.kept.replace(ptr::null()).as_ref() } {
            kept.end();
        }
    }

    /// Returns the reference of a fiber that starts.
    pub(crate) fn take(&self) -> Destination {
        // SAFETY: by the contract of `keep`, it lives.
        let recycled = unsafe { self.kept.get().as_ref() }.map(|kept| &kept.recycled);
        match recycled.and_then(|recycled| Some((recycled, recycled.count.get().checked_sub(1)?))) {
            Some((recycled, rest)) => {
                recycled.count.set(rest);
                // SAFETY: the thread has kept the reference, and gives it up.
                unsafe { Arc::from_raw(Arc::as_ptr(&self.own)) }
            }
            None => Arc::clone(&self.own),
        }
    }
}

/// Keeps the reference of a fiber that is released, or drops it. Never inlined, like every access
/// to a thread-local that fibers make.
#[inline(never)]
#[allow(unsafe_code, reason = "references that are counted but are no values")]
pub(super) fn give_back(destination: Destination) {
    let scheduler = Arc::into_raw(destination);
    let is_kept = kept::with(|Kept { recycled, .. }| {
        let keeps = ptr::eq(recycled.scheduler.get(), scheduler);
        if keeps {
            recycled.count.set(recycled.count.get() + 1);
        }
        keeps
    });
    if is_kept != Some(true) {
        // SAFETY: the reference was that of the fiber.
        unsafe { Arc::decrement_strong_count(scheduler) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fiber::{FiberRef, Started};

    struct Nobody;

    impl Scheduler for Nobody {
        fn enqueue(&self, _: Started) {}

        fn interrupt(&self, _: FiberRef, _: u32) {}

        fn is_abandoned(&self) -> bool {
            false
        }
    }

    #[allow(unsafe_code, reason = "what is kept is dropped by the tests")]
    fn begin(destinations: &Destinations, kept: &Kept) {
        // SAFETY: the tests call `drop_kept`.
        unsafe { destinations.keep(kept) };
    }

    fn count(destinations: &Destinations) -> usize {
        Arc::strong_count(&destinations.own)
    }

    #[test]
    fn a_worker_keeps_the_references_of_its_fibers_until_it_ends() {
        let (destinations, kept) = (Destinations::new(Arc::new(Nobody)), Kept::default());
        begin(&destinations, &kept);
        let [first, second] = [destinations.take(), destinations.take()];
        assert_eq!(count(&destinations), 3);
        give_back(first);
        give_back(second);
        assert_eq!(count(&destinations), 3);
        let again = destinations.take();
        assert!(Arc::ptr_eq(&again, &destinations.own));
        assert_eq!(count(&destinations), 3);
        destinations.drop_kept();
        assert_eq!(count(&destinations), 2);
        give_back(again);
        assert_eq!(count(&destinations), 1);
    }

    #[test]
    fn references_to_another_scheduler_are_dropped() {
        let [ours, theirs] = [(); 2].map(|()| Destinations::new(Arc::new(Nobody)));
        let kept = Kept::default();
        begin(&ours, &kept);
        give_back(ours.take());
        give_back(theirs.take());
        assert_eq!(count(&theirs), 1);
        let reference = theirs.take();
        assert_eq!((count(&ours), count(&theirs)), (2, 2));
        drop(reference);
        assert_eq!(count(&ours), 2);
        ours.drop_kept();
        assert_eq!(count(&ours), 1);
    }

    #[test]
    fn a_thread_that_is_no_worker_keeps_none() {
        let (destinations, kept) = (Destinations::new(Arc::new(Nobody)), Kept::default());
        begin(&destinations, &kept);
        let reference = destinations.take();
        std::thread::scope(|scope| scope.spawn(|| give_back(reference)).join().unwrap());
        assert_eq!(count(&destinations), 1);
        destinations.drop_kept();
    }
}

//! The references of fibers to their scheduler. Each fiber has one from its start to its release,
//! and counting them takes two atomic operations, a fifth of the time of a spawn and its join. So a
//! worker [keeps](kept) those of the fibers that are released on it, for those that it starts.

use std::ptr;
use std::sync::Arc;

use super::Scheduler;
use super::kept::{self, Kept};

/// The scheduler of a fiber, in one word.
pub(crate) type Destination = Arc<Arc<dyn Scheduler>>;

/// The reference of a worker, and the source of those of its fibers.
pub(crate) struct Destinations {
    own: Destination,
    kept: Box<Kept>,
}

#[allow(unsafe_code, reason = "references that are counted but are no values")]
impl Destinations {
    pub(crate) fn new(scheduler: Arc<dyn Scheduler>) -> Destinations {
        Destinations {
            own: Arc::new(scheduler),
            kept: Box::default(),
        }
    }

    /// Makes the calling thread, which is the worker's, keep what fibers leave for others, until
    /// [`drop_kept`](Destinations::drop_kept).
    pub(crate) fn keep(&self) {
        self.kept.recycled.scheduler.set(Arc::as_ptr(&self.own));
        self.lend();
    }

    /// Lets the calling thread or fiber use what the worker keeps.
    pub(crate) fn lend(&self) {
        // SAFETY: `drop_kept` withdraws it, on the thread of the worker, to which only fibers that
        // it runs have access.
        unsafe { self.kept.lend() };
    }

    /// Drops the kept references. The calling thread keeps nothing of this worker's any more.
    pub(crate) fn drop_kept(&self) {
        kept::withdraw();
        let recycled = &self.kept.recycled;
        recycled.scheduler.set(ptr::null());
        for _ in 0..recycled.count.take() {
            // SAFETY: the worker has kept the reference, and gives it up.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(&self.own)) };
        }
    }

    /// Returns the reference of a fiber that starts.
    pub(crate) fn take(&self) -> Destination {
        match self.kept.recycled.count.get().checked_sub(1) {
            Some(rest) => {
                self.kept.recycled.count.set(rest);
                // SAFETY: the worker has kept the reference, and gives it up.
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

    fn count(destinations: &Destinations) -> usize {
        Arc::strong_count(&destinations.own)
    }

    #[test]
    fn a_worker_keeps_the_references_of_its_fibers_until_it_ends() {
        let destinations = Destinations::new(Arc::new(Nobody));
        destinations.keep();
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
        ours.keep();
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
        let destinations = Destinations::new(Arc::new(Nobody));
        destinations.keep();
        let reference = destinations.take();
        std::thread::scope(|scope| scope.spawn(|| give_back(reference)).join().unwrap());
        assert_eq!(count(&destinations), 1);
        destinations.drop_kept();
    }
}

//! The references of fibers to their scheduler. Each fiber has one from its start to its release,
//! and counting them takes two atomic operations, a fifth of the time of a spawn and its join. So
//! the thread of a worker keeps those of the fibers that are released on it, for those that it
//! starts.

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

use super::Scheduler;

/// The scheduler of a fiber, in one word.
pub(crate) type Destination = Arc<Arc<dyn Scheduler>>;

thread_local! {
    static RECYCLED: Recycled = const {
        Recycled {
            scheduler: Cell::new(ptr::null()),
            count: Cell::new(0),
        }
    };
}

/// The references that a thread keeps, all to one scheduler.
struct Recycled {
    /// Null on a thread that keeps none: it is no worker's, or ends.
    scheduler: Cell<*const Arc<dyn Scheduler>>,
    /// Number of references. As many are counted and belong to nobody else.
    count: Cell<usize>,
}

/// The reference of a worker, and the source of those of its fibers.
pub(crate) struct Destinations {
    own: Destination,
}

#[allow(unsafe_code, reason = "references that are counted but are no values")]
impl Destinations {
    pub(crate) fn new(scheduler: Arc<dyn Scheduler>) -> Destinations {
        Destinations {
            own: Arc::new(scheduler),
        }
    }

    /// Makes the calling thread keep references, until [`drop_kept`](Destinations::drop_kept).
    /// Called by the worker's thread, which keeps none yet.
    pub(crate) fn keep(&self) {
        RECYCLED.with(|recycled| {
            debug_assert_eq!(
                recycled.count.get(),
                0,
                "a thread keeps those of one worker"
            );
            recycled.scheduler.set(Arc::as_ptr(&self.own));
        });
    }

    /// Drops what the calling thread has kept of this worker's references. It keeps no more.
    pub(crate) fn drop_kept(&self) {
        let own = Arc::as_ptr(&self.own);
        RECYCLED.with(|recycled| {
            if ptr::eq(recycled.scheduler.get(), own) {
                recycled.scheduler.set(ptr::null());
                for _ in 0..recycled.count.take() {
                    // SAFETY: the thread has kept the reference, and gives it up.
                    unsafe { Arc::decrement_strong_count(own) };
                }
            }
        });
    }

    /// Returns the reference of a fiber that starts. Called by the loop of the worker, which stays
    /// on its thread.
    pub(crate) fn take(&self) -> Destination {
        let own = Arc::as_ptr(&self.own);
        if RECYCLED.with(|recycled| recycled.take(own)) {
            // SAFETY: the thread has kept the reference, and gives it up.
            unsafe { Arc::from_raw(own) }
        } else {
            Arc::clone(&self.own)
        }
    }
}

impl Recycled {
    /// Gives up a reference to this scheduler. Returns `false` if there is none.
    fn take(&self, scheduler: *const Arc<dyn Scheduler>) -> bool {
        let count = self.count.get();
        let has_one = ptr::eq(self.scheduler.get(), scheduler) && count > 0;
        if has_one {
            self.count.set(count - 1);
        }
        has_one
    }
}

/// Keeps the reference of a fiber that is released, or drops it. Never inlined, like every access
/// to a thread-local that fibers make.
#[inline(never)]
#[allow(unsafe_code, reason = "references that are counted but are no values")]
pub(super) fn give_back(destination: Destination) {
    let scheduler = Arc::into_raw(destination);
    RECYCLED.with(|recycled| {
        if ptr::eq(recycled.scheduler.get(), scheduler) {
            recycled.count.set(recycled.count.get() + 1);
        } else {
            // SAFETY: the reference was that of the fiber.
            unsafe { Arc::decrement_strong_count(scheduler) };
        }
    });
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
        fn across_reset(&self, _: fn()) {}
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
        theirs.drop_kept();
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

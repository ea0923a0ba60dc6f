//! A barrier.

use std::fmt;

use super::parking_lot::{self, Dequeued, WaitEnd, WaitQueue};
use crate::atomic::{AtomicUsize, Ordering};
use crate::sched::caller::{cancellation, turn};

/// A barrier, at which a number of fibers and threads wait for each other; the counterpart of
/// [`std::sync::Barrier`].
///
/// ```
/// use uthread::sync::Barrier;
///
/// let barrier = Barrier::new(3);
/// let leaders = uthread::scope(|scope| {
///     let fibers = [(); 3].map(|()| scope.spawn(|| barrier.wait().is_leader()));
///     fibers.map(|fiber| fiber.join().unwrap())
/// });
/// assert_eq!(leaders.iter().filter(|leader| **leader).count(), 1);
/// ```
///
/// # Cancellation
///
/// [`wait`](Barrier::wait) is a cancellation point: a [cancelled](crate::thread::Cancelled) fiber
/// is unwound and no longer counts, so the others wait for one more. If the barrier has opened just
/// before, or if the fiber is in a destructor, where it cannot be unwound, `wait` returns.
pub struct Barrier {
    count: usize,
    /// Number of waiters. Accessed under the lock of the queue.
    waiting: AtomicUsize,
}

/// The result of [`Barrier::wait`]. See the example of [`is_leader`](BarrierWaitResult::is_leader).
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// Returns `true` for exactly one of the waiters that pass the barrier together: the last to
    /// arrive.
    ///
    /// ```
    /// assert!(uthread::sync::Barrier::new(1).wait().is_leader());
    /// ```
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl Barrier {
    /// Creates a barrier for `count` waiters. With 0 or 1, `wait` returns at once. See the example
    /// of [`Barrier`].
    #[must_use]
    pub const fn new(count: usize) -> Barrier {
        Barrier {
            count,
            waiting: AtomicUsize::new(0),
        }
    }

    /// Waits until all waiters have arrived. See the [example](Barrier) above.
    pub fn wait(&self) -> BarrierWaitResult {
        let waiter = parking_lot::with_queue(self, |queue| {
            let waiting = self.waiting.load(Ordering::Relaxed) + 1;
            let is_last = waiting >= self.count;
            self.waiting
                .store(if is_last { 0 } else { waiting }, Ordering::Relaxed);
            if is_last {
                Err(queue.dequeue_all())
            } else {
                Ok(queue.enqueue(0))
            }
        });
        match waiter {
            Ok(waiter) => {
                let left = |_: &mut WaitQueue| {
                    let waiting = self.waiting.load(Ordering::Relaxed) - 1;
                    self.waiting.store(waiting, Ordering::Relaxed);
                    Dequeued::default()
                };
                let ended = waiter.wait_for(None, left, || ());
                if ended == WaitEnd::Cancelled {
                    cancellation::unwind_if_cancelled();
                }
                BarrierWaitResult(false)
            }
            Err(others) => {
                others.wake();
                turn::spend_try();
                BarrierWaitResult(true)
            }
        }
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Barrier").finish_non_exhaustive()
    }
}

impl fmt::Debug for BarrierWaitResult {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("BarrierWaitResult")
            .field("is_leader", &self.is_leader())
            .finish()
    }
}

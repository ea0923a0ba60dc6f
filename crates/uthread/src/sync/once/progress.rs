//! The protocol of one-time initialization.
//!
//! ```text
//!   INCOMPLETE -> RUNNING -> COMPLETE
//!                 |     ^
//!                 v     | forced
//!                POISONED          each with or without QUEUED, except COMPLETE
//! ```
//!
//! INCOMPLETE is zero. QUEUED is set under the lock of the queue, and only while there is a reason
//! to wait. The end of RUNNING dequeues all waiters: either nothing is left to wait for, or one of
//! them has to try again.

use crate::atomic::{AtomicU32, Ordering};
use crate::sched::caller::cancellation;
use crate::sync::parking_lot::{self, Dequeued, WaitEnd, Waiter};

const POISONED: u32 = 1;
const RUNNING: u32 = 2;
const COMPLETE: u32 = 3;
const QUEUED: u32 = 4;

pub(crate) struct Progress {
    state: AtomicU32,
}

impl Progress {
    /// Creates the state from its word, which must be zero.
    pub(crate) const fn new(state: AtomicU32) -> Progress {
        Progress { state }
    }

    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        // Acquire pairs with the release in `Run::drop`.
        self.state.load(Ordering::Acquire) == COMPLETE
    }

    /// Calls `f` if no call has completed, and waits while another call runs. Passes `true` to `f`
    /// if the state was poisoned. Panics in that case unless `force` is set.
    #[cold]
    #[track_caller]
    pub(crate) fn run(&self, force: bool, f: &mut dyn FnMut(bool)) {
        loop {
            let state = self.state.load(Ordering::Acquire);
            match state & !QUEUED {
                COMPLETE => return,
                POISONED if !force => panic_poisoned(),
                RUNNING => {
                    if let Some(waiter) = self.join(|state| state == RUNNING) {
                        waiter.wait();
                    }
                }
                before => {
                    let running = RUNNING | (state & QUEUED);
                    // Acquire pairs with the release of a call that has panicked.
                    let begun = self.state.compare_exchange(
                        state,
                        running,
                        Ordering::Acquire,
                        Ordering::Relaxed,
                    );
                    if begun.is_ok() {
                        let mut run = Run {
                            progress: self,
                            becomes: POISONED,
                        };
                        f(before == POISONED);
                        run.becomes = COMPLETE;
                        return;
                    }
                }
            }
        }
    }

    /// Waits until a call has completed. Panics if the state is poisoned, unless `force` is set.
    #[track_caller]
    pub(crate) fn wait(&self, force: bool) {
        while !self.is_complete() {
            if !force && self.state.load(Ordering::Relaxed) & !QUEUED == POISONED {
                panic_poisoned();
            }
            let awaited = |state| state != COMPLETE && (force || state != POISONED);
            let Some(waiter) = self.join(awaited) else {
                continue;
            };
            let ended = waiter.wait_for(None, |_| Dequeued::default(), || ());
            if ended == WaitEnd::Cancelled {
                cancellation::unwind_if_cancelled();
                // In a destructor the fiber cannot be unwound, and the caller relies on the
                // completed call.
                if let Some(waiter) = self.join(awaited) {
                    waiter.wait();
                }
            }
        }
    }

    /// Enqueues the caller, unless the state has changed and there is no reason to wait.
    fn join(&self, is_awaited: impl Fn(u32) -> bool) -> Option<Waiter> {
        parking_lot::with_queue(self, |queue| {
            let mut state = self.state.load(Ordering::Relaxed);
            while is_awaited(state & !QUEUED) {
                // Relaxed: the fiber or thread that dequeues takes the lock of the queue.
                let noted = self.state.compare_exchange(
                    state,
                    state | QUEUED,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
                match noted {
                    Ok(_) => return Some(queue.enqueue(0)),
                    Err(found) => state = found,
                }
            }
            None
        })
    }
}

/// A running call.
struct Run<'a> {
    progress: &'a Progress,
    becomes: u32,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        // Release pairs with the acquire of all readers of the state.
        let before = self.progress.state.swap(self.becomes, Ordering::Release);
        if before & QUEUED != 0 {
            parking_lot::with_queue(self.progress, |queue| queue.dequeue_all()).wake();
        }
    }
}

#[cold]
#[track_caller]
fn panic_poisoned() -> ! {
    panic!("Once instance has previously been poisoned");
}

//! The protocol of what is to be done once.
//!
//! ```text
//!   INCOMPLETE -> RUNNING -> COMPLETE
//!                 |     ^
//!                 v     | forced
//!                POISONED          each with QUEUED, but for COMPLETE
//! ```
//!
//! INCOMPLETE is zero. QUEUED is set under the lock of the queue, and only while there is something to wait for. Whoever ends RUNNING
//! takes all out of the queue: there is nothing left to wait for, or one of them has to try again.

use crate::atomic::{AtomicU32, Ordering};
use crate::sched::wait;
use crate::sync::parking_lot::{self, Dequeued, WaitEnd, Waiter};

const POISONED: u32 = 1;
const RUNNING: u32 = 2;
const COMPLETE: u32 = 3;
const QUEUED: u32 = 4;

pub(crate) struct Progress {
    state: AtomicU32,
}

impl Progress {
    /// From the word, which begins as zero.
    pub(crate) const fn new(state: AtomicU32) -> Progress {
        Progress { state }
    }

    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        // Acquire pairs with the Release in `Run::drop`.
        self.state.load(Ordering::Acquire) == COMPLETE
    }

    /// Calls `f`, with whether it was poisoned, if nobody has before; otherwise waits until that has ended.
    /// Panics, unless forced, where it was poisoned.
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
                    // Acquire pairs with the Release of a run that has panicked.
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

    /// Waits for the end; panics, unless forced, where it was poisoned.
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
            let ended = waiter.wait_for(None, |_| Dequeued::default());
            if ended == WaitEnd::Cancelled {
                wait::unwind_if_cancelled();
                // In a destructor: the caller relies on what it waits for all the same.
                if let Some(waiter) = self.join(awaited) {
                    waiter.wait();
                }
            }
        }
    }

    /// Enqueues the caller, if the state is still one to wait in.
    fn join(&self, is_awaited: impl Fn(u32) -> bool) -> Option<Waiter> {
        parking_lot::with_queue(self, |queue| {
            let mut state = self.state.load(Ordering::Relaxed);
            while is_awaited(state & !QUEUED) {
                // Relaxed: whoever serves the queue takes its lock.
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

/// A call that runs.
struct Run<'a> {
    progress: &'a Progress,
    becomes: u32,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        // Release pairs with the Acquire of all who look.
        let before = self.progress.state.swap(self.becomes, Ordering::Release);
        if before & QUEUED != 0 {
            parking_lot::with_queue(self.progress, |queue| queue.dequeue(usize::MAX)).wake();
        }
    }
}

#[cold]
#[track_caller]
fn panic_poisoned() -> ! {
    panic!("Once instance has previously been poisoned");
}

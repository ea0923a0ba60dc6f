//! Whether the calling fiber panics. `std` counts panics per thread: what it says of a worker's thread is
//! as true of each fiber that is suspended there while it unwinds.
//!
//! Beside such a fiber it is known of one that its cancellation unwinds. Of one that panics by `panic!` it is
//! known when that began, because a hook has noted it, but not whether it is over. Only what is passed on by
//! `resume_unwind` goes unnoticed there.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::Worker;
use crate::sched::current;

/// How many panics have begun in this process. Relaxed: a fiber asks about its own.
static BEGUN: AtomicU32 = AtomicU32::new(0);

impl Worker {
    /// Whether the thread's panic is the running fiber's: it is known to be, or nobody else's is known.
    fn is_panic_of_running_fiber(&self) -> bool {
        self.unwinding.get() == 0 || self.running_fiber().control().unwinding.get()
    }
}

/// Whether the calling fiber, or the calling thread outside the runtime, unwinds because of a panic.
#[inline]
pub(crate) fn is_panicking() -> bool {
    #[cold]
    fn is_own() -> bool {
        current::with_fiber(Worker::is_panic_of_running_fiber).unwrap_or(true)
    }
    thread::panicking() && is_own()
}

/// A time, to ask about the caller's panics since.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Since {
    begun: u32,
    /// Whether the caller panicked already: what it does then is no sign of another panic.
    panicking: bool,
}

impl Since {
    #[inline]
    pub(crate) fn now() -> Since {
        Since {
            begun: BEGUN.load(Ordering::Relaxed),
            panicking: is_panicking(),
        }
    }

    /// A time since which no panic counts.
    pub(crate) fn never() -> Since {
        Since {
            begun: 0,
            panicking: true,
        }
    }

    /// Whether the caller has begun to panic since, and still does.
    #[inline]
    pub(crate) fn has_panicked(self) -> bool {
        #[cold]
        fn is_begun_after(begun: u32) -> bool {
            // The counts may have wrapped around.
            last_of_caller().wrapping_sub(begun).cast_signed() > 0
        }
        thread::panicking() && !self.panicking && (is_panicking() || is_begun_after(self.begun))
    }
}

fn last_of_caller() -> u32 {
    let last = current::with_fiber(|worker| worker.running_fiber().control().last_panic.get());
    last.unwrap_or(0)
}

/// Notes that the caller begins to panic: called by the hook of panics.
pub(crate) fn note() {
    let number = BEGUN.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    current::with_fiber(|worker| worker.running_fiber().control().last_panic.set(number));
}

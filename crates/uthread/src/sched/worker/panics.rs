//! Whether the calling fiber panics. `std` counts panics per thread: what it says of a worker's thread is
//! as true of each fiber that is suspended there while it unwinds.

use std::thread;

use super::Worker;
use crate::sched::current;

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

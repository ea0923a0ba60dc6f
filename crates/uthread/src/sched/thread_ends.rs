//! Waits for the end of a fiber's thread: joining such a fiber waits, as `std`'s join does, until the destructors of the
//! thread's thread-locals have run, which is after the fiber's outcome is there.

use std::num::NonZeroU64;
use std::thread;

use super::{offload, thread_handles};

/// Waits until the thread of a fiber that has ended is gone, if the fiber was a thread.
#[inline(always)]
pub(crate) fn await_end(fiber: impl FnOnce() -> NonZeroU64) {
    if thread_handles::are_any() {
        await_thread(fiber());
    }
}

#[cold]
fn await_thread(fiber: NonZeroU64) {
    let Some(thread) = thread_handles::take(fiber) else {
        return;
    };
    // A destructor may hold the handle of its own thread.
    if thread.thread().id() != thread::current().id() {
        // The fiber's panic is in its outcome.
        let _ = offload::run(|| thread.join());
    }
}

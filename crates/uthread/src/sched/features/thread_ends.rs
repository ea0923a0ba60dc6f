//! Waiting for the end of a fiber's thread. As in `std`, joining such a fiber waits until the
//! destructors of the thread's thread-locals have run, which happens after its outcome is complete.

use std::thread;

use super::offload;
use crate::fiber::Control;
use crate::sched::threads::handles;

/// Waits until the thread of a fiber that has ended is gone, if the fiber was a thread.
pub(crate) fn await_end<'a>(fiber: impl FnOnce() -> &'a Control) {
    if !handles::is_empty() {
        await_thread(fiber());
    }
}

#[cold]
fn await_thread(fiber: &Control) {
    let Some(thread) = handles::take_of(fiber) else {
        return;
    };
    // A destructor may hold the handle of its own thread.
    if thread.thread().id() != thread::current().id() {
        // The panic of the fiber is in its outcome.
        let _ = offload::run(|| thread.join());
    }
}

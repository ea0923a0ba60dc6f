//! Calls that block a thread: those that fibers have no replacement for.

use std::io;

use crate::errno::outcome;
use crate::record;

/// A call that another thread may make.
struct Call<F>(F);

#[allow(unsafe_code, reason = "a call on memory of the program")]
// SAFETY: its caller waits for it, and the memory of the program is that of all threads.
unsafe impl<F> Send for Call<F> {}

impl<F: FnOnce() -> T, T> Call<F> {
    fn make(self) -> T {
        (self.0)()
    }
}

/// Makes a call that may block, while the worker goes on with its other fibers on another thread. A
/// cancellation point before the call, but not during it.
///
/// # Errors
///
/// The error that a negative result stands for.
pub(crate) fn blocking<T: Send + PartialOrd + Default>(call: impl FnOnce() -> T) -> io::Result<T> {
    record::test_cancel();
    let call = Call(call);
    // Nothing unwinds the fiber without its clean-up handlers.
    uthread::shield(|| uthread::blocking(move || outcome(call.make())))
}

//! Calls that block a thread: those that fibers have no replacement for.

use std::io;
use std::sync::OnceLock;

use crate::errno::outcome;
use crate::{record, signals};

/// What is told of each such call.
static OBSERVER: OnceLock<fn(&'static str)> = OnceLock::new();

/// Makes the process call `observer` with the name of the function before each call that blocks the
/// thread of a fiber. The first observer stays.
pub fn observe(observer: fn(&'static str)) {
    // There was one before.
    let _ = OBSERVER.set(observer);
}

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
pub(crate) fn blocking<T: Send + PartialOrd + Default>(
    name: &'static str,
    call: impl FnOnce() -> T,
) -> io::Result<T> {
    if signals::is_handler() {
        return outcome(call());
    }
    record::test_cancel();
    if let Some(observer) = OBSERVER.get() {
        observer(name);
    }
    let call = Call(call);
    // Nothing unwinds the fiber without its clean-up handlers.
    uthread::shield(|| uthread::blocking(move || outcome(call.make())))
}

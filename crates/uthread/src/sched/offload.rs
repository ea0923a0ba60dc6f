//! Calls that only block, on the threads of the pool: what the driver cannot do must still not stop a worker.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use super::wait;
use crate::fiber::Outcome;
use crate::pool::{self, Job};

/// As [`run`], but refused once the caller may not wait.
pub(crate) fn perform<T: Send>(call: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    wait::refuse_if_cancelled()?;
    run(call)
}

/// Runs `call` where it may block: for a fiber on a worker on a thread of the pool, for any thread of its
/// own right here. A panic of `call` is resumed in the caller.
pub(crate) fn run<F, T>(call: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    if !wait::is_on_worker() {
        return call();
    }
    let outcome = Arc::new(Outcome::new());
    let result = Arc::clone(&outcome);
    let registered = outcome.await_done(wait::waiter());
    debug_assert!(registered, "nothing completes it yet");
    pool::run(erase_lifetime(Box::new(move || {
        result.complete(panic::catch_unwind(AssertUnwindSafe(call)));
    })));
    if outcome.is_done() {
        // A loop of calls that are over so soon must not keep the worker.
        wait::pass_turn();
    }
    // Soundness rests on this wait: what `call` borrows is not touched after it.
    wait::park_until(|| outcome.is_done());
    outcome
        .take()
        .unwrap_or_else(|payload| panic::resume_unwind(payload))
}

/// For [`run`] alone, which returns only after the job has called and dropped the closure that
/// borrows; what is left of it then is an emptied outcome.
#[allow(
    unsafe_code,
    reason = "the pool's queue holds jobs without their lifetime"
)]
fn erase_lifetime(job: Box<dyn FnOnce() + Send + '_>) -> Job {
    // SAFETY: only the lifetime changes; `run` waits as promised above.
    unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Job>(job) }
}

//! Carrying out an operation: a fiber suspends until its completion, a thread blocks.

use std::io;
use std::time::{Duration, Instant};

use super::{
    cancellation, in_fiber, is_cancelled, refusal, refuse_if_cancelled, vanish_if_abandoned,
};
use crate::driver::native::{self, Deadline, Interrupted};
use crate::op::{self, Operation};
use crate::sched::threads;
use crate::sched::worker::{Worker, calls, current};

/// Carries an operation out; returns only after its terminal completion.
///
/// # Errors
///
/// The kernel's; `EAGAIN` after the timeout, `ECANCELED` once the fiber is cancelled.
pub(crate) fn perform(operation: &mut Operation<'_>, timeout: Option<Duration>) -> io::Result<u32> {
    calls::perform(operation, timeout).unwrap_or_else(|| block_in(operation, timeout))
}

/// The same of a thread.
fn block_in(operation: &mut Operation<'_>, timeout: Option<Duration>) -> io::Result<u32> {
    if let Some(context) = threads::current() {
        context.begin_call();
    }
    refuse_if_cancelled()?;
    let own = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let deadline = Deadline::new(cancellation::earliest(own));
    match native::perform(operation, deadline, interrupted) {
        Err(error) if error.raw_os_error() == Some(op::TIMED_OUT) => {
            Err(refusal().unwrap_or(error))
        }
        Err(error) if error.raw_os_error() == Some(op::CANCELLED) => {
            vanish_if_abandoned(cancellation::IN_A_CALL);
            Err(error)
        }
        result => result,
    }
}

/// What a thread does whose call a signal has interrupted. To a fiber signals mean nothing, as on a worker.
fn interrupted() -> Interrupted {
    match in_fiber() {
        true if is_cancelled() => Interrupted::Cancelled,
        true => Interrupted::Again,
        false => Interrupted::Reported,
    }
}

/// Has the caller's worker pass on now what its driver has, if it has a worker.
pub(crate) fn flush() {
    current::with_worker(Worker::try_flush);
}

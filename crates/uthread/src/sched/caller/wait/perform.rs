//! Performing an operation: a fiber is suspended until its completion, a thread blocks.

use std::io;
use std::time::{Duration, Instant};

use crate::driver::native::{self, Deadline, Interrupted};
use crate::driver::virtual_time::simulate;
use crate::fiber::Pause;
use crate::fiber::control::OperationResult;
use crate::op::{self, Operation};
use crate::sched::budget;
use crate::sched::caller::cancellation::{
    self, End, is_cancelled, refusal, refuse_if_cancelled, vanish_if_abandoned,
};
use crate::sched::caller::turn::begin_call;
use crate::sched::caller::{self, in_fiber};
use crate::sched::threads;
use crate::sched::worker::calls::{self, Call, CallLimits};
use crate::sched::worker::{Worker, current};

/// Carries out an operation, and returns after its terminal completion.
///
/// # Errors
///
/// `EAGAIN` after `timeout`; `ECANCELED` or `ETIMEDOUT` if the caller may not wait; any other error
/// with which the operation completes.
pub(crate) fn perform(operation: &mut Operation<'_>, timeout: Option<Duration>) -> io::Result<u32> {
    // From the start to the suspension, the fiber keeps its worker, which resumes it on completion.
    current::in_call(|| perform_in_call(operation, timeout))
}

#[inline]
#[allow(
    unsafe_code,
    reason = "the kernel gets pointers to memory that the operation borrows"
)]
fn perform_in_call(operation: &mut Operation<'_>, timeout: Option<Duration>) -> io::Result<u32> {
    let mut limits = CallLimits::Unchecked;
    loop {
        // SAFETY: if the call is pending, the fiber is suspended below until this very completion
        // was reaped. Until then nothing can touch or free the operation and the memory it borrows.
        let start = |worker: &Worker, fiber| unsafe {
            let queues = &worker.queues;
            worker
                .io
                .start_call(queues, fiber, operation, timeout, limits)
        };
        match current::with_running(start) {
            Some(Call::Done(fiber, result)) => {
                if budget::is_used_up_by_transfer(result.unwrap_or(0)) {
                    calls::suspend(fiber, Pause::Spent);
                }
                return result.map_err(io::Error::from);
            }
            Some(Call::Pending(fiber)) => {
                calls::suspend(fiber, Pause::Submitted);
                let OperationResult(result) = fiber.control().operation_result();
                return u32::try_from(result).map_err(|_| error_of(OperationResult(result)));
            }
            Some(Call::Limited) => {
                refuse_if_cancelled()?;
                let deadline = cancellation::timer_of_deadline();
                limits = CallLimits::Checked { deadline };
            }
            None => return perform_on_thread(operation, timeout),
        }
    }
}

/// Returns the error of an operation that had to wait and has failed.
#[cold]
fn error_of(completion: OperationResult) -> io::Error {
    let timed_out = completion == OperationResult::TIMED_OUT;
    let cut_off = timed_out || op::CANCELLED_RESULTS.contains(&completion.0);
    if cut_off {
        cancellation::vanish_if_abandoned(cancellation::IN_A_CALL);
    }
    let errno = match cut_off.then(cancellation::end).flatten() {
        // One error for all, and none on which loops retry.
        Some(End::Cancelled) => op::CANCELLED,
        Some(End::Elapsed) => op::DEADLINE_PASSED,
        None if timed_out => op::TIMED_OUT,
        None => -completion.0,
    };
    io::Error::from_raw_os_error(errno)
}

/// Attempts an operation once, on a descriptor that the program has made non-blocking.
///
/// # Errors
///
/// `EAGAIN` if the operation would wait; `ECANCELED` or `ETIMEDOUT` if the caller may not wait; any
/// other error that the system call reports.
pub(crate) fn perform_nonblocking(operation: &mut Operation<'_>) -> io::Result<u32> {
    begin_call()?;
    if let Some(world) = caller::world()
        && let Some(result) = simulate(&*world, operation)
    {
        return Ok(result?);
    }
    let interrupted = || Interrupted::Reported;
    Ok(native::perform(
        operation,
        Deadline::Immediate,
        interrupted,
    )?)
}

/// Carries out an operation on a thread, which blocks.
fn perform_on_thread(operation: &mut Operation<'_>, timeout: Option<Duration>) -> io::Result<u32> {
    if let Some(context) = threads::current() {
        context.begin_call();
    }
    refuse_if_cancelled()?;
    let own = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let deadline = Deadline::new(cancellation::earliest(own));
    native::perform(operation, deadline, interrupted).map_err(|errno| {
        match errno.raw_os_error() {
            op::TIMED_OUT => return refusal().unwrap_or_else(|| errno.into()),
            op::CANCELLED => vanish_if_abandoned(cancellation::IN_A_CALL),
            _ => {}
        }
        errno.into()
    })
}

/// Decides how a thread continues after a signal has interrupted its call. A fiber ignores signals,
/// as on a worker.
fn interrupted() -> Interrupted {
    if !in_fiber() {
        Interrupted::Reported
    } else if is_cancelled() {
        Interrupted::Cancelled
    } else {
        Interrupted::Again
    }
}

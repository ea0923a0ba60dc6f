//! Operations on files, through the driver or, if its kernel has no thread for them, without it.
//!
//! A request of a ring on a descriptor with readiness, such as a pipe or a terminal, waits for the
//! readiness even if the system call would end at once. Calls that end at once are therefore made
//! directly, for the result of the system call on every driver.

use std::io;

use super::offload;
use crate::driver::{epoll, native};
use crate::op::{self, Operation};
use crate::sched::caller::wait;

/// Carries out an operation on a file, and returns after its completion.
///
/// # Errors
///
/// `ECANCELED` or `ETIMEDOUT` if the caller may not wait; any other error that the system call
/// reports.
pub(crate) fn perform(operation: &mut Operation<'_>) -> io::Result<u32> {
    match wait::perform(operation, None) {
        Err(error) if error.raw_os_error() == Some(op::CANCELLED) => {
            perform_without_ring(operation)
        }
        result => result,
    }
}

/// Carries out a read or a write of a descriptor that may have readiness, and returns after its
/// completion. A plain file needs no such check.
///
/// # Errors
///
/// `EAGAIN` if the descriptor is non-blocking and not ready; the errors of [`perform`].
pub(crate) fn transfer(mut operation: Operation<'_>) -> io::Result<usize> {
    let Operation::File(file_operation) = &mut operation else {
        unreachable!("only for files");
    };
    let count = if native::file::ends_at_once(file_operation) {
        wait::perform_nonblocking(&mut operation)
    } else if native::file::has_empty_buffer(file_operation) {
        // No driver makes this very call: requests and calls with flags ignore an empty buffer, or
        // wait for readiness that the call does not need.
        offload::perform(|| Ok(epoll::block(file_operation, 0)?))
    } else {
        perform(&mut operation)
    };
    Ok(count? as usize)
}

/// Repeats an operation whose request was cancelled, unless the caller was. The kernel cancels a
/// request for which it can start no thread, as the user has too many. The request has transferred
/// nothing then.
#[cold]
fn perform_without_ring(operation: &mut Operation<'_>) -> io::Result<u32> {
    let Operation::File(operation) = operation else {
        unreachable!("only for files");
    };
    offload::perform(|| Ok(epoll::block(operation, 0)?))
}

//! Operations on files, through the driver or, if its kernel has no thread for them, without it.

use std::io;

use super::offload;
use crate::driver::epoll;
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

//! The request that does nothing.

use std::io;

use io_uring::opcode;

use super::submit::perform;
use crate::op::raw::RawRequest;
use crate::sched::caller::turn;
use crate::sched::features::ring;

/// Submits a request that does nothing, and returns when it has completed. Without a ring, other
/// fibers run once.
///
/// It takes one round of the worker and measures the minimum cost of a request.
///
/// # Errors
///
/// `ECANCELED` if the fiber is cancelled.
///
/// ```
/// uthread::run(|| uthread::ring::nop())?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn nop() -> io::Result<()> {
    if ring::require().is_err() {
        return turn::yield_within_call();
    }
    let request = RawRequest::new(opcode::Nop::new().build());
    perform(&mut [request])?.map_or(Ok(()), Err)
}

//! The request that does nothing.

use std::io;

use io_uring::opcode;

use super::submit::perform;
use crate::op::raw::RawRequest;
use crate::sched::{ring, wait};

/// Does nothing, by way of the kernel: the fiber is suspended, and goes on when the ring has said that it is done. That
/// takes as long as a round of its worker, and so tells what any request costs at the least. Where there is no
/// ring others are let run all the same.
///
/// # Errors
///
/// `ECANCELED` of a cancelled fiber.
///
/// ```
/// uthread::run(|| uthread::ring::nop())?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn nop() -> io::Result<()> {
    if ring::require().is_err() {
        return wait::yield_within_call();
    }
    let request = RawRequest::new(opcode::Nop::new().build());
    perform(&mut [request])?.map_or(Ok(()), Err)
}

//! A request as the program has encoded it: an entry of a submission queue.

use uthread::ring::{self, io_uring::squeue::Entry};

use crate::completion::errno;
use crate::entry::io_uring_sqe;
use crate::fallback;

/// A request whose memory belongs to the manager until its completion.
pub(crate) struct Request(io_uring_sqe);

impl Request {
    /// Takes a request over.
    ///
    /// # Safety
    ///
    /// The contract of [`ring::submit`], until the completion is called.
    #[allow(unsafe_code, reason = "a contract that the compiler cannot check")]
    pub(crate) unsafe fn new(entry: io_uring_sqe) -> Request {
        Request(entry)
    }
}

/// Performs a request in the calling fiber. Returns its result, and the flags of the completion.
#[allow(unsafe_code, reason = "the kernel gets pointers")]
pub(crate) fn perform(Request(entry): Request) -> (i32, u32) {
    if !ring::supported(ring::io_uring::opcode::Nop::CODE) {
        // SAFETY: the contract of `Request::new`.
        return (unsafe { fallback::perform(&entry) }, 0);
    }
    // SAFETY: both are the kernel's `struct io_uring_sqe`, of which each bit pattern is valid.
    let entry = unsafe { std::mem::transmute::<io_uring_sqe, Entry>(entry) };
    // SAFETY: the contract of `Request::new`.
    match unsafe { ring::submit(entry) } {
        Ok(completion) => (completion.result.cast_signed(), completion.flags),
        Err(error) => (errno(&error), 0),
    }
}

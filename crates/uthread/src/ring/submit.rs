//! Raw requests, built by the caller.

use std::io;

use io_uring::squeue::Entry;

use super::refusal::require_ring;
use crate::op::Operation;
use crate::op::raw::{ENTRIES_MAX, RawOperation, RawRequest};
use crate::sched::caller::wait;

/// The result of a request. See the example of [`submit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completion {
    /// The result: a count, a descriptor or zero, depending on the operation.
    pub result: u32,
    /// The kernel's `IORING_CQE_F_*` flags, for [`io_uring::cqueue::buffer_select`] and similar
    /// functions.
    pub flags: u32,
    /// The result of the notification that the kernel no longer needs the memory, for zero-copy
    /// sends. The call has waited for it.
    pub notification: Option<u32>,
}

/// Submits a request and returns when it has completed. The fiber is suspended meanwhile.
///
/// A zero-copy send returns after its notification. The field `user_data` is overwritten. A request
/// that completes with an errno returns it as an error, also if that is its normal end: an expired
/// [`Timeout`](io_uring::opcode::Timeout) is the error `ETIME`.
///
/// # Errors
///
/// - [`Unsupported`](io::ErrorKind::Unsupported) if the caller is not a fiber on
///   [`Driver::Uring`](crate::Driver::Uring).
/// - [`InvalidInput`](io::ErrorKind::InvalidInput) for a multishot request, and for the flags
///   `SKIP_SUCCESS`, `IO_DRAIN`, `IO_LINK` and `IO_HARDLINK`.
/// - `EINVAL` if the kernel does not support the operation.
/// - `ECANCELED` if the fiber is cancelled. The request is cancelled then, and the call returns
///   when it has ended.
/// - Any other error with which the request completes.
///
/// Requests of 128 bytes ([`Entry128`](io_uring::squeue::Entry128)) are not supported: rings with
/// such entries take twice the memory for all requests.
///
/// # Safety
///
/// - All memory that the entry refers to, directly or indirectly, is valid for the kernel's
///   accesses, and is not accessed otherwise, until the call returns. The call returns after the
///   kernel's last access, however the request ends. Memory that the operation lends to the kernel
///   for longer, as [`ProvideBuffers`](io_uring::opcode::ProvideBuffers) does, remains so until it
///   is taken back.
/// - The entry names no buffers, buffer groups or files of the ring that the caller does not own.
/// - The entry sends no message to a ring of this runtime, and cancels or updates only requests of
///   the caller.
///
/// ```
/// use std::os::fd::AsRawFd;
/// use uthread::ring::{self, io_uring::{opcode, types}};
///
/// uthread::run(|| {
///     let file = uthread::fs::File::open("Cargo.toml")?;
///     let mut text = [0; 9];
///     let fd = types::Fd(file.as_raw_fd());
///     let read = opcode::Read::new(fd, text.as_mut_ptr(), 9).build();
///     // SAFETY: the array and the file live until the call has returned.
///     match unsafe { ring::submit(read) } {
///         Ok(completion) => assert_eq!((completion.result, &text), (9, b"[package]")),
///         Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::Unsupported),
///     }
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// The caller is responsible for the memory that an entry refers to, so the call is unsafe:
///
/// ```compile_fail,E0133
/// use uthread::ring::{self, io_uring::opcode};
///
/// let _ = ring::submit(opcode::Nop::new().build());
/// ```
#[allow(unsafe_code, reason = "a contract that the compiler cannot check")]
pub unsafe fn submit(entry: Entry) -> io::Result<Completion> {
    let mut requests = [RawRequest::new(entry)];
    perform(&mut requests)?.map_or(Ok(()), Err)?;
    let [request] = requests;
    completion_of(&request)
}

/// Submits several requests together and in this order. Returns when all of them have completed,
/// with their results in the same order.
///
/// A request with the flag `IO_LINK` or `IO_HARDLINK` completes before the next one starts: one
/// call can open a file as a direct descriptor, read it and close it. Requests without these flags
/// run concurrently.
///
/// # Errors
///
/// The outer error means that nothing was submitted: [`Unsupported`](io::ErrorKind::Unsupported)
/// and [`InvalidInput`](io::ErrorKind::InvalidInput) as for [`submit`], except that links are
/// permitted on all entries but the last one; [`InvalidInput`](io::ErrorKind::InvalidInput) also
/// for more than 32 entries; `ECANCELED` if the fiber is cancelled. The error of a submitted
/// request is in its own result.
///
/// # Safety
///
/// The contract of [`submit`] holds for each entry until the call returns.
///
/// ```
/// use uthread::ring::{self, io_uring::{opcode, squeue::Flags, types::Timespec}};
///
/// uthread::run(|| {
///     let second = Timespec::new().sec(1);
///     let limit = opcode::LinkTimeout::new(&second).build();
///     let chain = [opcode::Nop::new().build().flags(Flags::IO_LINK), limit];
///     // SAFETY: the time lives until the call has returned.
///     match unsafe { ring::submit_all(chain) } {
///         Ok(results) => assert_eq!((results[0].is_ok(), results[1].is_err()), (true, true)),
///         Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::Unsupported),
///     }
/// });
/// ```
#[allow(unsafe_code, reason = "a contract that the compiler cannot check")]
pub unsafe fn submit_all(
    entries: impl IntoIterator<Item = Entry>,
) -> io::Result<Vec<io::Result<Completion>>> {
    // One more than permitted, which is enough to detect too many.
    let entries = entries.into_iter().take(ENTRIES_MAX + 1);
    let mut requests: Vec<_> = entries.map(RawRequest::new).collect();
    let cut_off = perform(&mut requests)?.and_then(|error| error.raw_os_error());
    let outcome = |request: &RawRequest| match cut_off {
        Some(errno) if request.was_cancelled() => Err(io::Error::from_raw_os_error(errno)),
        _ => completion_of(request),
    };
    Ok(requests.iter().map(outcome).collect())
}

/// Submits the requests together and waits for all of them. Returns the error that applies to all
/// requests, if there is one.
///
/// # Errors
///
/// An error if nothing was submitted.
pub(super) fn perform(requests: &mut [RawRequest]) -> io::Result<Option<io::Error>> {
    require_ring()?;
    check(requests)?;
    if requests.is_empty() {
        return Ok(None);
    }
    let mut is_complete = false;
    let mut operation = Operation::Raw(RawOperation {
        requests,
        is_complete: &mut is_complete,
    });
    let error = wait::perform(&mut operation, None).err();
    match error {
        Some(error) if !is_complete => Err(error),
        error => Ok(error),
    }
}

pub(super) fn check(requests: &[RawRequest]) -> io::Result<()> {
    let refused = |what: String| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    if requests.len() > ENTRIES_MAX {
        return refused(format!(
            "more than {ENTRIES_MAX} entries do not fit into every ring"
        ));
    }
    for (index, request) in requests.iter().enumerate() {
        if let Some(reason) = request.refusal(index + 1 == requests.len()) {
            return refused(format!("entry {index}: {reason}"));
        }
    }
    Ok(())
}

pub(super) fn completion_of(request: &RawRequest) -> io::Result<Completion> {
    match u32::try_from(request.result) {
        Ok(result) => Ok(Completion {
            result,
            flags: request.flags,
            notification: request.notification.map(i32::cast_unsigned),
        }),
        Err(_) => Err(io::Error::from_raw_os_error(-request.result)),
    }
}

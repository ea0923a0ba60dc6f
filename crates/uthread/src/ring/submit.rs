//! Requests that the caller builds.

use std::io;

use io_uring::squeue::Entry;

use super::refusal::require_ring;
use crate::op::Operation;
use crate::op::raw::{ENTRIES_MAX, RawOperation, RawRequest};
use crate::sched::wait;

/// What came of a request; see the example of [`submit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completion {
    /// The result: by the operation a count, a descriptor, or zero.
    pub result: u32,
    /// The kernel's `IORING_CQE_F_*`, for [`io_uring::cqueue::buffer_select`] and the like.
    pub flags: u32,
    /// The result of the notification that the kernel needs the memory no more, which the call has awaited: of
    /// zero-copy sends.
    pub notification: Option<u32>,
}

/// Carries out one request and returns when it has ended. The fiber is suspended meanwhile.
///
/// A zero-copy send returns after its notification. `user_data` is overwritten. What the kernel has no result
/// for but an errno is an error here too: a [`Timeout`](io_uring::opcode::Timeout) that has passed is `ETIME`.
///
/// # Errors
///
/// The kernel's; `EINVAL` of an operation that it does not know. `ECANCELED` at the end of the runtime: the
/// request is cancelled then, and the call returns when it has ended.
///
/// [`Unsupported`](io::ErrorKind::Unsupported) outside of a fiber on [`Driver::Uring`](crate::Driver::Uring).
/// [`InvalidInput`](io::ErrorKind::InvalidInput) for what must not be: multishot requests, and the flags
/// `SKIP_SUCCESS`, `IO_DRAIN`, `IO_LINK` and `IO_HARDLINK`.
///
/// Requests of 128 bytes ([`Entry128`](io_uring::squeue::Entry128)) need a ring of such entries, which no worker
/// has, as it takes twice the memory for all others.
///
/// # Safety
///
/// - All memory to which the entry points, directly or not, is valid for what the kernel does with it, and nobody
///   touches it, until the call returns. That is after the last access of the kernel, however the request ends.
///   What the operation hands to the kernel for longer, as
///   [`ProvideBuffers`](io_uring::opcode::ProvideBuffers) does, stays so until it was taken back.
/// - It names no buffers, groups of buffers or files of the ring that are not the caller's.
/// - It sends no message to a ring of this runtime, and cancels or changes no request but the caller's.
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
/// What an entry points to is the caller's promise, so the call is unsafe:
///
/// ```compile_fail,E0133
/// use uthread::ring::{self, io_uring::opcode};
///
/// let _ = ring::submit(opcode::Nop::new().build());
/// ```
#[allow(unsafe_code, reason = "a promise that the compiler cannot check")]
pub unsafe fn submit(entry: Entry) -> io::Result<Completion> {
    let mut requests = [RawRequest::new(entry)];
    perform(&mut requests)?.map_or(Ok(()), Err)?;
    let [request] = requests;
    completion_of(&request)
}

/// Carries out several requests, which reach the kernel together and in this order, and returns when all have
/// ended; what came of each, in the same order.
///
/// Those with the flag `IO_LINK` or `IO_HARDLINK` are id only before the next one: so a file is opened as a
/// direct descriptor, read and closed by one call. The others run at the same time.
///
/// # Errors
///
/// [`Unsupported`](io::ErrorKind::Unsupported) and [`InvalidInput`](io::ErrorKind::InvalidInput) as [`submit`],
/// for the links of the last entry alone, and for more than 32 entries; `ECANCELED` where the runtime has ended before.
/// Then nothing was done. What ends a request that was submitted is in its own result.
///
/// # Safety
///
/// As for [`submit`], of each entry, until the call returns.
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
#[allow(unsafe_code, reason = "a promise that the compiler cannot check")]
pub unsafe fn submit_all(
    entries: impl IntoIterator<Item = Entry>,
) -> io::Result<Vec<io::Result<Completion>>> {
    // One more than there may be is enough to refuse them.
    let entries = entries.into_iter().take(ENTRIES_MAX + 1);
    let mut requests: Vec<_> = entries.map(RawRequest::new).collect();
    let cut_off = perform(&mut requests)?.and_then(|error| error.raw_os_error());
    let outcome = |request: &RawRequest| match cut_off {
        Some(errno) if request.was_cancelled() => Err(io::Error::from_raw_os_error(errno)),
        _ => completion_of(request),
    };
    Ok(requests.iter().map(outcome).collect())
}

/// Submits them together and waits for all; the error that stands for all, if there is one.
///
/// # Errors
///
/// Where nothing was submitted.
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

fn check(requests: &[RawRequest]) -> io::Result<()> {
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

fn completion_of(request: &RawRequest) -> io::Result<Completion> {
    match u32::try_from(request.result) {
        Ok(result) => Ok(Completion {
            result,
            flags: request.flags,
            notification: request.notification.map(i32::cast_unsigned),
        }),
        Err(_) => Err(io::Error::from_raw_os_error(-request.result)),
    }
}

//! Operations: one request to the kernel each, as plain data.
//!
//! An operation borrows all that the kernel will touch. That is what makes borrowed buffers sound:
//! whoever carries an operation out returns only after its terminal completion, so the borrow
//! covers the kernel's last access.

pub(crate) mod buffers;
pub(crate) mod fs;
pub(crate) mod message;
pub(crate) mod multishot;
pub(crate) mod net;
pub(crate) mod raw;

use std::os::fd::{FromRawFd, OwnedFd};

use crate::resource::descriptor::Descriptor;

/// The errno of an operation that was cancelled.
pub(crate) const CANCELLED: i32 = rustix::io::Errno::CANCELED.raw_os_error();

/// The kernel's own "try again after the signal", `ERESTARTSYS`, which the ring does not translate
/// where an open waited in a kernel worker, as for the other end of a FIFO.
const RESTART: i32 = 512;

/// Results of an operation that was cancelled: before it began, or within a kernel worker.
pub(crate) const CANCELLED_RESULTS: [i32; 3] = [
    -CANCELLED,
    -rustix::io::Errno::INTR.raw_os_error(),
    -RESTART,
];

/// The errno of an operation that was cut off by its timeout: as a socket of `std` on Unix.
pub(crate) const TIMED_OUT: i32 = rustix::io::Errno::AGAIN.raw_os_error();

/// The errno of an operation that was cut off because the deadline of its fiber has passed.
pub(crate) const DEADLINE_PASSED: i32 = rustix::io::Errno::TIMEDOUT.raw_os_error();

/// No result of the kernel's: what the operation waited for may be there, so it is to be attempted anew.
pub(crate) const READY: i32 = i32::MIN;

/// The errno of an argument that makes no sense.
pub(crate) const INVALID: i32 = rustix::io::Errno::INVAL.raw_os_error();

/// The errno of an offset in a pipe.
pub(crate) const NOT_SEEKABLE: i32 = rustix::io::Errno::SPIPE.raw_os_error();

/// The most bytes one request moves: `MAX_RW_COUNT` of the kernel, which cuts longer ones itself.
const TRANSFER_BYTES_MAX: usize = 0x7fff_f000;

/// How many bytes of a buffer one request moves at most.
pub(crate) fn transfer_length(buffer: &[u8]) -> u32 {
    buffer.len().min(TRANSFER_BYTES_MAX) as u32
}

/// One request to the kernel. The result is a count, or a descriptor where it makes one.
pub(crate) enum Operation<'a> {
    Socket(net::SocketOperation<'a>),
    File(fs::FileOperation<'a>),
    /// What completes many times. Only a ring carries it out.
    Multishot(multishot::MultishotOperation<'a>),
    /// What only a ring carries out. The result is the first request's, or zero where there are several.
    Raw(raw::RawOperation<'a>),
}

impl<'a> Operation<'a> {
    /// The descriptor that it is on, if it is on one.
    pub(crate) fn target(&self) -> Option<Descriptor<'a>> {
        match self {
            Operation::Socket(operation) => Some(operation.target()),
            Operation::File(operation) => operation.target(),
            Operation::Multishot(operation) => Some(operation.target()),
            Operation::Raw(_) => None,
        }
    }

    /// How many entries of a ring it takes.
    pub(crate) fn entries(&self) -> usize {
        match self {
            Operation::Raw(operation) => operation.requests.len(),
            _ => 1,
        }
    }

    /// Whether the fiber goes on before the others once this is done: who accepts a connection hands it to
    /// another fiber, and holds up a queue of them in the kernel.
    pub(crate) fn is_urgent(&self) -> bool {
        matches!(
            self,
            Operation::Socket(net::SocketOperation::Accept { .. })
                | Operation::Multishot(multishot::MultishotOperation::Accept { .. })
        )
    }

    /// Takes ownership of the descriptor that this operation returned.
    #[allow(
        unsafe_code,
        reason = "a result becomes an owned descriptor in one place"
    )]
    pub(crate) fn descriptor(&self, result: u32) -> OwnedFd {
        let makes_one = matches!(
            self,
            Operation::Socket(net::SocketOperation::Accept { .. })
                | Operation::File(fs::FileOperation::Open { .. })
        );
        assert!(makes_one, "only accept and open return a descriptor");
        // SAFETY: the kernel made this descriptor for this operation; its result is taken once.
        unsafe { OwnedFd::from_raw_fd(result.cast_signed()) }
    }
}

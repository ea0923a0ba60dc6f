//! Operations: requests to the kernel, as plain data.
//!
//! An operation borrows all memory that the kernel will access. This makes borrowed buffers sound:
//! a call that performs an operation returns only after its terminal completion, so the borrow
//! covers the kernel's last access.

pub(crate) mod buffers;
pub(crate) mod fs;
pub(crate) mod message;
pub(crate) mod multishot;
pub(crate) mod net;
pub(crate) mod peer_address;
pub(crate) mod raw;

use std::os::fd::{AsRawFd as _, FromRawFd, OwnedFd, RawFd};

use crate::resource::descriptor::Descriptor;

/// The result of an operation's system call: a count, or the number of a descriptor if it creates
/// one.
pub(crate) type CallResult = rustix::io::Result<u32>;

/// The errno of a cancelled operation.
pub(crate) const CANCELLED: i32 = rustix::io::Errno::CANCELED.raw_os_error();

/// The kernel's internal errno `ERESTARTSYS`. io_uring does not translate it when a signal
/// interrupts an open in a kernel worker, such as one that waits for the other end of a FIFO.
const RESTART: i32 = 512;

/// The results of a cancelled operation: before it started, or in a kernel worker.
pub(crate) const CANCELLED_RESULTS: [i32; 3] = [
    -CANCELLED,
    -rustix::io::Errno::INTR.raw_os_error(),
    -RESTART,
];

/// The errno of an operation that has exceeded its timeout: that of a socket of `std` on Unix.
pub(crate) const TIMED_OUT: i32 = rustix::io::Errno::AGAIN.raw_os_error();

/// The errno of an operation that has exceeded the deadline of its fiber.
pub(crate) const DEADLINE_PASSED: i32 = rustix::io::Errno::TIMEDOUT.raw_os_error();

/// The errno of an invalid argument.
pub(crate) const INVALID: i32 = rustix::io::Errno::INVAL.raw_os_error();

/// Maximum number of bytes per request: the kernel's `MAX_RW_COUNT`. The kernel truncates longer
/// requests.
const TRANSFER_BYTES_MAX: usize = 0x7fff_f000;

/// What the caller of a pending operation has to know, as it must not access the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Awaited {
    /// The number of the descriptor that the operation is on. Negative if it is on none.
    pub(crate) fd: RawFd,
    /// `true` if the fiber is resumed before others once the operation has completed. An acceptor
    /// passes each connection on to another fiber, and delays the connections queued in the kernel.
    pub(crate) resumes_first: bool,
}

impl Awaited {
    /// That of an operation on a descriptor with this number, or on none if that is negative.
    #[inline]
    pub(crate) fn on(fd: RawFd) -> Awaited {
        Awaited {
            fd,
            resumes_first: false,
        }
    }

    /// That of an operation that accepts connections from a listener.
    fn accept(listener: Descriptor<'_>) -> Awaited {
        Awaited {
            fd: listener.fd.as_raw_fd(),
            resumes_first: true,
        }
    }
}

impl From<Descriptor<'_>> for Awaited {
    #[inline]
    fn from(descriptor: Descriptor<'_>) -> Awaited {
        Awaited::on(descriptor.fd.as_raw_fd())
    }
}

/// Returns the number of bytes of a buffer that one request transfers at most.
pub(crate) fn transfer_length(buffer: &[u8]) -> u32 {
    buffer.len().min(TRANSFER_BYTES_MAX) as u32
}

/// A request to the kernel. Its result is a count, or a descriptor if it creates one.
pub(crate) enum Operation<'a> {
    Socket(net::SocketOperation<'a>),
    File(fs::FileOperation<'a>),
    /// Completes many times. Requires a ring.
    Multishot(multishot::MultishotOperation<'a>),
    /// Requires a ring. The result is that of the only request, or zero if there are several.
    Raw(raw::RawOperation<'a>),
}

impl<'a> Operation<'a> {
    /// Returns what its caller has to know while it is pending.
    pub(crate) fn awaited(&self) -> Awaited {
        match self {
            Operation::Socket(operation) => operation.awaited(),
            Operation::File(operation) => operation.awaited(),
            Operation::Multishot(operation) => operation.awaited(),
            Operation::Raw(operation) => operation.awaited(),
        }
    }

    /// Takes ownership of the descriptor that this operation has returned.
    #[allow(
        unsafe_code,
        reason = "a result becomes an owned descriptor in one place"
    )]
    pub(crate) fn descriptor(&self, result: u32) -> OwnedFd {
        let makes_one = matches!(
            self,
            Operation::Socket(net::SocketOperation::Accept(_))
                | Operation::File(fs::FileOperation::Open { .. })
        );
        assert!(makes_one, "only accept and open return a descriptor");
        // SAFETY: the kernel has created this descriptor for this operation, and its result is
        // taken once.
        unsafe { OwnedFd::from_raw_fd(result.cast_signed()) }
    }
}

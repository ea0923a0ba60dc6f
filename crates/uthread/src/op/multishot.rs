//! Operations that complete many times, until they are cancelled or fail.
//!
//! They borrow nothing beyond their submission, when the kernel looks up the descriptor.

use std::os::fd::{FromRawFd, OwnedFd};

use rustix::event::PollFlags;

use super::Awaited;
use crate::resource::buffer_group::BufferGroup;
use crate::resource::descriptor::Descriptor;

/// A multishot operation. Only drivers that [have a ring](crate::driver::Driver::has_ring) support
/// it.
pub(crate) enum MultishotOperation<'a> {
    /// Each completion is the descriptor of a connection.
    Accept { listener: Descriptor<'a> },
    /// Each completion is a buffer of the group and the number of bytes in it; the last one is the
    /// end of the stream.
    Receive {
        socket: Descriptor<'a>,
        group: &'a BufferGroup,
    },
    /// Each completion is the set of `events` that have occurred.
    Poll {
        descriptor: Descriptor<'a>,
        events: PollFlags,
    },
}

impl MultishotOperation<'_> {
    pub(crate) fn awaited(&self) -> Awaited {
        match self {
            MultishotOperation::Accept { listener } => Awaited::accept(*listener),
            MultishotOperation::Receive { socket, .. } => (*socket).into(),
            MultishotOperation::Poll { descriptor, .. } => (*descriptor).into(),
        }
    }
}

/// A connection that the kernel has accepted.
pub(crate) struct Accepted(pub(crate) OwnedFd);

impl Accepted {
    /// Takes ownership of the descriptor in a result of [`MultishotOperation::Accept`]. Must be
    /// called once per result.
    #[allow(unsafe_code, reason = "a result becomes an owned descriptor")]
    pub(crate) fn new(result: u32) -> Accepted {
        // SAFETY: the kernel has created this descriptor for the operation, and its result is taken
        // once.
        Accepted(unsafe { OwnedFd::from_raw_fd(result.cast_signed()) })
    }
}

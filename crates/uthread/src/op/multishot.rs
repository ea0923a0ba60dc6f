//! Operations that complete any number of times, until they are cancelled or fail.
//!
//! They borrow nothing beyond their submission: the kernel looks the descriptor up then.

use std::os::fd::{FromRawFd, OwnedFd};

use rustix::event::PollFlags;

use crate::resource::buffer_group::BufferGroup;
use crate::resource::descriptor::Descriptor;

/// Only for drivers that [have a ring](crate::driver::Driver::has_ring).
pub(crate) enum MultishotOperation<'a> {
    /// Each completion is a descriptor of a connection.
    Accept { listener: Descriptor<'a> },
    /// Each completion is a buffer of the group, with so many bytes; the last is the end of the connection.
    Receive {
        socket: Descriptor<'a>,
        group: &'a BufferGroup,
    },
    /// Each completion says which of `events` are there.
    Poll {
        descriptor: Descriptor<'a>,
        events: PollFlags,
    },
}

impl<'a> MultishotOperation<'a> {
    /// The descriptor that it is on.
    pub(super) fn target(&self) -> Descriptor<'a> {
        match self {
            MultishotOperation::Accept { listener } => *listener,
            MultishotOperation::Receive { socket, .. } => *socket,
            MultishotOperation::Poll { descriptor, .. } => *descriptor,
        }
    }
}

/// A connection that the kernel has accepted.
pub(crate) struct Accepted(pub(crate) OwnedFd);

impl Accepted {
    /// Takes ownership of the descriptor in a result of [`MultishotOperation::Accept`], once.
    #[allow(unsafe_code, reason = "a result becomes an owned descriptor")]
    pub(crate) fn new(result: u32) -> Accepted {
        // SAFETY: the kernel made this descriptor for the operation; its result is taken once.
        Accepted(unsafe { OwnedFd::from_raw_fd(result.cast_signed()) })
    }
}

//! Operations on sockets.

use std::sync::atomic::AtomicBool;

use rustix::event::PollFlags;
use rustix::net::{SocketAddrAny, SocketFlags};

use super::message::Message;
use super::peer_address::PeerAddress;
use crate::resource::descriptor::Descriptor;

/// The flags with which the crate creates sockets.
pub(crate) const SOCKET_FLAGS: SocketFlags = SocketFlags::CLOEXEC;

/// Returns the flags for receiving a message. Descriptors received with it are closed on `exec`.
pub(crate) fn receive_message_flags(peek: bool) -> libc::c_int {
    libc::MSG_CMSG_CLOEXEC | if peek { libc::MSG_PEEK } else { 0 }
}

/// A request on a socket, or on any descriptor that can be polled.
pub(crate) enum SocketOperation<'a> {
    Accept {
        listener: Descriptor<'a>,
        peer: &'a mut PeerAddress,
        /// `true` if a driver has made the open file non-blocking, as the call has no flag for that.
        raised_nonblock: &'a AtomicBool,
    },
    Connect {
        socket: Descriptor<'a>,
        address: &'a SocketAddrAny,
    },
    Receive {
        socket: Descriptor<'a>,
        buffer: &'a mut [u8],
        /// `true` to leave the bytes in the socket's queue.
        peek: bool,
        /// `true` if a receive that returns fewer bytes than requested may mean that the queue is empty, as
        /// for TCP. A driver that relies on this first queries the type of the socket.
        drains: bool,
    },
    Send {
        socket: Descriptor<'a>,
        buffer: &'a [u8],
    },
    ReceiveMessage {
        socket: Descriptor<'a>,
        message: Message<'a>,
        /// `true` to leave the message in the socket's queue.
        peek: bool,
    },
    SendMessage {
        socket: Descriptor<'a>,
        message: Message<'a>,
    },
    /// Waits for one of `events`.
    Poll {
        descriptor: Descriptor<'a>,
        events: PollFlags,
    },
}

impl<'a> SocketOperation<'a> {
    /// Returns the descriptor that the request is on.
    pub(crate) fn target(&self) -> Descriptor<'a> {
        match self {
            SocketOperation::Accept { listener, .. } => *listener,
            SocketOperation::Connect { socket, .. }
            | SocketOperation::Receive { socket, .. }
            | SocketOperation::Send { socket, .. }
            | SocketOperation::ReceiveMessage { socket, .. }
            | SocketOperation::SendMessage { socket, .. } => *socket,
            SocketOperation::Poll { descriptor, .. } => *descriptor,
        }
    }
}

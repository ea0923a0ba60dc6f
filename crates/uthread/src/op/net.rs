//! Operations on sockets.

use std::sync::atomic::AtomicBool;

use rustix::event::PollFlags;
use rustix::net::{SocketAddrAny, SocketFlags};

use super::Awaited;
use super::message::Message;
use super::peer_address::PeerAddress;
use crate::resource::descriptor::Descriptor;

/// The flags with which the crate creates sockets.
pub(crate) const SOCKET_FLAGS: SocketFlags = SocketFlags::CLOEXEC;

/// Returns the flags for receiving a message. Descriptors received with it are closed on `exec`.
pub(crate) fn receive_message_flags(peek: bool) -> libc::c_int {
    libc::MSG_CMSG_CLOEXEC | if peek { libc::MSG_PEEK } else { 0 }
}

/// A request on a socket, or on any descriptor that can be polled. Each kind has a type of its own,
/// so that a driver matches the operation once.
pub(crate) enum SocketOperation<'a> {
    Accept(Accept<'a>),
    Connect(Connect<'a>),
    Receive(Receive<'a>),
    Send(Send<'a>),
    ReceiveMessage(ReceiveMessage<'a>),
    SendMessage(SendMessage<'a>),
    Poll(Poll<'a>),
}

impl SocketOperation<'_> {
    pub(crate) fn awaited(&self) -> Awaited {
        match self {
            SocketOperation::Accept(call) => Awaited::accept(call.listener),
            SocketOperation::Connect(call) => call.socket.into(),
            SocketOperation::Receive(call) => call.socket.into(),
            SocketOperation::Send(call) => call.socket.into(),
            SocketOperation::ReceiveMessage(call) => call.socket.into(),
            SocketOperation::SendMessage(call) => call.socket.into(),
            SocketOperation::Poll(call) => call.descriptor.into(),
        }
    }
}

/// Accepts a connection. The result is its descriptor.
pub(crate) struct Accept<'a> {
    pub(crate) listener: Descriptor<'a>,
    pub(crate) peer: &'a mut PeerAddress,
    /// `true` if a driver has made the open file non-blocking, as the call has no flag for that.
    pub(crate) raised_nonblock: &'a AtomicBool,
}

/// Connects a socket.
pub(crate) struct Connect<'a> {
    pub(crate) socket: Descriptor<'a>,
    pub(crate) address: &'a SocketAddrAny,
}

/// Receives bytes into one buffer.
pub(crate) struct Receive<'a> {
    pub(crate) socket: Descriptor<'a>,
    pub(crate) buffer: &'a mut [u8],
    /// `true` to leave the bytes in the socket's queue.
    pub(crate) peek: bool,
    /// `true` if a receive that returns fewer bytes than requested may mean that the queue is
    /// empty, as for TCP. A driver that relies on this first queries the type of the socket.
    pub(crate) drains: bool,
}

/// Sends bytes from one buffer.
pub(crate) struct Send<'a> {
    pub(crate) socket: Descriptor<'a>,
    pub(crate) buffer: &'a [u8],
}

/// Receives a message.
pub(crate) struct ReceiveMessage<'a> {
    pub(crate) socket: Descriptor<'a>,
    pub(crate) message: Message<'a>,
    /// `true` to leave the message in the socket's queue.
    pub(crate) peek: bool,
}

/// Sends a message.
pub(crate) struct SendMessage<'a> {
    pub(crate) socket: Descriptor<'a>,
    pub(crate) message: Message<'a>,
}

/// Waits for one of `events`.
#[derive(Clone, Copy)]
pub(crate) struct Poll<'a> {
    pub(crate) descriptor: Descriptor<'a>,
    pub(crate) events: PollFlags,
}

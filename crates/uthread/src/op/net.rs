//! Operations on sockets.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::slice;
use std::sync::atomic::AtomicBool;

use rustix::event::PollFlags;
use rustix::net::addr::SocketAddrStorage;
use rustix::net::{SocketAddrAny, SocketFlags};

use super::message::Message;
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

/// The buffer for the address of a peer.
pub(crate) struct PeerAddress {
    pub(crate) storage: libc::sockaddr_storage,
    pub(crate) length: libc::socklen_t,
}

impl PeerAddress {
    #[allow(unsafe_code, reason = "an empty address is all zeroes")]
    pub(crate) fn new() -> PeerAddress {
        PeerAddress {
            // SAFETY: `sockaddr_storage` is plain bytes and integers; zero is valid for each.
            storage: unsafe { mem::zeroed() },
            length: size_of::<libc::sockaddr_storage>() as libc::socklen_t,
        }
    }

    /// Returns the bytes that the kernel has written.
    #[allow(unsafe_code, reason = "the kernel's bytes are read as such")]
    pub(crate) fn bytes(&self) -> &[u8] {
        let length = (self.length as usize).min(size_of_val(&self.storage));
        // SAFETY: the storage is completely initialized, has no padding, and is longer than `length`.
        unsafe { slice::from_raw_parts((&raw const self.storage).cast(), length) }
    }

    /// Converts the address to an internet address.
    ///
    /// # Errors
    ///
    /// `EAFNOSUPPORT` if the address is of another family.
    #[allow(unsafe_code, reason = "the kernel's bytes are read as an address")]
    pub(crate) fn to_socket_addr(&self) -> io::Result<SocketAddr> {
        if (self.length as usize) < size_of::<libc::sa_family_t>() {
            return Err(rustix::io::Errno::AFNOSUPPORT.into());
        }
        let storage = (&raw const self.storage).cast::<SocketAddrStorage>();
        // SAFETY: the storage is completely initialized and longer than any length that the kernel reports.
        let address = unsafe { SocketAddrAny::read(storage, self.length) };
        Ok(SocketAddr::try_from(address)?)
    }
}

//! The common part of all sockets: the `std` socket, the settings of its clones, and the state that
//! drivers keep for it.
//!
//! A call on a socket that the user has made non-blocking is the plain system call, which fails if
//! the caller is cancelled; every other call goes through the driver.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{Shutdown, SocketAddrAny, SocketAddrUnix};

use super::settings::Settings;
use crate::op::Operation;
use crate::op::buffers::all_empty;
use crate::op::message::{Header, Message};
use crate::op::net::{self, SocketOperation};
use crate::op::peer_address::PeerAddress;
use crate::resource::descriptor::{Descriptor, FdState};
use crate::sched::caller::{self, cancellation, spawn, turn, wait};
use crate::world::tell_unix;

/// A socket around `S`, the `std` type, which supplies the calls that never wait.
pub(super) struct Socket<S> {
    pub(super) inner: S,
    pub(super) settings: Settings,
    pub(super) state: FdState,
}

/// Implemented by the `std` socket types.
pub(super) trait Inner: AsFd {
    /// `true` for a TCP connection. Only there, a receive that returns fewer bytes than requested
    /// means that the queue may be empty: a datagram says nothing about the next one, and a receive
    /// on a Unix stream also stops at descriptors.
    const IS_TCP_STREAM: bool;
}

impl<S: Inner> Socket<S> {
    /// Wraps a new socket, which has no timeouts and is blocking.
    pub(super) fn new(inner: S) -> Socket<S> {
        Socket::sharing(inner, Settings::default())
    }

    fn sharing(inner: S, settings: Settings) -> Socket<S> {
        Socket {
            inner,
            settings,
            state: FdState::new(),
        }
    }

    /// Wraps a socket from elsewhere and adopts its timeouts and blocking mode.
    pub(super) fn adopt(inner: S) -> Socket<S> {
        let socket = Socket::new(inner);
        let (fd, settings) = (socket.inner.as_fd(), &socket.settings);
        // A socket without such an option has no timeout; a timeout that was read is never zero.
        let timeout = |id| sockopt::socket_timeout(fd, id).unwrap_or(None);
        // What differs from the settings of a new socket, which allocate nothing.
        if let timeout @ Some(_) = timeout(Timeout::Recv) {
            let _ = settings.set_read_timeout(timeout);
        }
        if let timeout @ Some(_) = timeout(Timeout::Send) {
            let _ = settings.set_write_timeout(timeout);
        }
        let flags = rustix::fs::fcntl_getfl(fd);
        if flags.is_ok_and(|flags| flags.contains(OFlags::NONBLOCK)) {
            settings.set_nonblocking(true);
        }
        socket
    }

    /// Wraps an inherited listener. Its calls wait even if the descriptor is non-blocking: another
    /// process that shares the socket may have made it so for itself.
    pub(super) fn inherit(inner: S) -> Socket<S> {
        let socket = Socket::new(inner);
        let flags = rustix::fs::fcntl_getfl(socket.inner.as_fd());
        let is_nonblocking = flags.is_ok_and(|flags| flags.contains(OFlags::NONBLOCK));
        let raised = socket.settings.raised_nonblock();
        raised.store(is_nonblocking, Ordering::Relaxed);
        socket
    }

    /// Returns the `std` socket, with timeouts and blocking mode set on it.
    pub(super) fn release(self) -> S {
        // `setsockopt` and `fcntl` with valid arguments do not fail on an open socket.
        let (fd, settings) = (self.inner.as_fd(), &self.settings);
        let _ = sockopt::set_socket_timeout(fd, Timeout::Recv, settings.read_timeout());
        let _ = sockopt::set_socket_timeout(fd, Timeout::Send, settings.write_timeout());
        if settings.raised_nonblock().swap(false, Ordering::Relaxed) {
            let _ = rustix::io::ioctl_fionbio(fd, false);
        }
        self.inner
    }

    /// Creates another handle to the same socket.
    pub(super) fn try_clone(
        &self,
        clone: impl FnOnce(&S) -> io::Result<S>,
    ) -> io::Result<Socket<S>> {
        Ok(Socket::sharing(clone(&self.inner)?, self.settings.share()))
    }

    pub(super) fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        rustix::io::ioctl_fionbio(&self.inner, nonblocking)?;
        self.settings.set_nonblocking(nonblocking);
        Ok(())
    }

    pub(super) fn descriptor(&self) -> Descriptor<'_> {
        Descriptor {
            fd: self.inner.as_fd(),
            state: &self.state,
        }
    }

    /// Receives bytes, or a datagram. Without a buffer, it waits for bytes of a TCP connection; at
    /// the timeout Linux then finds that it has received as much as was requested, and reports no
    /// error.
    pub(super) fn receive(&self, buffer: &mut [u8], peek: bool) -> io::Result<usize> {
        let waits_for_bytes =
            S::IS_TCP_STREAM && buffer.is_empty() && !self.settings.is_nonblocking();
        let mut operation = Operation::Socket(SocketOperation::Receive(net::Receive {
            socket: self.descriptor(),
            buffer,
            peek,
            drains: S::IS_TCP_STREAM,
        }));
        match self.perform(&mut operation, self.settings.read_timeout()) {
            Ok(count) => Ok(count as usize),
            Err(error) if waits_for_bytes && error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Receives a message. Its header receives the flags and lengths that the kernel reports.
    pub(super) fn receive_message(&self, message: Message<'_>, peek: bool) -> io::Result<usize> {
        let mut operation =
            Operation::Socket(SocketOperation::ReceiveMessage(net::ReceiveMessage {
                socket: self.descriptor(),
                message,
                peek,
            }));
        let count = self.perform(&mut operation, self.settings.read_timeout())?;
        Ok(count as usize)
    }

    pub(super) fn send_message(&self, message: Message<'_>) -> io::Result<usize> {
        let mut operation = Operation::Socket(SocketOperation::SendMessage(net::SendMessage {
            socket: self.descriptor(),
            message,
        }));
        self.perform_send(&mut operation)
    }

    /// Receives into several buffers by one call. Unlike a receive into one buffer, it returns at
    /// once if the buffers are empty: `std` calls `readv`, which does not look at the socket in
    /// that case.
    pub(super) fn receive_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if all_empty(buffers) {
            return turn::begin_call().map(|()| 0);
        }
        let mut header = Header::new();
        let message = Message::to_receive(&mut header, buffers, None, &mut []);
        self.receive_message(message, false)
    }

    /// Sends several buffers by one call. Returns at once if they are empty, as `writev` does.
    pub(super) fn send_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        if all_empty(buffers) {
            return turn::begin_call().map(|()| 0);
        }
        let mut header = Header::new();
        self.send_message(Message::to_send(&mut header, buffers, None, &[], 0))
    }

    /// Receives a datagram and returns its length and its sender.
    pub(super) fn receive_from(
        &self,
        buffer: &mut [u8],
        peek: bool,
    ) -> io::Result<(usize, PeerAddress)> {
        let mut header = Header::new();
        let mut sender = PeerAddress::new();
        let slices = &mut [IoSliceMut::new(buffer)];
        let message = Message::to_receive(&mut header, slices, Some(&mut sender), &mut []);
        let count = self.receive_message(message, peek)?;
        sender.length = header.address_length();
        Ok((count, sender))
    }

    /// Sends a datagram to `address`.
    pub(super) fn send_to(&self, buffer: &[u8], address: &SocketAddrAny) -> io::Result<usize> {
        let mut header = Header::new();
        let slices = &[IoSlice::new(buffer)];
        self.send_message(Message::to_send(&mut header, slices, Some(address), &[], 0))
    }

    pub(super) fn send(&self, buffer: &[u8]) -> io::Result<usize> {
        let mut operation = Operation::Socket(SocketOperation::Send(net::Send {
            socket: self.descriptor(),
            buffer,
        }));
        self.perform_send(&mut operation)
    }

    /// Sends the whole buffer.
    pub(super) fn send_all(&self, mut buffer: &[u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.send(buffer) {
                Ok(count) => buffer = &buffer[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Makes the descriptor non-blocking, for system calls that have no flag for that.
    pub(super) fn raise_nonblock(&self) -> io::Result<()> {
        let settings = &self.settings;
        if !settings.is_nonblocking() && !settings.raised_nonblock().swap(true, Ordering::Relaxed) {
            rustix::io::ioctl_fionbio(&self.inner, true)?;
        }
        Ok(())
    }

    /// Waits for a connection and returns its descriptor and the peer's address.
    pub(super) fn accept(&self) -> io::Result<(OwnedFd, PeerAddress)> {
        let mut peer = PeerAddress::new();
        let mut operation = Operation::Socket(SocketOperation::Accept(net::Accept {
            listener: self.descriptor(),
            peer: &mut peer,
            raised_nonblock: self.settings.raised_nonblock(),
        }));
        let result = loop {
            match self.perform(&mut operation, None) {
                // Another driver has made the listener non-blocking, and io_uring obeys that flag.
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock
                        && !self.settings.is_nonblocking() =>
                {
                    self.wait_for(PollFlags::IN, None)?;
                }
                result => break result?,
            }
        };
        let fd = operation.descriptor(result);
        spawn::spread_next();
        Ok((fd, peer))
    }

    /// Shuts the listener down: current and later calls of `accept` fail.
    pub(super) fn stop_listening(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(&self.inner, Shutdown::Both)?)
    }

    /// Waits for one of `events`, also on a non-blocking socket.
    pub(super) fn wait_for(&self, events: PollFlags, timeout: Option<Duration>) -> io::Result<()> {
        let mut operation = Operation::Socket(SocketOperation::Poll(net::Poll {
            descriptor: self.descriptor(),
            events,
        }));
        wait::perform(&mut operation, timeout)?;
        Ok(())
    }

    fn perform_send(&self, operation: &mut Operation<'_>) -> io::Result<usize> {
        loop {
            match self.perform(operation, self.settings.write_timeout()) {
                Ok(count) => return Ok(count as usize),
                Err(error) if !self.waits_for_room(&error)? => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Waits for room in a simulated network, where a send may have to wait for others. Returns `false` if
    /// there is none in time.
    #[cold]
    fn waits_for_room(&self, error: &io::Error) -> io::Result<bool> {
        let world = caller::world().filter(|_| error.kind() == io::ErrorKind::WouldBlock);
        let limit = self.settings.write_timeout();
        let socket = self.inner.as_fd().as_raw_fd();
        let has_room = world.is_some_and(|world| world.await_room(socket, limit));
        if !has_room {
            // A deadline or a cancellation has ended the wait.
            cancellation::refuse_if_cancelled()?;
        }
        Ok(has_room)
    }

    fn perform(&self, operation: &mut Operation<'_>, timeout: Option<Duration>) -> io::Result<u32> {
        if self.settings.is_nonblocking() {
            return wait::perform_nonblocking(operation);
        }
        wait::perform(operation, timeout)
    }
}

impl<S: fmt::Debug> fmt::Debug for Socket<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(formatter)
    }
}

/// Connects a new socket.
pub(super) fn connect(
    socket: BorrowedFd<'_>,
    address: &SocketAddrAny,
    timeout: Option<Duration>,
) -> io::Result<()> {
    let address = match (caller::world(), SocketAddr::try_from(address.clone())) {
        (Some(world), Ok(to)) => match world.connect(socket.as_raw_fd(), to, timeout)? {
            Some(to) => to.into(),
            None => return Ok(()),
        },
        (Some(world), Err(_)) => {
            if let Ok(unix) = SocketAddrUnix::try_from(address.clone()) {
                tell_unix(&*world, &unix)?;
            }
            address.clone()
        }
        (None, _) => address.clone(),
    };
    let mut operation = Operation::Socket(SocketOperation::Connect(net::Connect {
        socket: Descriptor {
            fd: socket,
            state: &FdState::new(),
        },
        address: &address,
    }));
    wait::perform(&mut operation, timeout)?;
    Ok(())
}

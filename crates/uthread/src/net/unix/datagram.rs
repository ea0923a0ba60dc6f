//! Unix datagram sockets. They lose no datagram: a sender waits while the receiver's queue is full.
//!
//! The kernel reports room in that queue only to sockets that are connected to the receiver, so an
//! unconnected sender waits through a second, connected socket. And io_uring must not retry a send:
//! the kernel takes the bytes before it checks the queue, so a retry would send an empty datagram.
//! Each attempt is therefore a non-blocking system call.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::SocketAddrAny;

use super::address;
use super::fds::{self, ReceivedFds};
use crate::driver::native;
use crate::net::methods::{impl_buffer_sizes, impl_datagram, impl_socket, impl_timeouts};
use crate::net::socket::{Inner, Socket};
use crate::op;
use crate::op::message::{Header, Message};
use crate::sched::caller::{self, cancellation, turn};

impl Inner for std::os::unix::net::UnixDatagram {
    const IS_TCP_STREAM: bool = false;
}

/// A Unix datagram socket; the counterpart of [`std::os::unix::net::UnixDatagram`].
///
/// ```
/// use uthread::net::UnixDatagram;
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("socket");
/// let server = UnixDatagram::bind(&path)?;
/// let client = UnixDatagram::unbound()?;
/// client.send_to(b"hello", &path)?;
/// let mut buffer = [0; 100];
/// let (count, from) = server.recv_from(&mut buffer)?;
/// assert_eq!(&buffer[..count], b"hello");
/// assert!(from.is_unnamed());
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct UnixDatagram {
    socket: Socket<std::os::unix::net::UnixDatagram>,
}

impl UnixDatagram {
    /// Creates a socket bound to `path`. This creates a file, which remains after the socket is
    /// dropped.
    ///
    /// # Errors
    ///
    /// `AddrInUse` if the file exists; `InvalidInput` if the path is too long for an address; any
    /// other error that `socket(2)` or `bind(2)` reports.
    ///
    /// ```
    /// use uthread::net::UnixDatagram;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("socket");
    /// let socket = UnixDatagram::bind(&path)?;
    /// assert_eq!(socket.local_addr()?.as_pathname(), Some(&*path));
    /// drop(socket);
    /// assert!(UnixDatagram::bind(&path).is_err(), "the file has stayed");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixDatagram> {
        UnixDatagram::bind_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Creates a socket bound to an address, which may be an abstract name.
    ///
    /// # Errors
    ///
    /// The errors of [`bind`](UnixDatagram::bind).
    ///
    /// ```
    /// use std::os::linux::net::SocketAddrExt;
    /// use uthread::net::{UnixDatagram, unix::SocketAddr};
    ///
    /// let name = format!("an example of {}", std::process::id());
    /// let address = SocketAddr::from_abstract_name(name)?;
    /// let receiver = UnixDatagram::bind_addr(&address)?;
    /// let sender = UnixDatagram::unbound()?;
    /// sender.send_to_addr(b"one", &address)?;
    /// sender.connect_addr(&address)?;
    /// sender.send(b"two")?;
    /// assert_eq!((receiver.recv(&mut [0; 9])?, receiver.recv(&mut [0; 9])?), (3, 3));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn bind_addr(address: &SocketAddr) -> io::Result<UnixDatagram> {
        address::bind(address, std::os::unix::net::UnixDatagram::bind_addr).map(UnixDatagram::new)
    }

    /// Creates a socket without an address. It can send, but its peers cannot reply.
    ///
    /// # Errors
    ///
    /// `EMFILE` or `ENFILE` if there is no free descriptor; any other error that `socket(2)`
    /// reports.
    ///
    /// ```
    /// let socket = uthread::net::UnixDatagram::unbound()?;
    /// assert!(socket.local_addr()?.is_unnamed());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn unbound() -> io::Result<UnixDatagram> {
        std::os::unix::net::UnixDatagram::unbound().map(UnixDatagram::new)
    }

    /// Creates two sockets that are connected to each other.
    ///
    /// # Errors
    ///
    /// `EMFILE` or `ENFILE` if there is no free descriptor; any other error that `socketpair(2)`
    /// reports.
    ///
    /// ```
    /// let (one, other) = uthread::net::UnixDatagram::pair()?;
    /// one.send(b"hello")?;
    /// let mut buffer = [0; 100];
    /// let count = other.recv(&mut buffer)?;
    /// assert_eq!(&buffer[..count], b"hello");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
        let (one, other) = std::os::unix::net::UnixDatagram::pair()?;
        Ok((UnixDatagram::new(one), UnixDatagram::new(other)))
    }

    fn new(inner: std::os::unix::net::UnixDatagram) -> UnixDatagram {
        UnixDatagram {
            socket: Socket::new(inner),
        }
    }

    /// Connects the socket to the one bound to `path`: [`send`](UnixDatagram::send) sends to it,
    /// and only its datagrams are received.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such file; `ConnectionRefused` if no socket is bound to it;
    /// `PermissionDenied` (`EPERM`) if that socket is connected to another one; `InvalidInput` if
    /// the path is too long for an address; any other error that `connect(2)` reports.
    ///
    /// ```
    /// use uthread::net::UnixDatagram;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("socket");
    /// let receiver = UnixDatagram::bind(&path)?;
    /// let sender = UnixDatagram::unbound()?;
    /// sender.connect(&path)?;
    /// assert_eq!(sender.peer_addr()?.as_pathname(), Some(&*path));
    /// sender.send(b"hello")?;
    /// assert_eq!(receiver.recv(&mut [0; 100])?, 5);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn connect<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        self.connect_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Connects the socket to the one bound to `address`, which may be an abstract name. See the
    /// example of [`bind_addr`](UnixDatagram::bind_addr).
    ///
    /// # Errors
    ///
    /// The errors of [`connect`](UnixDatagram::connect).
    pub fn connect_addr(&self, address: &SocketAddr) -> io::Result<()> {
        // The call looks up the address and never waits.
        self.socket.inner.connect_addr(address)
    }

    /// Receives a datagram and returns its length and its sender. Bytes that do not fit `buffer`
    /// are discarded. See the example of [`UnixDatagram`].
    ///
    /// # Errors
    ///
    /// `WouldBlock` after the read timeout; any other error that `recvfrom(2)` reports.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (count, sender) = self.socket.receive_from(buffer, false)?;
        Ok((count, address::decode(&sender)?))
    }

    /// Receives a datagram without removing it from the queue: the next receive returns the same
    /// datagram.
    ///
    /// # Errors
    ///
    /// The errors of [`recv_from`](UnixDatagram::recv_from).
    ///
    /// ```
    /// let (one, other) = uthread::net::UnixDatagram::pair()?;
    /// one.send(b"hello")?;
    /// let (peeked, _) = other.peek_from(&mut [0; 100])?;
    /// let (received, from) = other.recv_from(&mut [0; 100])?;
    /// assert_eq!((peeked, received, from.is_unnamed()), (5, 5, true));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (count, sender) = self.socket.receive_from(buffer, true)?;
        Ok((count, address::decode(&sender)?))
    }

    /// Sends a datagram to the socket bound to `path`, waiting while the queue of that socket is
    /// full. See the example of [`UnixDatagram`].
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such file; `ConnectionRefused` if no socket is bound to it;
    /// `EMSGSIZE` if `buffer` is too large for a datagram; `WouldBlock` after the write timeout;
    /// `InvalidInput` if the path is too long for an address; any other error that `sendto(2)`
    /// reports.
    pub fn send_to<P: AsRef<Path>>(&self, buffer: &[u8], path: P) -> io::Result<usize> {
        self.send_to_addr(buffer, &SocketAddr::from_pathname(path)?)
    }

    /// Sends a datagram to the socket bound to `address`, which may be an abstract name. See the
    /// example of [`bind_addr`](UnixDatagram::bind_addr).
    ///
    /// # Errors
    ///
    /// The errors of [`send_to`](UnixDatagram::send_to).
    pub fn send_to_addr(&self, buffer: &[u8], address: &SocketAddr) -> io::Result<usize> {
        let address = address::encode(address)?;
        let mut header = Header::new();
        let slices = &[IoSlice::new(buffer)];
        let message = Message::to_send(&mut header, slices, Some(&address), &[], 0);
        self.send_message(message, |rest| self.await_room(&address, rest))
    }

    fn send_whole(&self, buffer: &[u8]) -> io::Result<usize> {
        let mut header = Header::new();
        let slices = &[IoSlice::new(buffer)];
        self.send_connected(Message::to_send(&mut header, slices, None, &[], 0))
    }

    fn send_connected(&self, message: Message<'_>) -> io::Result<usize> {
        self.send_message(message, |rest| self.socket.wait_for(PollFlags::OUT, rest))
    }

    /// Sends a message. Each time there is no room, calls `await_room` with the rest of the timeout
    /// and tries again.
    fn send_message(
        &self,
        mut message: Message<'_>,
        await_room: impl Fn(Option<Duration>) -> io::Result<()>,
    ) -> io::Result<usize> {
        let settings = &self.socket.settings;
        let timeout = settings.write_timeout();
        let blocks = !caller::is_on_worker() && timeout.is_none();
        if settings.is_nonblocking() || blocks {
            return self.socket.send_message(message);
        }
        turn::spend();
        let deadline = timeout.map(|timeout| caller::after(caller::now(), timeout));
        loop {
            cancellation::refuse_if_cancelled()?;
            match native::message::send(self.as_fd(), &mut message, false) {
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {}
                result => return Ok(result? as usize),
            }
            let rest = deadline.map(|deadline| deadline.saturating_duration_since(caller::now()));
            if rest == Some(Duration::ZERO) {
                return Err(io::Error::from_raw_os_error(op::TIMED_OUT));
            }
            await_room(rest)?;
        }
    }

    /// Waits until there may be room to send to `address`, in the send buffer of this socket or in
    /// the receiver's queue.
    fn await_room(&self, address: &SocketAddrAny, rest: Option<Duration>) -> io::Result<()> {
        if native::ready_now(self.as_fd(), PollFlags::OUT)?.is_empty() {
            return self.socket.wait_for(PollFlags::OUT, rest);
        }
        let witness = UnixDatagram::unbound()?;
        rustix::net::connect(&witness, address)?;
        witness.socket.wait_for(PollFlags::OUT, rest)
    }

    /// Sends a datagram with file descriptors to the socket that this one is connected to.
    ///
    /// # Errors
    ///
    /// `InvalidInput` (`EINVAL`) for more than [`FDS_MAX`](super::FDS_MAX) descriptors; the errors
    /// of [`send`](UnixDatagram::send).
    ///
    /// ```
    /// use std::os::fd::AsFd;
    /// use uthread::net::UnixDatagram;
    ///
    /// let (ours, theirs) = UnixDatagram::pair()?;
    /// ours.send_fds(b"", &[std::io::stdin().as_fd()])?;
    /// assert_eq!(theirs.recv_fds(&mut [], 1)?.fds.len(), 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn send_fds(&self, buffer: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        fds::send(buffer, fds, |message| self.send_connected(message))
    }

    /// Receives a datagram and at most `fds_max` file descriptors sent with it. See the example of
    /// [`send_fds`](UnixDatagram::send_fds).
    ///
    /// # Errors
    ///
    /// The errors of [`recv`](UnixDatagram::recv). Losing descriptors is not an error: see
    /// [`ReceivedFds::fds_lost`].
    pub fn recv_fds(&self, buffer: &mut [u8], fds_max: usize) -> io::Result<ReceivedFds> {
        fds::receive(&self.socket, buffer, fds_max)
    }

    /// Shuts down receiving, sending or both. Calls that wait in that direction return.
    ///
    /// # Errors
    ///
    /// `NotConnected` if the socket is not connected; any other error that `shutdown(2)` reports.
    ///
    /// ```
    /// use uthread::net::{Shutdown, UnixDatagram};
    ///
    /// let (one, other) = UnixDatagram::pair()?;
    /// one.shutdown(Shutdown::Both)?;
    /// assert!(one.send(b"hello").is_err() && other.send(b"hello").is_err());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.inner.shutdown(how)
    }

    /// Returns the address that the socket is connected to. See the example of
    /// [`connect`](UnixDatagram::connect).
    ///
    /// # Errors
    ///
    /// `NotConnected` if the socket is not connected; any other error that `getpeername(2)`
    /// reports.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.inner.peer_addr()
    }

    /// Returns the local address of the socket. See the example of [`bind`](UnixDatagram::bind).
    ///
    /// # Errors
    ///
    /// Any error that `getsockname(2)` reports.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.inner.local_addr()
    }
}

impl_socket!(
    UnixDatagram,
    std::os::unix::net::UnixDatagram,
    "let socket = uthread::net::UnixDatagram::unbound()?;"
);
impl_timeouts!(
    UnixDatagram,
    "let socket = uthread::net::UnixDatagram::unbound()?;"
);
impl_buffer_sizes!(
    UnixDatagram,
    "let socket = uthread::net::UnixDatagram::unbound()?;"
);
impl_datagram!(
    UnixDatagram,
    "let (socket, _peer) = uthread::net::UnixDatagram::pair()?;
# _peer.send(b\"text\")?;"
);

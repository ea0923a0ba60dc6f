//! Datagrams within this machine: none is lost, so who sends waits for room where the receiver's queue is full.
//!
//! Of that queue the kernel tells only sockets that are connected to the receiver: one that is not waits by
//! another one that is. And a ring that tries again sends an empty datagram: the kernel has taken the bytes
//! before it looked at the queue. So each try is a system call that does not wait.

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
use crate::sched::wait;

impl Inner for std::os::unix::net::UnixDatagram {
    const DRAINS: bool = false;
}

/// A socket for datagrams of this machine, as [`std::os::unix::net::UnixDatagram`].
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
    /// Receives at a path, where it makes a file that stays.
    ///
    /// # Errors
    ///
    /// The kernel's: `EADDRINUSE` where there is a file; `InvalidInput` for a path that is too long for an
    /// address.
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

    /// Receives at an address, which may be an abstract name.
    ///
    /// # Errors
    ///
    /// As [`bind`](UnixDatagram::bind).
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

    /// One without an address: it can send, and nobody can answer.
    ///
    /// # Errors
    ///
    /// The kernel's: `EMFILE`.
    ///
    /// ```
    /// let socket = uthread::net::UnixDatagram::unbound()?;
    /// assert!(socket.local_addr()?.is_unnamed());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn unbound() -> io::Result<UnixDatagram> {
        std::os::unix::net::UnixDatagram::unbound().map(UnixDatagram::new)
    }

    /// Two that are connected to each other.
    ///
    /// # Errors
    ///
    /// The kernel's: `EMFILE`.
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

    /// Sets to whom [`send`](UnixDatagram::send) sends, and from whom alone is received.
    ///
    /// # Errors
    ///
    /// The kernel's: `ENOENT`, `ECONNREFUSED`, `EPERM` where that one is connected to another.
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

    /// The same by an address, which may be an abstract name.
    /// See the example of [`bind_addr`](UnixDatagram::bind_addr).
    ///
    /// # Errors
    ///
    /// As [`connect`](UnixDatagram::connect).
    pub fn connect_addr(&self, address: &SocketAddr) -> io::Result<()> {
        // It looks the address up, and waits for nobody.
        self.socket.inner.connect_addr(address)
    }

    /// Receives a datagram, and tells from where. What does not fit into the buffer is lost.
    /// See the example of [`UnixDatagram`].
    ///
    /// # Errors
    ///
    /// The kernel's; `WouldBlock` after the timeout.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (count, sender) = self.socket.receive_from(buffer, false)?;
        Ok((count, address::decode(&sender)?))
    }

    /// As [`recv_from`](UnixDatagram::recv_from), but the next receive gets the same datagram.
    ///
    /// # Errors
    ///
    /// As there.
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

    /// Sends a datagram to who receives at a path; waits while the queue there is full.
    /// See the example of [`UnixDatagram`].
    ///
    /// # Errors
    ///
    /// The kernel's: `ENOENT`, `ECONNREFUSED` where nobody receives any more, `EMSGSIZE`; `WouldBlock` after
    /// the timeout; `InvalidInput` for a path that is too long for an address.
    pub fn send_to<P: AsRef<Path>>(&self, buffer: &[u8], path: P) -> io::Result<usize> {
        self.send_to_addr(buffer, &SocketAddr::from_pathname(path)?)
    }

    /// The same by an address, which may be an abstract name.
    /// See the example of [`bind_addr`](UnixDatagram::bind_addr).
    ///
    /// # Errors
    ///
    /// As [`send_to`](UnixDatagram::send_to).
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

    /// Sends, and each time that there is no room awaits some, which is given the rest of the timeout.
    fn send_message(
        &self,
        mut message: Message<'_>,
        await_room: impl Fn(Option<Duration>) -> io::Result<()>,
    ) -> io::Result<usize> {
        let settings = &self.socket.settings;
        let timeout = settings.write_timeout();
        let blocks = !wait::is_on_worker() && timeout.is_none();
        if settings.is_nonblocking() || blocks {
            return self.socket.send_message(message);
        }
        wait::spend_turn();
        let deadline = timeout.map(|timeout| wait::after(wait::now(), timeout));
        loop {
            wait::refuse_if_cancelled()?;
            match native::message::send(self.as_fd(), &mut message, false) {
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {}
                result => return Ok(result? as usize),
            }
            let rest = deadline.map(|deadline| deadline.saturating_duration_since(wait::now()));
            if rest == Some(Duration::ZERO) {
                return Err(io::Error::from_raw_os_error(op::TIMED_OUT));
            }
            await_room(rest)?;
        }
    }

    /// Waits until there may be room on the way to an address: in this socket, or in the queue there.
    fn await_room(&self, address: &SocketAddrAny, rest: Option<Duration>) -> io::Result<()> {
        if native::ready_now(self.as_fd(), PollFlags::OUT)?.is_empty() {
            return self.socket.wait_for(PollFlags::OUT, rest);
        }
        let witness = UnixDatagram::unbound()?;
        rustix::net::connect(&witness, address)?;
        witness.socket.wait_for(PollFlags::OUT, rest)
    }

    /// Sends a datagram with descriptors to where the socket is connected.
    ///
    /// # Errors
    ///
    /// `EINVAL` for more than [`FDS_MAX`](super::FDS_MAX); else as [`send`](UnixDatagram::send).
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

    /// Receives a datagram, and at most `fds_max` descriptors that came with it.
    /// See the example of [`send_fds`](UnixDatagram::send_fds).
    ///
    /// # Errors
    ///
    /// As [`recv`](UnixDatagram::recv). That descriptors are lost is no error, and told by the result.
    pub fn recv_fds(&self, buffer: &mut [u8], fds_max: usize) -> io::Result<ReceivedFds> {
        fds::receive(&self.socket, buffer, fds_max)
    }

    /// Closes one or both directions; calls waiting in them return.
    ///
    /// # Errors
    ///
    /// The kernel's.
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

    /// The address it is connected to, as in the example of [`connect`](UnixDatagram::connect).
    ///
    /// # Errors
    ///
    /// The kernel's: `ENOTCONN`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.inner.peer_addr()
    }

    /// The address it is bound to, as in the example of [`bind`](UnixDatagram::bind).
    ///
    /// # Errors
    ///
    /// The kernel's.
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

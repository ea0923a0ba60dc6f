//! A socket that is to become a stream or a listener, for what has to be set before.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::net::{AddressFamily, sockopt};

use super::{Keepalive, TcpListener, TcpStream, keepalive, open};
use crate::net::methods::impl_buffer_sizes;

/// A TCP socket that neither listens nor is connected: for options that must be set before. `std` has none.
///
/// ```
/// use uthread::net::{TcpSocket, TcpStream};
///
/// let socket = TcpSocket::new_v4()?;
/// socket.set_reuse_address(true)?;
/// socket.set_reuse_port(true)?;
/// socket.bind("127.0.0.1:0".parse().unwrap())?;
/// let listener = socket.listen(1024)?;
/// let _client = TcpStream::connect(listener.local_addr()?)?;
/// let (_server, _) = listener.accept()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct TcpSocket {
    fd: OwnedFd,
}

impl TcpSocket {
    /// One of version 4 of the protocol.
    ///
    /// # Errors
    ///
    /// The kernel's: `EMFILE`.
    ///
    /// ```
    /// let socket = uthread::net::TcpSocket::new_v4()?;
    /// socket.bind("127.0.0.1:0".parse().unwrap())?;
    /// assert!(socket.local_addr()?.is_ipv4());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new_v4() -> io::Result<TcpSocket> {
        open(AddressFamily::INET).map(|fd| TcpSocket { fd })
    }

    /// One of version 6 of the protocol.
    ///
    /// # Errors
    ///
    /// The kernel's: `EMFILE`, `EAFNOSUPPORT`.
    ///
    /// ```
    /// // Not every machine has version 6.
    /// if let Ok(socket) = uthread::net::TcpSocket::new_v6() {
    ///     socket.set_only_v6(true)?;
    ///     assert!(socket.only_v6()?);
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new_v6() -> io::Result<TcpSocket> {
        open(AddressFamily::INET6).map(|fd| TcpSocket { fd })
    }

    /// Whether an address may be bound that a connection of the past still has (`SO_REUSEADDR`), as
    /// [`TcpListener::bind`] does it.
    ///
    /// # Errors
    ///
    /// The kernel's.
    ///
    /// ```
    /// let socket = uthread::net::TcpSocket::new_v4()?;
    /// socket.set_reuse_address(true)?;
    /// assert!(socket.reuse_address()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_reuse_address(&self, reuse: bool) -> io::Result<()> {
        Ok(sockopt::set_socket_reuseaddr(self, reuse)?)
    }

    /// What [`set_reuse_address`](TcpSocket::set_reuse_address) has set; see the example there.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn reuse_address(&self) -> io::Result<bool> {
        Ok(sockopt::socket_reuseaddr(self)?)
    }

    /// Whether several sockets of the same user that all ask for this may listen at one address; the kernel
    /// spreads the connections over them (`SO_REUSEPORT`).
    ///
    /// # Errors
    ///
    /// The kernel's.
    ///
    /// ```
    /// use uthread::net::TcpSocket;
    ///
    /// let listen = |address| -> std::io::Result<_> {
    ///     let socket = TcpSocket::new_v4()?;
    ///     socket.set_reuse_port(true)?;
    ///     assert!(socket.reuse_port()?);
    ///     socket.bind(address)?;
    ///     socket.listen(1024)
    /// };
    /// let one = listen("127.0.0.1:0".parse().unwrap())?;
    /// let other = listen(one.local_addr()?)?;
    /// assert_eq!(one.local_addr()?, other.local_addr()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_reuse_port(&self, reuse: bool) -> io::Result<()> {
        Ok(sockopt::set_socket_reuseport(self, reuse)?)
    }

    /// What [`set_reuse_port`](TcpSocket::set_reuse_port) has set; see the example there.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn reuse_port(&self) -> io::Result<bool> {
        Ok(sockopt::socket_reuseport(self)?)
    }

    /// Whether one of version 6 is for connections of that version alone.
    /// See the example of [`new_v6`](TcpSocket::new_v6).
    ///
    /// # Errors
    ///
    /// The kernel's: `EINVAL` of one that is bound.
    pub fn set_only_v6(&self, only_v6: bool) -> io::Result<()> {
        Ok(sockopt::set_ipv6_v6only(self, only_v6)?)
    }

    /// What [`set_only_v6`](TcpSocket::set_only_v6) has set. See the example of [`new_v6`](TcpSocket::new_v6).
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn only_v6(&self) -> io::Result<bool> {
        Ok(sockopt::ipv6_v6only(self)?)
    }

    /// As [`TcpStream::set_keepalive`]; what a listener has is handed down to its connections.
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// ```
    /// use uthread::net::{Keepalive, TcpSocket, TcpStream};
    ///
    /// let socket = TcpSocket::new_v4()?;
    /// socket.set_keepalive(Some(Keepalive::default()))?;
    /// assert_eq!(socket.keepalive()?, Some(Keepalive::default()));
    /// socket.bind("127.0.0.1:0".parse().unwrap())?;
    /// let listener = socket.listen(1024)?;
    /// let _client = TcpStream::connect(listener.local_addr()?)?;
    /// assert_eq!(listener.accept()?.0.keepalive()?, Some(Keepalive::default()));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_keepalive(&self, keepalive: Option<Keepalive>) -> io::Result<()> {
        keepalive::set(self.as_fd(), keepalive)
    }

    /// What [`set_keepalive`](TcpSocket::set_keepalive) has set; see the example there.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn keepalive(&self) -> io::Result<Option<Keepalive>> {
        keepalive::get(self.as_fd())
    }

    /// Gives it an address of its own, to listen at or to connect from.
    /// See the example of [`new_v4`](TcpSocket::new_v4).
    ///
    /// # Errors
    ///
    /// The kernel's: `EADDRINUSE`, `EACCES`.
    pub fn bind(&self, address: SocketAddr) -> io::Result<()> {
        Ok(rustix::net::bind(self, &address)?)
    }

    /// The address it is bound to, as in the example of [`new_v4`](TcpSocket::new_v4).
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(rustix::net::getsockname(self)?.try_into()?)
    }

    /// Listens; the kernel completes at most `backlog` connections ahead of `accept`, and at most
    /// `net.core.somaxconn`. See the example of [`TcpSocket`].
    ///
    /// # Errors
    ///
    /// The kernel's: `EADDRINUSE`.
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
        rustix::net::listen(&self, backlog)?;
        Ok(TcpListener::from_inner(self.fd.into()))
    }

    /// Connects.
    ///
    /// # Errors
    ///
    /// As [`TcpStream::connect`].
    ///
    /// ```
    /// use uthread::net::{TcpListener, TcpSocket};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let socket = TcpSocket::new_v4()?;
    /// socket.bind("127.0.0.2:0".parse().unwrap())?;
    /// let _stream = socket.connect(listener.local_addr()?)?;
    /// let (_, from) = listener.accept()?;
    /// assert_eq!(from.ip().to_string(), "127.0.0.2");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn connect(self, address: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::open(self.fd, address, None)
    }

    /// Connects, at most for `timeout`.
    ///
    /// # Errors
    ///
    /// As [`TcpStream::connect_timeout`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use uthread::net::{TcpListener, TcpSocket};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let address = listener.local_addr()?;
    /// let stream = TcpSocket::new_v4()?.connect_timeout(address, Duration::from_secs(5))?;
    /// assert_eq!(stream.peer_addr()?, address);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn connect_timeout(self, address: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        TcpStream::open_within(self.fd, address, timeout)
    }
}

impl_buffer_sizes!(
    TcpSocket,
    "let socket = uthread::net::TcpSocket::new_v4()?;"
);

impl fmt::Debug for TcpSocket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fd = self.as_raw_fd();
        formatter
            .debug_struct("TcpSocket")
            .field("fd", &fd)
            .finish()
    }
}

impl AsFd for TcpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for TcpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

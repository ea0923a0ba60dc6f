//! A TCP socket before it connects or listens.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::net::{AddressFamily, sockopt};

use super::{Keepalive, TcpListener, TcpStream, keepalive, open};
use crate::net::methods::impl_buffer_sizes;
use crate::sched::caller;

/// A TCP socket that is neither connected nor listening. Use it to set options before
/// [`connect`](TcpSocket::connect) or [`listen`](TcpSocket::listen). It has no counterpart in
/// `std`.
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
    /// Creates an IPv4 socket.
    ///
    /// # Errors
    ///
    /// `EMFILE` or `ENFILE` if there is no free descriptor; any other error that `socket(2)`
    /// reports.
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

    /// Creates an IPv6 socket.
    ///
    /// # Errors
    ///
    /// `EMFILE` or `ENFILE` if there is no free descriptor; `EAFNOSUPPORT` if the kernel has no
    /// IPv6; any other error that `socket(2)` reports.
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

    /// Sets `SO_REUSEADDR`, which allows binding an address that closed connections still occupy.
    /// [`TcpListener::bind`] sets it too.
    ///
    /// # Errors
    ///
    /// Any error that `setsockopt(2)` reports.
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

    /// Returns `true` if `SO_REUSEADDR` is set. See the example of
    /// [`set_reuse_address`](TcpSocket::set_reuse_address).
    ///
    /// # Errors
    ///
    /// Any error that `getsockopt(2)` reports.
    pub fn reuse_address(&self) -> io::Result<bool> {
        Ok(sockopt::socket_reuseaddr(self)?)
    }

    /// Sets `SO_REUSEPORT`, which allows several sockets of the same user to listen at one address
    /// if all of them set it. The kernel distributes incoming connections over these sockets.
    ///
    /// # Errors
    ///
    /// Any error that `setsockopt(2)` reports.
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

    /// Returns `true` if `SO_REUSEPORT` is set. See the example of
    /// [`set_reuse_port`](TcpSocket::set_reuse_port).
    ///
    /// # Errors
    ///
    /// Any error that `getsockopt(2)` reports.
    pub fn reuse_port(&self) -> io::Result<bool> {
        Ok(sockopt::socket_reuseport(self)?)
    }

    /// Sets `IPV6_V6ONLY`, which restricts an IPv6 socket to IPv6 connections. See the example of
    /// [`new_v6`](TcpSocket::new_v6).
    ///
    /// # Errors
    ///
    /// `InvalidInput` (`EINVAL`) if the socket is bound; any other error that `setsockopt(2)`
    /// reports.
    pub fn set_only_v6(&self, only_v6: bool) -> io::Result<()> {
        Ok(sockopt::set_ipv6_v6only(self, only_v6)?)
    }

    /// Returns `true` if the socket is restricted to IPv6 connections (`IPV6_V6ONLY`). See the
    /// example of [`new_v6`](TcpSocket::new_v6).
    ///
    /// # Errors
    ///
    /// Any error that `getsockopt(2)` reports.
    pub fn only_v6(&self) -> io::Result<bool> {
        Ok(sockopt::ipv6_v6only(self)?)
    }

    /// Enables keepalive probes, or disables them with `None`. Connections that a listener accepts
    /// inherit the setting. See [`TcpStream::set_keepalive`].
    ///
    /// # Errors
    ///
    /// The errors of [`TcpStream::set_keepalive`].
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

    /// Returns the keepalive settings, or `None` if probes are disabled. See the example of
    /// [`set_keepalive`](TcpSocket::set_keepalive).
    ///
    /// # Errors
    ///
    /// Any error that `getsockopt(2)` reports.
    pub fn keepalive(&self) -> io::Result<Option<Keepalive>> {
        keepalive::get(self.as_fd())
    }

    /// Binds the socket to a local address, to listen at or to connect from. See the example of
    /// [`new_v4`](TcpSocket::new_v4).
    ///
    /// # Errors
    ///
    /// `AddrInUse` if the address is taken; `PermissionDenied` if the process may not bind it; any
    /// other error that `bind(2)` reports.
    pub fn bind(&self, address: SocketAddr) -> io::Result<()> {
        let address = caller::world().map_or(address, |world| world.local(address));
        Ok(rustix::net::bind(self, &address)?)
    }

    /// Returns the local address of the socket. See the example of [`new_v4`](TcpSocket::new_v4).
    ///
    /// # Errors
    ///
    /// Any error that `getsockname(2)` reports.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(rustix::net::getsockname(self)?.try_into()?)
    }

    /// Starts listening. The kernel queues at most `backlog` connections that are not yet accepted,
    /// limited by the sysctl `net.core.somaxconn` (4,096 by default). A client that finds the queue
    /// full tries again, first after a second, so a short queue shows as connections that take
    /// seconds. Closing a listener resets the connections in its queue.
    ///
    /// # Errors
    ///
    /// `AddrInUse` if another socket listens at the address; any other error that `listen(2)`
    /// reports.
    ///
    /// ```
    /// use uthread::net::{TcpListener, TcpSocket};
    ///
    /// /// Binds as `TcpListener::bind` does, with a queue of at most 1,024 connections.
    /// fn bind(address: std::net::SocketAddr) -> std::io::Result<TcpListener> {
    ///     let socket = if address.is_ipv4() {
    ///         TcpSocket::new_v4()?
    ///     } else {
    ///         TcpSocket::new_v6()?
    ///     };
    ///     socket.set_reuse_address(true)?;
    ///     socket.bind(address)?;
    ///     socket.listen(1024)
    /// }
    ///
    /// assert_ne!(bind("127.0.0.1:0".parse().unwrap())?.local_addr()?.port(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
        rustix::net::listen(&self, backlog)?;
        Ok(TcpListener::from_inner(self.fd.into()))
    }

    /// Connects to `address`.
    ///
    /// # Errors
    ///
    /// The errors of [`TcpStream::connect`].
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

    /// Connects to `address`, giving up after `timeout`.
    ///
    /// # Errors
    ///
    /// The errors of [`TcpStream::connect_timeout`].
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

//! A TCP listener.

use std::fmt;
use std::io;
use std::iter::FusedIterator;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use super::TcpStream;
use crate::net::methods::impl_socket;
use crate::net::resolve::{ToSocketAddrs, for_each_address};
use crate::net::socket::{Inner, Socket};

impl Inner for std::net::TcpListener {
    const IS_TCP_STREAM: bool = false;
}

/// A TCP socket that accepts connections; the counterpart of [`std::net::TcpListener`].
///
/// ```
/// use std::io::{Read, Write};
/// use uthread::net::{TcpListener, TcpStream};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let address = listener.local_addr()?;
/// let server = uthread::spawn(move || {
///     let (mut stream, _peer) = listener.accept()?;
///     stream.write_all(b"welcome")
/// });
/// let mut text = String::new();
/// TcpStream::connect(address)?.read_to_string(&mut text)?;
/// assert_eq!(text, "welcome");
/// server.join().unwrap()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct TcpListener {
    socket: Socket<std::net::TcpListener>,
}

/// A length of the queue that the kernel reduces to its own limit.
const QUEUE_MAX: i32 = i32::MAX;

impl TcpListener {
    /// Creates a listener bound to the first of the addresses that can be bound. Port 0 requests a
    /// free port.
    ///
    /// The kernel queues as many connections that are not yet accepted as the sysctl
    /// `net.core.somaxconn` allows, by default 4,096. With `std` it queues 128, but a program with
    /// fibers may connect a thousand times at once.
    /// [`TcpSocket::listen`](crate::net::TcpSocket::listen) sets another number.
    ///
    /// # Errors
    ///
    /// `AddrInUse` if the address is taken; `PermissionDenied` if the process may not bind it; any
    /// other error that `socket(2)`, `bind(2)` or `listen(2)` reports for the last address, or that
    /// the resolver reports.
    ///
    /// ```
    /// use uthread::net::TcpListener;
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let second = TcpListener::bind(listener.local_addr()?);
    /// assert_eq!(second.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn bind<A: ToSocketAddrs>(address: A) -> io::Result<TcpListener> {
        for_each_address(address, |address| {
            // Binding and listening never wait.
            let inner = std::net::TcpListener::bind(address)?;
            rustix::net::listen(&inner, QUEUE_MAX)?;
            Ok(TcpListener::from_inner(inner))
        })
    }

    pub(super) fn from_inner(inner: std::net::TcpListener) -> TcpListener {
        TcpListener {
            socket: Socket::new(inner),
        }
    }

    pub(in crate::net) fn inherit(fd: OwnedFd) -> TcpListener {
        TcpListener {
            socket: Socket::inherit(fd.into()),
        }
    }

    /// Waits for a connection and accepts it. Returns the stream and the peer's address.
    ///
    /// # Errors
    ///
    /// `EMFILE` or `ENFILE` if there is no free descriptor; `ConnectionAborted` if the peer has
    /// closed the connection before it was accepted; any other error that `accept(2)` reports. The
    /// listener remains usable.
    ///
    /// ```
    /// use uthread::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let client = TcpStream::connect(listener.local_addr()?)?;
    /// let (_server, peer) = listener.accept()?;
    /// assert_eq!(peer, client.local_addr()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (fd, peer) = self.socket.accept()?;
        Ok((TcpStream::from_fd(fd), peer.to_socket_addr()?))
    }

    /// Returns an endless iterator over incoming connections.
    ///
    /// ```
    /// use uthread::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let client = TcpStream::connect(listener.local_addr()?)?;
    /// for stream in listener.incoming().take(1) {
    ///     assert_eq!(stream?.peer_addr()?, client.local_addr()?);
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// Stops listening, for all handles to this socket. Current and later calls that wait for a
    /// connection fail with `InvalidInput` (`EINVAL`); queued connections are reset.
    ///
    /// # Errors
    ///
    /// `NotConnected` if the listener was shut down before; any other error that `shutdown(2)`
    /// reports.
    ///
    /// ```
    /// let listener = uthread::net::TcpListener::bind("127.0.0.1:0")?;
    /// let accepting = listener.try_clone()?;
    /// let ended = uthread::spawn(move || accepting.accept());
    /// listener.shutdown()?;
    /// assert!(ended.join().unwrap().is_err());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn shutdown(&self) -> io::Result<()> {
        self.socket.stop_listening()
    }

    /// Returns the local address of the listener.
    ///
    /// # Errors
    ///
    /// Any error that `getsockname(2)` reports.
    ///
    /// ```
    /// let listener = uthread::net::TcpListener::bind("127.0.0.1:0")?;
    /// let address = listener.local_addr()?;
    /// assert!(address.ip().is_loopback() && address.port() != 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.inner.local_addr()
    }

    /// Sets the time to live of the packets of accepted connections, in hops (`IP_TTL`).
    ///
    /// # Errors
    ///
    /// Any error that `setsockopt(2)` reports.
    ///
    /// ```
    /// let listener = uthread::net::TcpListener::bind("127.0.0.1:0")?;
    /// listener.set_ttl(64)?;
    /// assert_eq!(listener.ttl()?, 64);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.socket.inner.set_ttl(ttl)
    }

    /// Returns the time to live of packets, in hops (`IP_TTL`). See the example of
    /// [`set_ttl`](TcpListener::set_ttl).
    ///
    /// # Errors
    ///
    /// Any error that `getsockopt(2)` reports.
    pub fn ttl(&self) -> io::Result<u32> {
        self.socket.inner.ttl()
    }

    /// Returns an error: the kernel does not change `IPV6_V6ONLY` on a bound socket. The method
    /// exists because `std` has it; use [`TcpSocket::set_only_v6`](super::TcpSocket::set_only_v6)
    /// instead.
    ///
    /// # Errors
    ///
    /// `InvalidInput` (`EINVAL`), as the listener is bound.
    ///
    /// ```
    /// use uthread::net::TcpListener;
    ///
    /// // Not every machine has version 6.
    /// if let Ok(listener) = TcpListener::bind("[::1]:0") {
    ///     # #[allow(deprecated)]
    ///     let (set, before) = (listener.set_only_v6(true), listener.only_v6()?);
    ///     assert_eq!(set.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    ///     println!("only version 6: {before}");
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[deprecated = "this option can only be set before the socket is bound"]
    #[allow(deprecated, reason = "the name is std's")]
    pub fn set_only_v6(&self, only_v6: bool) -> io::Result<()> {
        self.socket.inner.set_only_v6(only_v6)
    }

    /// Returns `true` if the listener accepts only IPv6 connections (`IPV6_V6ONLY`). See the
    /// example of [`set_only_v6`](TcpListener::set_only_v6).
    ///
    /// # Errors
    ///
    /// Any error that `getsockopt(2)` reports.
    #[deprecated = "this option can only be set before the socket is bound"]
    #[allow(deprecated, reason = "the name is std's")]
    pub fn only_v6(&self) -> io::Result<bool> {
        self.socket.inner.only_v6()
    }
}

impl_socket!(
    TcpListener,
    std::net::TcpListener,
    "let socket = uthread::net::TcpListener::bind(\"127.0.0.1:0\")?;"
);

/// An endless iterator over the connections of a listener. See the example of
/// [`TcpListener::incoming`].
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<io::Result<TcpStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl FusedIterator for Incoming<'_> {}

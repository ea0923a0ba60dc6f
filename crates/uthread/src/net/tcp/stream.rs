//! A TCP connection.

use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::net::{SocketAddrAny, sockopt};

use super::Keepalive;
use super::keepalive;
use crate::net::methods::{impl_buffer_sizes, impl_read_write, impl_socket, impl_timeouts};
use crate::net::resolve::{ToSocketAddrs, for_each_address};
use crate::net::socket::{self, Inner, Socket};

impl Inner for std::net::TcpStream {
    const IS_TCP_STREAM: bool = true;
}

/// A TCP connection; the counterpart of [`std::net::TcpStream`].
///
/// Reads and writes transfer data directly between the kernel and the caller's buffer.
///
/// ```
/// use std::io::{Read, Write};
/// use uthread::net::{TcpListener, TcpStream};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let mut client = TcpStream::connect(listener.local_addr()?)?;
/// let (mut server, _) = listener.accept()?;
/// client.write_all(b"question")?;
/// let mut question = [0; 8];
/// server.read_exact(&mut question)?;
/// assert_eq!(&question, b"question");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct TcpStream {
    pub(in crate::net) socket: Socket<std::net::TcpStream>,
}

impl TcpStream {
    /// Connects to the first of the addresses that accepts a connection.
    ///
    /// # Errors
    ///
    /// `ConnectionRefused` if nothing listens at the address; any other error that `connect(2)`
    /// reports for the last address, or that the resolver reports.
    ///
    /// ```
    /// use uthread::net::{TcpListener, TcpSocket, TcpStream};
    ///
    /// let deaf = TcpSocket::new_v4()?;
    /// deaf.bind("127.0.0.1:0".parse().unwrap())?; // And does not listen.
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let addresses = [deaf.local_addr()?, listener.local_addr()?];
    /// let stream = TcpStream::connect(&addresses[..])?;
    /// assert_eq!(stream.peer_addr()?, addresses[1]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn connect<A: ToSocketAddrs>(address: A) -> io::Result<TcpStream> {
        for_each_address(address, |address| {
            TcpStream::open(super::socket_for(address)?, address, None)
        })
    }

    /// Connects to `address`, giving up after `timeout`.
    ///
    /// # Errors
    ///
    /// `TimedOut` if there is no answer within `timeout`; `InvalidInput` if `timeout` is zero;
    /// `ConnectionRefused` if nothing listens at `address`; any other error that `connect(2)`
    /// reports.
    ///
    /// ```
    /// use std::time::Duration;
    /// use uthread::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let address = listener.local_addr()?;
    /// let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    /// assert_eq!(stream.peer_addr()?, address);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn connect_timeout(address: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        TcpStream::open_within(super::socket_for(*address)?, *address, timeout)
    }

    /// Connects `socket` to `address`, giving up after `timeout`.
    pub(super) fn open_within(
        socket: OwnedFd,
        address: SocketAddr,
        timeout: Duration,
    ) -> io::Result<TcpStream> {
        if timeout.is_zero() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "cannot set a 0 duration timeout",
            ));
        }
        match TcpStream::open(socket, address, Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "connection timed out",
            )),
            result => result,
        }
    }

    /// Connects `socket` to `address`.
    pub(super) fn open(
        socket: OwnedFd,
        address: SocketAddr,
        timeout: Option<Duration>,
    ) -> io::Result<TcpStream> {
        socket::connect(socket.as_fd(), &SocketAddrAny::from(address), timeout)?;
        Ok(TcpStream::from_fd(socket))
    }

    /// Wraps a descriptor that the kernel has just created.
    pub(crate) fn from_fd(fd: OwnedFd) -> TcpStream {
        TcpStream {
            socket: Socket::new(fd.into()),
        }
    }

    /// Receives data without removing it from the queue: the next read returns the same bytes.
    ///
    /// # Errors
    ///
    /// `WouldBlock` after the read timeout; any other error that `recv(2)` reports.
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// use uthread::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// TcpStream::connect(listener.local_addr()?)?.write_all(b"GET /")?;
    /// let (mut stream, _) = listener.accept()?;
    /// stream.peek(&mut [0])?;
    /// let mut request = String::new();
    /// stream.read_to_string(&mut request)?;
    /// assert_eq!(request, "GET /");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.receive(buffer, true)
    }

    /// Shuts down reading, writing or both. Calls that wait in that direction return.
    ///
    /// # Errors
    ///
    /// `NotConnected` if the peer has closed the connection; any other error that `shutdown(2)`
    /// reports.
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// use uthread::net::{Shutdown, TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let mut client = TcpStream::connect(listener.local_addr()?)?;
    /// client.write_all(b"all there is")?;
    /// client.shutdown(Shutdown::Write)?;
    /// let mut text = String::new();
    /// listener.accept()?.0.read_to_string(&mut text)?; // The client is still there to read.
    /// assert_eq!(text, "all there is");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.inner.shutdown(how)
    }

    /// Returns the address of the peer.
    ///
    /// # Errors
    ///
    /// `NotConnected` if the peer has closed the connection; any other error that `getpeername(2)`
    /// reports.
    ///
    /// ```
    /// # let listener = uthread::net::TcpListener::bind("127.0.0.1:0")?;
    /// let stream = uthread::net::TcpStream::connect(listener.local_addr()?)?;
    /// assert_eq!(stream.peer_addr()?, listener.local_addr()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.inner.peer_addr()
    }

    /// Returns the local address of the connection.
    ///
    /// # Errors
    ///
    /// Any error that `getsockname(2)` reports.
    ///
    /// ```
    /// # let listener = uthread::net::TcpListener::bind("127.0.0.1:0")?;
    /// let stream = uthread::net::TcpStream::connect(listener.local_addr()?)?;
    /// let (_, peer) = listener.accept()?;
    /// assert_eq!(stream.local_addr()?, peer);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.inner.local_addr()
    }

    /// Sets `TCP_NODELAY`, which sends small writes at once instead of collecting them.
    ///
    /// # Errors
    ///
    /// Any error that `setsockopt(2)` reports.
    ///
    /// ```
    /// # let listener = uthread::net::TcpListener::bind("127.0.0.1:0")?;
    /// let stream = uthread::net::TcpStream::connect(listener.local_addr()?)?;
    /// stream.set_nodelay(true)?;
    /// assert!(stream.nodelay()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.socket.inner.set_nodelay(nodelay)
    }

    /// Returns `true` if small writes are sent at once (`TCP_NODELAY`). See the example of
    /// [`set_nodelay`](TcpStream::set_nodelay).
    ///
    /// # Errors
    ///
    /// Any error that `getsockopt(2)` reports.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.socket.inner.nodelay()
    }

    /// Sets the time to live of outgoing packets, in hops (`IP_TTL`).
    ///
    /// # Errors
    ///
    /// Any error that `setsockopt(2)` reports.
    ///
    /// ```
    /// # let listener = uthread::net::TcpListener::bind("127.0.0.1:0")?;
    /// let stream = uthread::net::TcpStream::connect(listener.local_addr()?)?;
    /// stream.set_ttl(64)?;
    /// assert_eq!(stream.ttl()?, 64);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.socket.inner.set_ttl(ttl)
    }

    /// Returns the time to live of outgoing packets, in hops (`IP_TTL`). See the example of
    /// [`set_ttl`](TcpStream::set_ttl).
    ///
    /// # Errors
    ///
    /// Any error that `getsockopt(2)` reports.
    pub fn ttl(&self) -> io::Result<u32> {
        self.socket.inner.ttl()
    }

    /// Sets `TCP_QUICKACK`, which acknowledges received data at once. The kernel may reset the
    /// option at any time. The counterpart in `std` is a method of
    /// `std::os::linux::net::TcpStreamExt`.
    ///
    /// # Errors
    ///
    /// Any error that `setsockopt(2)` reports.
    ///
    /// ```
    /// # let listener = uthread::net::TcpListener::bind("127.0.0.1:0")?;
    /// let stream = uthread::net::TcpStream::connect(listener.local_addr()?)?;
    /// stream.set_quickack(true)?;
    /// assert!(stream.quickack()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_quickack(&self, quickack: bool) -> io::Result<()> {
        Ok(sockopt::set_tcp_quickack(self, quickack)?)
    }

    /// Returns `true` if received data is acknowledged at once (`TCP_QUICKACK`). See the example of
    /// [`set_quickack`](TcpStream::set_quickack).
    ///
    /// # Errors
    ///
    /// Any error that `getsockopt(2)` reports.
    pub fn quickack(&self) -> io::Result<bool> {
        Ok(sockopt::tcp_quickack(self)?)
    }

    /// Sets `SO_LINGER`: how closing the connection treats unsent data.
    ///
    /// With `None`, the default, dropping the last handle returns at once, and the kernel sends the
    /// data in the background. With a timeout of zero, the data is discarded, and the peer sees a
    /// reset. With any other timeout, the drop blocks until the data is sent or the time has
    /// passed. This would also block the worker, so drop the stream within
    /// [`blocking`](crate::blocking). The timeout is rounded up to whole seconds.
    ///
    /// # Errors
    ///
    /// Any error that `setsockopt(2)` reports.
    ///
    /// ```
    /// use std::{io::{ErrorKind, Read}, time::Duration};
    /// use uthread::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let mut stream = TcpStream::connect(listener.local_addr()?)?;
    /// let (peer, _) = listener.accept()?;
    /// peer.set_linger(Some(Duration::ZERO))?;
    /// assert_eq!(peer.linger()?, Some(Duration::ZERO));
    /// drop(peer);
    /// let error = stream.read(&mut [0]).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        Ok(sockopt::set_socket_linger(self, linger)?)
    }

    /// Returns the linger time (`SO_LINGER`). See the example of
    /// [`set_linger`](TcpStream::set_linger).
    ///
    /// # Errors
    ///
    /// Any error that `getsockopt(2)` reports.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        Ok(sockopt::socket_linger(self)?)
    }

    /// Enables keepalive probes, or disables them with `None`. If the peer leaves all probes
    /// unanswered, waiting calls fail with `TimedOut`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` (`EINVAL`) if a time is zero or more than 32767 s, or if the number of probes
    /// is zero or more than 127; any other error that `setsockopt(2)` reports.
    ///
    /// ```
    /// use std::time::Duration;
    /// use uthread::net::Keepalive;
    ///
    /// # let listener = uthread::net::TcpListener::bind("127.0.0.1:0")?;
    /// let stream = uthread::net::TcpStream::connect(listener.local_addr()?)?;
    /// let keepalive = Keepalive { idle: Duration::from_secs(60), ..Keepalive::default() };
    /// stream.set_keepalive(Some(keepalive))?;
    /// assert_eq!(stream.keepalive()?, Some(keepalive));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_keepalive(&self, keepalive: Option<Keepalive>) -> io::Result<()> {
        keepalive::set(self.as_fd(), keepalive)
    }

    /// Returns the keepalive settings, or `None` if probes are disabled. See the example of
    /// [`set_keepalive`](TcpStream::set_keepalive).
    ///
    /// # Errors
    ///
    /// Any error that `getsockopt(2)` reports.
    pub fn keepalive(&self) -> io::Result<Option<Keepalive>> {
        keepalive::get(self.as_fd())
    }
}

impl_socket!(
    TcpStream,
    std::net::TcpStream,
    "# let listener = uthread::net::TcpListener::bind(\"127.0.0.1:0\")?;
let socket = uthread::net::TcpStream::connect(listener.local_addr()?)?;"
);
impl_timeouts!(
    TcpStream,
    "# let listener = uthread::net::TcpListener::bind(\"127.0.0.1:0\")?;
let socket = uthread::net::TcpStream::connect(listener.local_addr()?)?;"
);
impl_buffer_sizes!(
    TcpStream,
    "# let listener = uthread::net::TcpListener::bind(\"127.0.0.1:0\")?;
let socket = uthread::net::TcpStream::connect(listener.local_addr()?)?;"
);
impl_read_write!(TcpStream);

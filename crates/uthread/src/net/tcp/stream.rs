//! A connection.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::net::{SocketAddrAny, sockopt};

use super::Keepalive;
use super::keepalive;
use crate::net::methods::{impl_buffer_sizes, impl_socket, impl_stream, impl_timeouts};
use crate::net::resolve::{ToSocketAddrs, for_each_address};
use crate::net::socket::{self, Inner, Socket};

impl Inner for std::net::TcpStream {
    const DRAINS: bool = true;
}

/// A TCP connection, as [`std::net::TcpStream`].
///
/// Reads and writes go straight between the kernel and the caller's buffer.
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
    /// Opens a connection to the first of the addresses that accepts one.
    ///
    /// # Errors
    ///
    /// The last address's, or the resolver's.
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

    /// The same for one address, at most for `timeout`.
    ///
    /// # Errors
    ///
    /// `TimedOut` after the timeout, `InvalidInput` for a timeout of zero; the kernel's.
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

    /// Connects a socket, at most for `timeout`.
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

    /// Connects a socket.
    pub(super) fn open(
        socket: OwnedFd,
        address: SocketAddr,
        timeout: Option<Duration>,
    ) -> io::Result<TcpStream> {
        socket::connect(socket.as_fd(), &SocketAddrAny::from(address), timeout)?;
        Ok(TcpStream::from_fd(socket))
    }

    /// One that the kernel has just made.
    pub(crate) fn from_fd(fd: OwnedFd) -> TcpStream {
        TcpStream {
            socket: Socket::new(fd.into()),
        }
    }

    /// Receives without removing from the queue, so that the next read gets the same bytes.
    ///
    /// # Errors
    ///
    /// As reading.
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

    /// Closes one or both directions; calls waiting in them return.
    ///
    /// # Errors
    ///
    /// The kernel's: `ENOTCONN` where the peer has gone.
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

    /// The address of the other end.
    ///
    /// # Errors
    ///
    /// The kernel's.
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

    /// The address of this end.
    ///
    /// # Errors
    ///
    /// The kernel's.
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

    /// Whether small writes are sent at once (`TCP_NODELAY`).
    ///
    /// # Errors
    ///
    /// The kernel's.
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

    /// Whether small writes are sent at once, as in the example of [`set_nodelay`](TcpStream::set_nodelay).
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.socket.inner.nodelay()
    }

    /// Sets the time to live of outgoing packets, in hops.
    ///
    /// # Errors
    ///
    /// The kernel's.
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

    /// The time to live of outgoing packets, in hops, as in the example of [`set_ttl`](TcpStream::set_ttl).
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn ttl(&self) -> io::Result<u32> {
        self.socket.inner.ttl()
    }

    /// Whether received data is acknowledged at once (`TCP_QUICKACK`); as of
    /// `std::os::linux::net::TcpStreamExt`. The kernel may take it back.
    ///
    /// # Errors
    ///
    /// The kernel's.
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

    /// Whether received data is acknowledged at once.
    /// See the example of [`set_quickack`](TcpStream::set_quickack).
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn quickack(&self) -> io::Result<bool> {
        Ok(sockopt::tcp_quickack(self)?)
    }

    /// What becomes of bytes not yet sent when the last handle is dropped (`SO_LINGER`); the kernel counts
    /// whole seconds, rounded up. `None`, the default: they are sent meanwhile. Zero: they are lost, and the
    /// peer sees a reset. Longer: the drop itself waits so long for them, in the kernel; then drop it in
    /// [`blocking`](crate::blocking), or it keeps the worker.
    ///
    /// # Errors
    ///
    /// The kernel's.
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

    /// What [`set_linger`](TcpStream::set_linger) has set; see the example there.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        Ok(sockopt::socket_linger(self)?)
    }

    /// Has the kernel find out whether a silent peer is still there, or stop doing so. A peer that is gone
    /// ends the calls that wait with `ETIMEDOUT`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for times of more than 32767 s or zero, and more than 127 probes or zero; the kernel's.
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

    /// What [`set_keepalive`](TcpStream::set_keepalive) has set; see the example there.
    ///
    /// # Errors
    ///
    /// The kernel's.
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
impl_stream!(TcpStream);

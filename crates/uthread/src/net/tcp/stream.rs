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
pub struct TcpStream {
    pub(in crate::net) socket: Socket<std::net::TcpStream>,
}

impl TcpStream {
    /// Opens a connection to the first of the addresses that accepts one.
    ///
    /// # Errors
    ///
    /// The last address's, or the resolver's.
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
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.receive(buffer, true)
    }

    /// Closes one or both directions; calls waiting in them return.
    ///
    /// # Errors
    ///
    /// The kernel's: `ENOTCONN` where the peer has gone.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.inner.shutdown(how)
    }

    /// The address of the other end.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.inner.peer_addr()
    }

    /// The address of this end.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.inner.local_addr()
    }

    /// Whether small writes are sent at once (`TCP_NODELAY`).
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.socket.inner.set_nodelay(nodelay)
    }

    /// Whether small writes are sent at once.
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
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.socket.inner.set_ttl(ttl)
    }

    /// The time to live of outgoing packets, in hops.
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
    /// drop(peer);
    /// let error = stream.read(&mut [0]).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        Ok(sockopt::set_socket_linger(self, linger)?)
    }

    /// What [`set_linger`](TcpStream::set_linger) has set.
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

    /// What [`set_keepalive`](TcpStream::set_keepalive) has set.
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

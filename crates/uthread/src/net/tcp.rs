//! TCP: a listener and its streams.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketAddrAny, SocketType};

use super::methods::{impl_socket, impl_stream, impl_timeouts};
use super::resolve::{ToSocketAddrs, for_each_address};
use super::socket::{self, Inner, Socket};
use crate::op::net::SOCKET_FLAGS;

impl Inner for std::net::TcpStream {
    const DRAINS: bool = true;
}

impl Inner for std::net::TcpListener {
    const DRAINS: bool = false;
}

/// A TCP connection, as [`std::net::TcpStream`].
///
/// Reads and writes go straight between the kernel and the caller's buffer.
pub struct TcpStream {
    pub(super) socket: Socket<std::net::TcpStream>,
}

impl TcpStream {
    /// Opens a connection to the first of the addresses that accepts one.
    ///
    /// # Errors
    ///
    /// The last address's, or the resolver's.
    pub fn connect<A: ToSocketAddrs>(address: A) -> io::Result<TcpStream> {
        for_each_address(address, |address| connect(address, None))
    }

    /// The same for one address, at most for `timeout`.
    ///
    /// # Errors
    ///
    /// `TimedOut` after the timeout, `InvalidInput` for a timeout of zero; the kernel's.
    pub fn connect_timeout(address: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        if timeout.is_zero() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "cannot set a 0 duration timeout",
            ));
        }
        match connect(*address, Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "connection timed out",
            )),
            result => result,
        }
    }

    fn from_fd(fd: OwnedFd) -> TcpStream {
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
}

fn connect(address: SocketAddr, timeout: Option<Duration>) -> io::Result<TcpStream> {
    let socket = socket_for(address)?;
    socket::connect(socket.as_fd(), &SocketAddrAny::from(address), timeout)?;
    Ok(TcpStream::from_fd(socket))
}

fn socket_for(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SOCKET_FLAGS, None)?;
    Ok(socket)
}

impl_socket!(
    TcpStream,
    std::net::TcpStream,
    "uthread::net::TcpStream::connect(std::net::TcpListener::bind(\"127.0.0.1:0\")?.local_addr()?)?"
);
impl_timeouts!(
    TcpStream,
    "uthread::net::TcpStream::connect(std::net::TcpListener::bind(\"127.0.0.1:0\")?.local_addr()?)?"
);
impl_stream!(TcpStream);

/// A socket that accepts connections, as [`std::net::TcpListener`].
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

impl TcpListener {
    /// Listens at the first of the addresses that can be bound; port 0 asks for a free one.
    ///
    /// # Errors
    ///
    /// The last address's: `EADDRINUSE`, `EACCES`; or the resolver's.
    pub fn bind<A: ToSocketAddrs>(address: A) -> io::Result<TcpListener> {
        for_each_address(address, |address| {
            // Binding and listening never wait.
            let inner = std::net::TcpListener::bind(address)?;
            Ok(TcpListener {
                socket: Socket::new(inner),
            })
        })
    }

    /// Waits for a connection.
    ///
    /// # Errors
    ///
    /// The kernel's: `EMFILE` and `ENFILE` without a free descriptor, `ECONNABORTED` where the
    /// peer has gone; the listener stays usable.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (fd, peer) = self.socket.accept()?;
        Ok((TcpStream::from_fd(fd), peer.to_socket_addr()?))
    }

    /// The connections as they come, without end.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// The address it listens at.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.inner.local_addr()
    }

    /// Sets the time to live of packets of accepted connections, in hops.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.socket.inner.set_ttl(ttl)
    }

    /// The time to live of packets, in hops.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn ttl(&self) -> io::Result<u32> {
        self.socket.inner.ttl()
    }
}

impl_socket!(
    TcpListener,
    std::net::TcpListener,
    "uthread::net::TcpListener::bind(\"127.0.0.1:0\")?"
);

/// The connections of a listener; see [`TcpListener::incoming`].
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

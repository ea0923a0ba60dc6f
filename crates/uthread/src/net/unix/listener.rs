//! A Unix stream listener.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::SocketAddr;
use std::path::Path;

use super::{UnixStream, address};
use crate::net::methods::impl_socket;
use crate::net::socket::{Inner, Socket};

impl Inner for std::os::unix::net::UnixListener {
    const IS_TCP_STREAM: bool = false;
}

/// A Unix socket that accepts connections from processes on this machine; the counterpart of
/// [`std::os::unix::net::UnixListener`].
///
/// ```
/// use std::io::{Read, Write};
/// use uthread::net::{UnixListener, UnixStream};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("socket");
/// let listener = UnixListener::bind(&path)?;
/// let server = uthread::spawn(move || {
///     let (mut stream, _) = listener.accept()?;
///     stream.write_all(b"welcome")
/// });
/// let mut text = String::new();
/// UnixStream::connect(&path)?.read_to_string(&mut text)?;
/// assert_eq!(text, "welcome");
/// server.join().unwrap()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct UnixListener {
    socket: Socket<std::os::unix::net::UnixListener>,
}

impl UnixListener {
    /// Creates a listener bound to `path`. This creates a file, which remains after the listener is
    /// dropped. The kernel queues as many connections that are not yet accepted as the sysctl
    /// `net.core.somaxconn` allows; further clients wait.
    ///
    /// # Errors
    ///
    /// `AddrInUse` if the file exists; `InvalidInput` if the path is too long for an address; any
    /// other error that `socket(2)`, `bind(2)` or `listen(2)` reports.
    ///
    /// ```
    /// use uthread::net::UnixListener;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("socket");
    /// let listener = UnixListener::bind(&path)?;
    /// assert_eq!(listener.local_addr()?.as_pathname(), Some(&*path));
    /// drop(listener);
    /// assert!(UnixListener::bind(&path).is_err(), "the file has stayed");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixListener> {
        UnixListener::bind_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Creates a listener bound to `address`, which may be an abstract name. See the example of
    /// [`UnixStream::connect_addr`].
    ///
    /// # Errors
    ///
    /// The errors of [`bind`](UnixListener::bind).
    pub fn bind_addr(address: &SocketAddr) -> io::Result<UnixListener> {
        let inner = address::bind(address, std::os::unix::net::UnixListener::bind_addr)?;
        Ok(UnixListener {
            socket: Socket::new(inner),
        })
    }

    pub(in crate::net) fn inherit(fd: OwnedFd) -> UnixListener {
        UnixListener {
            socket: Socket::inherit(fd.into()),
        }
    }

    /// Waits for a connection and accepts it. Returns the stream and the peer's address.
    ///
    /// # Errors
    ///
    /// `EMFILE` or `ENFILE` if there is no free descriptor; any other error that `accept(2)`
    /// reports. The listener remains usable.
    ///
    /// ```
    /// use uthread::net::{UnixListener, UnixStream};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("socket");
    /// let listener = UnixListener::bind(&path)?;
    /// let _client = UnixStream::connect(&path)?;
    /// let (stream, peer) = listener.accept()?;
    /// assert!(peer.is_unnamed() && stream.peer_cred()?.pid.is_some());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (fd, peer) = self.socket.accept()?;
        Ok((UnixStream::from_fd(fd), address::decode(&peer)?))
    }

    /// Returns an endless iterator over incoming connections.
    ///
    /// ```
    /// use uthread::net::{UnixListener, UnixStream};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("socket");
    /// let listener = UnixListener::bind(&path)?;
    /// let _client = UnixStream::connect(&path)?;
    /// for stream in listener.incoming().take(1) {
    ///     println!("from the user {}", stream?.peer_cred()?.uid);
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// Stops listening, for all handles to this socket. Current and later calls that wait for a
    /// connection fail with `InvalidInput` (`EINVAL`). Queued connections are reset when the last
    /// handle is dropped.
    ///
    /// # Errors
    ///
    /// Any error that `shutdown(2)` reports.
    ///
    /// ```
    /// use uthread::net::UnixListener;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let listener = UnixListener::bind(directory.path().join("socket"))?;
    /// listener.shutdown()?;
    /// assert!(listener.accept().is_err());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn shutdown(&self) -> io::Result<()> {
        self.socket.stop_listening()
    }

    /// Returns the local address of the listener. See the example of [`bind`](UnixListener::bind).
    ///
    /// # Errors
    ///
    /// Any error that `getsockname(2)` reports.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.inner.local_addr()
    }
}

impl_socket!(
    UnixListener,
    std::os::unix::net::UnixListener,
    "let directory = tempfile::tempdir()?;
let socket = uthread::net::UnixListener::bind(directory.path().join(\"socket\"))?;"
);

impl<'a> IntoIterator for &'a UnixListener {
    type Item = io::Result<UnixStream>;
    type IntoIter = Incoming<'a>;

    fn into_iter(self) -> Incoming<'a> {
        self.incoming()
    }
}

/// An endless iterator over the connections of a listener. See the example of
/// [`UnixListener::incoming`].
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a UnixListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<UnixStream>;

    fn next(&mut self) -> Option<io::Result<UnixStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

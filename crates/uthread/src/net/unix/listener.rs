//! A socket that accepts connections within this machine.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::SocketAddr;
use std::path::Path;

use super::{UnixStream, address};
use crate::net::methods::impl_socket;
use crate::net::socket::{Inner, Socket};

impl Inner for std::os::unix::net::UnixListener {
    const DRAINS: bool = false;
}

/// A socket that accepts connections of processes of this machine, as [`std::os::unix::net::UnixListener`].
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
    /// Listens at a path, where it makes a file that stays.
    ///
    /// # Errors
    ///
    /// The kernel's: `EADDRINUSE` where there is a file; `InvalidInput` for a path that is too long for an
    /// address.
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

    /// Listens at an address, which may be an abstract name. See the example of [`UnixStream::connect_addr`].
    ///
    /// # Errors
    ///
    /// As [`bind`](UnixListener::bind).
    pub fn bind_addr(address: &SocketAddr) -> io::Result<UnixListener> {
        let inner = address::bind(address, std::os::unix::net::UnixListener::bind_addr)?;
        Ok(UnixListener {
            socket: Socket::new(inner),
        })
    }

    /// Waits for a connection.
    ///
    /// # Errors
    ///
    /// The kernel's: `EMFILE` and `ENFILE` without a free descriptor; the listener stays usable.
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

    /// The connections as they come, without end.
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

    /// Stops listening, for all handles: calls that wait for a connection, and later ones, fail with
    /// `EINVAL`; who is in the queue is turned away when the last handle is dropped.
    ///
    /// # Errors
    ///
    /// The kernel's.
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

    /// The address it listens at, as in the example of [`bind`](UnixListener::bind).
    ///
    /// # Errors
    ///
    /// The kernel's.
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

/// The connections of a listener; see the example of [`UnixListener::incoming`].
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

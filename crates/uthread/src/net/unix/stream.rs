//! A Unix stream.

use std::fmt;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType};

use super::fds::{self, ReceivedFds};
use super::{UCred, address, credentials};
use crate::net::methods::{impl_buffer_sizes, impl_read_write, impl_socket, impl_timeouts};
use crate::net::socket::{self, Inner, Socket};
use crate::op::net::SOCKET_FLAGS;
use crate::sched::caller::{self, cancellation, wait};

/// Pause between attempts to connect while the listener's queue is full and the driver cannot wait
/// for room. It is about the time in which a busy listener accepts, and long enough not to slow the
/// listener down.
const FULL_PAUSE: Duration = Duration::from_millis(2);

impl Inner for std::os::unix::net::UnixStream {
    const IS_TCP_STREAM: bool = false;
}

/// A stream to a process on this machine; the counterpart of [`std::os::unix::net::UnixStream`].
///
/// ```
/// use std::io::{Read, Write};
/// use uthread::net::UnixStream;
///
/// let (mut ours, mut theirs) = UnixStream::pair()?;
/// ours.write_all(b"hello")?;
/// drop(ours);
/// let mut text = String::new();
/// theirs.read_to_string(&mut text)?;
/// assert_eq!(text, "hello");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct UnixStream {
    pub(in crate::net) socket: Socket<std::os::unix::net::UnixStream>,
}

impl UnixStream {
    /// Connects to the listener bound to `path`, waiting while its queue is full.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such file; `ConnectionRefused` if nothing listens at it;
    /// `InvalidInput` if the path is too long for an address; any other error that `connect(2)`
    /// reports.
    ///
    /// ```
    /// use uthread::net::{UnixListener, UnixStream};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("socket");
    /// assert_eq!(UnixStream::connect(&path).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    /// let _listener = UnixListener::bind(&path)?;
    /// let stream = UnixStream::connect(&path)?;
    /// assert_eq!(stream.peer_addr()?.as_pathname(), Some(&*path));
    /// assert!(stream.local_addr()?.is_unnamed());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn connect<P: AsRef<Path>>(path: P) -> io::Result<UnixStream> {
        UnixStream::connect_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Connects to the listener bound to `address`, which may be an abstract name. Waits while its
    /// queue is full.
    ///
    /// # Errors
    ///
    /// The errors of [`connect`](UnixStream::connect).
    ///
    /// ```
    /// use std::os::linux::net::SocketAddrExt;
    /// use uthread::net::{UnixListener, UnixStream, unix::SocketAddr};
    ///
    /// let name = format!("an example of {}", std::process::id());
    /// let address = SocketAddr::from_abstract_name(name)?;
    /// let listener = UnixListener::bind_addr(&address)?;
    /// let stream = UnixStream::connect_addr(&address)?;
    /// # drop((listener, stream));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn connect_addr(address: &SocketAddr) -> io::Result<UnixStream> {
        let address = address::encode(address)?;
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let fd = rustix::net::socket_with(family, kind, SOCKET_FLAGS, None)?;
        loop {
            match socket::connect(fd.as_fd(), &address, None) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => pause()?,
                result => return result.map(|()| UnixStream::from_fd(fd)),
            }
        }
    }

    /// Creates two streams that are connected to each other. See the example of [`UnixStream`].
    ///
    /// # Errors
    ///
    /// `EMFILE` or `ENFILE` if there is no free descriptor; any other error that `socketpair(2)`
    /// reports.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (one, other) = std::os::unix::net::UnixStream::pair()?;
        let new = |inner| UnixStream {
            socket: Socket::new(inner),
        };
        Ok((new(one), new(other)))
    }

    /// Wraps a descriptor that the kernel has just created.
    pub(crate) fn from_fd(fd: OwnedFd) -> UnixStream {
        UnixStream {
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
    /// use uthread::net::UnixStream;
    ///
    /// let (mut ours, mut theirs) = UnixStream::pair()?;
    /// ours.write_all(b"hello")?;
    /// assert_eq!(theirs.peek(&mut [0; 100])?, 5);
    /// assert_eq!(theirs.read(&mut [0; 100])?, 5);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.receive(buffer, true)
    }

    /// Sends bytes, and descriptors with the first byte. Returns the number of bytes sent.
    ///
    /// If it is smaller than the length of `buffer`, the descriptors have been sent nevertheless:
    /// send the rest with [`Write`](std::io::Write).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for more than [`FDS_MAX`](super::FDS_MAX) descriptors, or for descriptors
    /// without any byte; `WouldBlock` after the write timeout; any other error that `sendmsg(2)`
    /// reports.
    ///
    /// ```
    /// use std::{fs::File, io::Read, os::fd::AsFd};
    /// use uthread::net::UnixStream;
    ///
    /// let (ours, theirs) = UnixStream::pair()?;
    /// let file = File::open("Cargo.toml")?;
    /// ours.send_fds(b"a file", &[file.as_fd()])?;
    /// drop(file);
    ///
    /// let mut buffer = [0; 100];
    /// let mut received = theirs.recv_fds(&mut buffer, 1)?;
    /// assert_eq!(&buffer[..received.bytes], b"a file");
    /// let mut text = String::new();
    /// File::from(received.fds.remove(0)).read_to_string(&mut text)?;
    /// assert!(text.starts_with("[package]"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn send_fds(&self, buffer: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        if buffer.is_empty() && !fds.is_empty() {
            let why = "a stream can send descriptors only together with at least one byte";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        fds::send(buffer, fds, |message| self.socket.send_message(message))
    }

    /// Receives bytes and at most `fds_max` descriptors sent with them. A plain
    /// [`Read`](std::io::Read) would close the descriptors. See the example of
    /// [`send_fds`](UnixStream::send_fds).
    ///
    /// # Errors
    ///
    /// `WouldBlock` after the read timeout; any other error that `recvmsg(2)` reports. Losing
    /// descriptors is not an error: see [`ReceivedFds::fds_lost`].
    pub fn recv_fds(&self, buffer: &mut [u8], fds_max: usize) -> io::Result<ReceivedFds> {
        fds::receive(&self.socket, buffer, fds_max)
    }

    /// Returns the credentials of the peer process at the time at which it connected or started to
    /// listen. See the example of [`UCred`].
    ///
    /// # Errors
    ///
    /// Any error that `getsockopt(2)` reports for `SO_PEERCRED`.
    pub fn peer_cred(&self) -> io::Result<UCred> {
        credentials::of_peer(self.as_fd())
    }

    /// Shuts down reading, writing or both. Calls that wait in that direction return.
    ///
    /// # Errors
    ///
    /// `NotConnected` if the stream is not connected; any other error that `shutdown(2)` reports.
    ///
    /// ```
    /// use std::io::Read;
    /// use uthread::net::{Shutdown, UnixStream};
    ///
    /// let (ours, mut theirs) = UnixStream::pair()?;
    /// ours.shutdown(Shutdown::Write)?;
    /// assert_eq!(theirs.read(&mut [0])?, 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.inner.shutdown(how)
    }

    /// Returns the address of the peer. See the example of [`connect`](UnixStream::connect).
    ///
    /// # Errors
    ///
    /// `NotConnected` if the stream is not connected; any other error that `getpeername(2)`
    /// reports.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.inner.peer_addr()
    }

    /// Returns the local address of the stream. See the example of
    /// [`connect`](UnixStream::connect).
    ///
    /// # Errors
    ///
    /// Any error that `getsockname(2)` reports.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.inner.local_addr()
    }
}

/// Pauses for `FULL_PAUSE`.
fn pause() -> io::Result<()> {
    let deadline = caller::after(caller::now(), FULL_PAUSE);
    while caller::now() < deadline {
        cancellation::refuse_if_cancelled()?;
        wait::park_deadline(deadline);
    }
    Ok(())
}

impl_socket!(
    UnixStream,
    std::os::unix::net::UnixStream,
    "let (socket, _) = uthread::net::UnixStream::pair()?;"
);
impl_timeouts!(
    UnixStream,
    "let (socket, _) = uthread::net::UnixStream::pair()?;"
);
impl_buffer_sizes!(
    UnixStream,
    "let (socket, _) = uthread::net::UnixStream::pair()?;"
);
impl_read_write!(UnixStream);

//! A connection within this machine.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType};

use super::fds::{self, ReceivedFds};
use super::{UCred, address, credentials};
use crate::net::methods::{impl_buffer_sizes, impl_socket, impl_stream, impl_timeouts};
use crate::net::socket::{self, Inner, Socket};
use crate::op::net::SOCKET_FLAGS;
use crate::sched::wait;

/// The pause before the next attempt where a listener's queue is full and the driver cannot wait for room: as
/// short as a listener takes that is busy, and long enough not to keep it from that.
const FULL_PAUSE: Duration = Duration::from_millis(2);

impl Inner for std::os::unix::net::UnixStream {
    const DRAINS: bool = false;
}

/// A stream to a process of this machine, as [`std::os::unix::net::UnixStream`].
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
    /// Connects to the listener at a path; waits while its queue is full.
    ///
    /// # Errors
    ///
    /// The kernel's: `ENOENT`, `ECONNREFUSED` where nobody listens any more; `InvalidInput` for a path that
    /// is too long for an address.
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

    /// The same by an address, which may be an abstract name.
    ///
    /// # Errors
    ///
    /// As [`connect`](UnixStream::connect).
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

    /// Two ends of a connection, as in the example of [`UnixStream`].
    ///
    /// # Errors
    ///
    /// The kernel's: `EMFILE`.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (one, other) = std::os::unix::net::UnixStream::pair()?;
        let new = |inner| UnixStream {
            socket: Socket::new(inner),
        };
        Ok((new(one), new(other)))
    }

    /// One that the kernel has just made.
    pub(crate) fn from_fd(fd: OwnedFd) -> UnixStream {
        UnixStream {
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

    /// Sends bytes, and with the first of them descriptors. Where fewer bytes are sent than there are, the
    /// descriptors are sent: go on with [`Write`].
    ///
    /// # Errors
    ///
    /// `EINVAL` for more than [`FDS_MAX`](super::FDS_MAX), `InvalidInput` for descriptors without any byte;
    /// else as writing.
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
            let why = "on a stream, descriptors travel with a byte";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        fds::send(buffer, fds, |message| self.socket.send_message(message))
    }

    /// Receives bytes, and at most `fds_max` descriptors that came with them. A [`Read`] would close those.
    /// See the example of [`send_fds`](UnixStream::send_fds).
    ///
    /// # Errors
    ///
    /// As reading. That descriptors are lost is no error, and told by the result.
    pub fn recv_fds(&self, buffer: &mut [u8], fds_max: usize) -> io::Result<ReceivedFds> {
        fds::receive(&self.socket, buffer, fds_max)
    }

    /// The process at the other end, as it was when it connected or listened. See the example of [`UCred`].
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn peer_cred(&self) -> io::Result<UCred> {
        credentials::of_peer(self.as_fd())
    }

    /// Closes one or both directions; calls waiting in them return.
    ///
    /// # Errors
    ///
    /// The kernel's: `ENOTCONN`.
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

    /// The address of the other end, as in the example of [`connect`](UnixStream::connect).
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.inner.peer_addr()
    }

    /// The address of this end, as in the example of [`connect`](UnixStream::connect).
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.inner.local_addr()
    }
}

/// Lets time pass.
fn pause() -> io::Result<()> {
    let deadline = wait::after(wait::now(), FULL_PAUSE);
    while wait::now() < deadline {
        wait::refuse_if_cancelled()?;
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
impl_stream!(UnixStream);

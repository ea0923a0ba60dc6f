//! Receiving from a connection through one multishot request.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use super::buffers::{BufferRing, Bytes, Chunk};
use super::repeated::{Next, Repeated};
use crate::op::Operation;
use crate::op::multishot::MultishotOperation;
use crate::op::net::{self, SocketOperation};
use crate::resource::buffer_group::{BufferGroup, Filled};
use crate::resource::descriptor::{Descriptor, FdState};
use crate::sched::caller::{self, wait};
use crate::sched::features::multishot_queue::Decode;

/// Returns an iterator over the chunks that arrive on a stream, received through a single multishot
/// request, until the peer has shut down writing. Without a ring, or if the kernel does not support
/// the request, each chunk is received by a call of its own.
///
/// The kernel receives data before it is asked for, into `buffers`. When 16 chunks are queued, the
/// request is cancelled; it is submitted again once they are taken, so flow control makes the peer
/// of a slow reader wait. If no buffer is free, a chunk is received into memory of its own.
///
/// The iterator waits even if the stream is non-blocking.
///
/// Do not read from the stream by other means while the iterator exists: which reader receives
/// which bytes is unspecified.
///
/// # Errors
///
/// The items are `WouldBlock` after the [timeout](Receive::set_timeout), which loses no data;
/// `ECANCELED` if the fiber is cancelled; and any other error that `recv(2)` reports.
///
/// ```
/// use std::io::Write;
/// use uthread::{net::{TcpListener, TcpStream}, ring};
///
/// uthread::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let mut client = TcpStream::connect(listener.local_addr()?)?;
///     let (server, _) = listener.accept()?;
///     client.write_all(b"hello")?;
///     drop(client);
///     let buffers = ring::BufferRing::new(8, 4096)?;
///     let mut text = Vec::new();
///     for chunk in ring::receive(&server, &buffers) {
///         text.extend_from_slice(&chunk?);
///     }
///     assert_eq!(text, b"hello");
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn receive<'a, S: AsFd>(socket: &'a S, buffers: &'a BufferRing) -> Receive<'a> {
    Receive {
        socket: socket.as_fd(),
        fd_state: FdState::new(),
        buffers,
        timeout: None,
        repeated: buffers
            .group()
            .map(|group| Repeated::new(Received(Arc::clone(group)))),
        phase: Phase::Open,
    }
}

/// An iterator over the chunks that arrive on a stream. See the example of [`receive`].
///
/// Dropping it cancels the request and discards received chunks that were not taken. To take them,
/// call [`stop`](Receive::stop) first.
///
/// It is not `Send`, as the request belongs to the worker of its fiber:
///
/// ```compile_fail,E0277
/// # let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
/// let buffers = uthread::ring::BufferRing::new(8, 4096).unwrap();
/// let mut chunks = uthread::ring::receive(&socket, &buffers);
/// uthread::scope(|scope| {
///     scope.spawn(move || chunks.next());
/// });
/// ```
///
/// It borrows the socket and the buffers:
///
/// ```compile_fail,E0505
/// # let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
/// let buffers = uthread::ring::BufferRing::new(8, 4096).unwrap();
/// let mut chunks = uthread::ring::receive(&socket, &buffers);
/// drop(socket);
/// chunks.next();
/// ```
pub struct Receive<'a> {
    socket: BorrowedFd<'a>,
    fd_state: FdState,
    buffers: &'a BufferRing,
    timeout: Option<Duration>,
    /// `None` if the buffers do not belong to the ring of this worker.
    repeated: Option<Repeated<Received>>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// Stopped: no more data is requested.
    Stopped,
    /// The peer has shut down writing, or all data was taken after a stop.
    Over,
}

impl Receive<'_> {
    /// Sets the timeout for each chunk. `None`, the default, waits without limit.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `timeout` is zero.
    ///
    /// ```
    /// use std::io::ErrorKind;
    /// use std::os::unix::net::UnixStream;
    /// use std::time::Duration;
    /// use uthread::ring;
    ///
    /// uthread::run(|| {
    ///     let (socket, _silent) = UnixStream::pair()?;
    ///     let buffers = ring::BufferRing::new(8, 4096)?;
    ///     let mut chunks = ring::receive(&socket, &buffers);
    ///     chunks.set_timeout(Some(Duration::from_millis(1)))?;
    ///     let nothing = chunks.next().unwrap();
    ///     assert_eq!(nothing.unwrap_err().kind(), ErrorKind::WouldBlock);
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if timeout == Some(Duration::ZERO) {
            let what = "cannot set a 0 duration timeout";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        self.timeout = timeout;
        Ok(())
    }

    /// Cancels the request and returns when the kernel receives no more data. The chunks received
    /// before can still be taken; after them the iterator returns `None`. Later data remains in the
    /// socket.
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// use std::os::unix::net::UnixStream;
    /// use uthread::ring;
    ///
    /// uthread::run(|| {
    ///     let (mut socket, mut peer) = UnixStream::pair()?;
    ///     let buffers = ring::BufferRing::new(8, 4096)?;
    ///     let mut chunks = ring::receive(&socket, &buffers);
    ///     peer.write_all(b"header")?;
    ///     assert_eq!(&*chunks.next().unwrap()?, b"header");
    ///     chunks.stop();
    ///     assert!(chunks.next().is_none());
    ///     peer.write_all(b"body")?;
    ///     let mut body = [0; 4];
    ///     socket.read_exact(&mut body)?;
    ///     assert_eq!(&body, b"body");
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn stop(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::Stopped;
        }
        if let Some(repeated) = &mut self.repeated {
            repeated.end();
        }
    }

    fn next_open(&mut self) -> Option<io::Result<Chunk>> {
        let Some(repeated) = &mut self.repeated else {
            return self.receive_once();
        };
        let deadline = self
            .timeout
            .map(|timeout| caller::after(caller::now(), timeout));
        let socket = Descriptor {
            fd: self.socket,
            state: &self.fd_state,
        };
        let operation = || {
            let group = self.buffers.group()?;
            Some(Operation::Multishot(MultishotOperation::Receive {
                socket,
                group,
            }))
        };
        match repeated.next(operation, deadline) {
            Next::Item(Some(filled)) => Some(Ok(Chunk(Bytes::Lent(filled)))),
            Next::Item(None) => None,
            Next::Single => self.receive_once(),
            // All buffers are in use: this chunk is received into memory of its own.
            Next::Failed(error) if Errno::from_io_error(&error) == Some(Errno::NOBUFS) => {
                self.receive_once()
            }
            Next::Failed(error) => Some(Err(error)),
        }
    }

    fn receive_once(&self) -> Option<io::Result<Chunk>> {
        let mut bytes = vec![0; self.buffers.size()];
        let mut operation = Operation::Socket(SocketOperation::Receive(net::Receive {
            socket: Descriptor {
                fd: self.socket,
                state: &self.fd_state,
            },
            buffer: &mut bytes,
            peek: false,
            drains: false,
        }));
        match wait::perform(&mut operation, self.timeout) {
            Ok(0) => None,
            Ok(count) => {
                bytes.truncate(count as usize);
                Some(Ok(Chunk(Bytes::Own(bytes))))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

impl Iterator for Receive<'_> {
    type Item = io::Result<Chunk>;

    fn next(&mut self) -> Option<io::Result<Chunk>> {
        let next = match self.phase {
            Phase::Open => self.next_open(),
            Phase::Stopped => {
                let rest = self.repeated.as_ref().and_then(Repeated::take_rest);
                rest.flatten().map(|filled| Ok(Chunk(Bytes::Lent(filled))))
            }
            Phase::Over => None,
        };
        if next.is_none() {
            self.phase = Phase::Over;
        }
        next
    }
}

impl std::iter::FusedIterator for Receive<'_> {}

impl fmt::Debug for Receive<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Receive")
            .field("socket", &self.socket)
            .field("buffers", &self.buffers)
            .field("state", &self.phase)
            .finish_non_exhaustive()
    }
}

/// Decodes completions that fill buffers of this group. Keeps the group alive until the request has
/// ended.
struct Received(Arc<BufferGroup>);

impl Decode for Received {
    /// `None` at the end of the stream.
    type Item = Option<Filled>;

    /// Per connection: two or three times the number of chunks that arrive between two turns of its
    /// fiber, and a small part of the shared buffers.
    const BACKLOG_MAX: usize = 16;

    fn decode(
        &self,
        result: u32,
        buffer: Option<u16>,
        _: Option<&mut Option<Filled>>,
    ) -> Option<Option<Filled>> {
        let filled = buffer.map(|id| self.0.filled(id, result));
        Some(filled.filter(|_| result > 0))
    }
}

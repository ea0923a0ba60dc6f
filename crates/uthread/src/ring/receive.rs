//! What arrives by a connection, by one request for all of it.

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
use crate::op::net::SocketOperation;
use crate::resource::buffer_group::{BufferGroup, Filled};
use crate::resource::descriptor::{Descriptor, FdState};
use crate::sched::multishot_queue::Decode;
use crate::sched::wait;

/// What arrives by a stream as it comes, until the other side has sent all, by one request to the kernel for all of it
/// (multishot receive). Where there is no ring, or the kernel knows no such request, each chunk is received by itself.
///
/// The kernel receives before the next chunk is asked for, into a buffer of `buffers`. When 16 chunks wait to be taken,
/// the request is ended, and id again when they are; so what a slow reader has not read is the other side's
/// to wait for. Where no buffer is left, a chunk has memory of its own.
///
/// Of a stream that is set to be non-blocking it waits all the same.
///
/// While it lives nobody else reads from the stream; what they get of it is not told in any order.
///
/// # Errors
///
/// Items are errors of the kernel, as of reading; `ECANCELED` at the end of the runtime; `WouldBlock` after the
/// [timeout](Receive::set_timeout), of which no byte is lost.
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
        state: State::Open,
    }
}

/// What arrives by a stream; see the example of [`receive`].
///
/// Dropping it ends the request. What was received and not taken is lost then: [`stop`](Receive::stop) leaves it.
///
/// It stays with the fiber that has made it, as its worker has the request:
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
/// The socket and the buffers outlive it:
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
    /// None where the ring does not have the buffers.
    repeated: Option<Repeated<Received>>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Nothing more is asked for.
    Stopped,
    /// The other side has sent all, or all is taken after the stop.
    Over,
}

impl Receive<'_> {
    /// Bounds the wait for each chunk; `None` waits for ever, as at first.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) for zero, as of
    /// [`TcpStream::set_read_timeout`](crate::net::TcpStream::set_read_timeout).
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

    /// Ends the request and returns when the kernel receives no more. The chunks that have come can still be taken, and
    /// after them there is `None`; what comes later is for others to read.
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
        if self.state == State::Open {
            self.state = State::Stopped;
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
            .map(|timeout| wait::after(wait::now(), timeout));
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
            // All buffers are in use: this one goes on by itself, until some have come back.
            Next::Failed(error) if Errno::from_io_error(&error) == Some(Errno::NOBUFS) => {
                self.receive_once()
            }
            Next::Failed(error) => Some(Err(error)),
        }
    }

    fn receive_once(&self) -> Option<io::Result<Chunk>> {
        let mut bytes = vec![0; self.buffers.size()];
        let mut operation = Operation::Socket(SocketOperation::Receive {
            socket: Descriptor {
                fd: self.socket,
                state: &self.fd_state,
            },
            buffer: &mut bytes,
            peek: false,
            drains: false,
        });
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
        let next = match self.state {
            State::Open => self.next_open(),
            State::Stopped => {
                let rest = self.repeated.as_ref().and_then(Repeated::take_rest);
                rest.flatten().map(|filled| Ok(Chunk(Bytes::Lent(filled))))
            }
            State::Over => None,
        };
        if next.is_none() {
            self.state = State::Over;
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
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// Into buffers of this group, which lives until the request has ended.
struct Received(Arc<BufferGroup>);

impl Decode for Received {
    /// None at the end.
    type Item = Option<Filled>;

    /// Of one connection: two or three times what arrives between two turns of its fiber, and few of the buffers that
    /// are for all.
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

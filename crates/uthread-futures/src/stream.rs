//! A socket as an async stream.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_io::{AsyncRead, AsyncWrite};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, Shutdown};

use crate::direction::{Direction, Event};

/// A connected stream socket as an async stream: a [`TcpStream`](uthread::net::TcpStream), a
/// [`UnixStream`](uthread::net::UnixStream), or their counterparts of `std`.
///
/// A poll makes one attempt, which never waits. If it would have to, a helper fiber waits until the
/// socket is ready, and wakes the task. So several futures of one [`block_on`](uthread::block_on)
/// wait at the same time, and a future that is dropped loses no bytes. Any executor may poll the
/// stream: outside of a runtime, the helper fiber runs in uthread's default runtime.
///
/// A reference implements the traits, too, so that one task can read while another one writes. Two
/// tasks must not wait for the same direction: only the last one to be polled is woken.
///
/// Timeouts and the blocking mode of the socket have no effect, and the calls of the socket itself
/// work as before. Dropping the stream in the middle of a wait closes the socket as soon as the
/// helper fiber has ended.
///
/// # Errors
///
/// The errors of `recv(2)` and `send(2)`, such as `ENOTSOCK` if it is not a socket; `EMFILE`,
/// `ENOMEM` or `ENOSPC` if the helper fiber cannot wait.
///
/// # Costs
///
/// A wait takes a fiber, a page for its stack, a `poll(2)` and a request to the driver. Where a
/// blocking call fits, it is cheaper.
///
/// ```
/// use futures_util::future::join;
/// use futures_util::io::{AsyncReadExt, AsyncWriteExt};
/// use uthread::net::UnixStream;
/// use uthread_futures::Async;
///
/// let (ours, theirs) = UnixStream::pair()?;
/// let (ours, theirs) = (Async::new(ours), Async::new(theirs));
/// uthread::run(|| {
///     let mut text = [0; 5];
///     let (received, sent) = uthread::block_on(join(
///         (&theirs).read_exact(&mut text),
///         (&ours).write_all(b"hello"),
///     ));
///     received.and(sent)?;
///     assert_eq!(&text, b"hello");
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Async<S> {
    /// The helper fibers share the socket.
    socket: Arc<S>,
    reading: Arc<Direction>,
    writing: Arc<Direction>,
}

impl<S> Async<S> {
    /// Wraps a connected stream socket. See the example of [`Async`].
    pub fn new(socket: S) -> Async<S> {
        Async {
            socket: Arc::new(socket),
            reading: Arc::new(Direction::new(Event::Readable)),
            writing: Arc::new(Direction::new(Event::Writable)),
        }
    }

    /// Returns the socket.
    ///
    /// ```
    /// use uthread::net::UnixStream;
    /// use uthread_futures::Async;
    ///
    /// let (stream, _peer) = UnixStream::pair()?;
    /// let stream = Async::new(stream);
    /// assert!(stream.get_ref().peer_addr()?.is_unnamed());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn get_ref(&self) -> &S {
        &self.socket
    }
}

impl<S: AsFd + Send + Sync + 'static> Async<S> {
    /// Makes an attempt, and arranges a wake-up if it would block.
    fn poll(
        &self,
        direction: &Arc<Direction>,
        context: &Context<'_>,
        mut attempt: impl FnMut(BorrowedFd<'_>) -> rustix::io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        ready!(direction.poll_turn(context));
        match retry_on_intr(|| attempt(self.socket.as_fd())) {
            Err(Errno::AGAIN) => match direction.wake_when_ready(&self.socket, context) {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            },
            Ok(count) => {
                direction.spend(count);
                Poll::Ready(Ok(count))
            }
            Err(errno) => Poll::Ready(Err(errno.into())),
        }
    }
}

impl<S: AsFd + Send + Sync + 'static> AsyncRead for &Async<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        // A receive without a buffer would wait for bytes.
        if buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.poll(&self.reading, context, |fd| {
            let (count, _) = rustix::net::recv(fd, &mut *buffer, RecvFlags::DONTWAIT)?;
            Ok(count)
        })
    }
}

impl<S: AsFd + Send + Sync + 'static> AsyncWrite for &Async<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        self.poll(&self.writing, context, |fd| {
            rustix::net::send(fd, buffer, flags)
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Shuts down writing. A connection that the peer has reset counts as closed.
    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(
            match rustix::net::shutdown(&*self.socket, Shutdown::Write) {
                Ok(()) | Err(Errno::NOTCONN) => Ok(()),
                Err(errno) => Err(errno.into()),
            },
        )
    }
}

impl<S: AsFd + Send + Sync + 'static> AsyncRead for Async<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_read(context, buffer)
    }
}

impl<S: AsFd + Send + Sync + 'static> AsyncWrite for Async<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_write(context, buffer)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_flush(context)
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_close(context)
    }
}

impl<S: fmt::Debug> fmt::Debug for Async<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Async").field(&self.socket).finish()
    }
}

impl<S> Drop for Async<S> {
    fn drop(&mut self) {
        self.reading.end();
        self.writing.end();
    }
}

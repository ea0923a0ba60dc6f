//! An async stream as a blocking one.

use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};
use uthread::thread::try_block_on;

/// An async stream as a blocking one, for code that takes [`Read`] and [`Write`].
///
/// Each call polls the stream until it is ready, as [`block_on`](uthread::block_on) does. The
/// stream's reactor has to run elsewhere: for a stream of Tokio, wrapped by `tokio_util::compat`,
/// in a Tokio runtime with threads of its own.
///
/// # Errors
///
/// `ECANCELED` if the caller is cancelled; `TimedOut` if its deadline passes; any other error of
/// the stream. After the first two the call can be repeated, unless the stream itself forbids that.
///
/// ```
/// use std::io::{Read, Write};
/// use uthread::net::UnixStream;
/// use uthread_futures::{Async, Blocking};
///
/// let (ours, mut theirs) = UnixStream::pair()?;
/// let mut ours = Blocking::new(Async::new(ours)); // Any other async stream as well.
/// ours.write_all(b"hello")?;
/// ours.close()?;
/// let mut text = String::new();
/// theirs.read_to_string(&mut text)?;
/// assert_eq!(text, "hello");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Blocking<T>(T);

impl<T> Blocking<T> {
    /// Wraps an async stream. See the example of [`Blocking`].
    pub fn new(stream: T) -> Blocking<T> {
        Blocking(stream)
    }

    /// Returns the stream.
    ///
    /// ```
    /// use uthread::net::UnixStream;
    /// use uthread_futures::{Async, Blocking};
    ///
    /// let (stream, _peer) = UnixStream::pair()?;
    /// let stream: Async<UnixStream> = Blocking::new(Async::new(stream)).into_inner();
    /// # let _ = stream;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T: Unpin> Blocking<T> {
    fn wait<R>(
        &mut self,
        mut poll: impl FnMut(Pin<&mut T>, &mut Context<'_>) -> Poll<io::Result<R>>,
    ) -> io::Result<R> {
        try_block_on(poll_fn(|context| poll(Pin::new(&mut self.0), context)))?
    }
}

impl<T: AsyncWrite + Unpin> Blocking<T> {
    /// Flushes the stream and ends writing: the peer reads the end. See the example of
    /// [`Blocking`].
    ///
    /// Dropping the stream closes it as its type does, usually without a flush.
    ///
    /// # Errors
    ///
    /// The errors of [`Blocking`].
    pub fn close(&mut self) -> io::Result<()> {
        self.wait(|stream, context| stream.poll_close(context))
    }
}

impl<T: AsyncRead + Unpin> Read for Blocking<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait(|stream, context| stream.poll_read(context, buffer))
    }
}

impl<T: AsyncWrite + Unpin> Write for Blocking<T> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.wait(|stream, context| stream.poll_write(context, buffer))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.wait(|stream, context| stream.poll_flush(context))
    }
}

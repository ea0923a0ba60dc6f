//! Bodies of requests and responses.

use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::{cmp, fmt, future, mem};

use bytes::{Buf, Bytes};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

/// Bytes of a reader that go out at once.
const CHUNK_BYTES: usize = 16 << 10;

/// The body of a request or response. That of a request is read by [`Read`], which waits for the client;
/// that of a response is made of bytes or text by `From`, or of a reader by [`Body::from_reader`].
///
/// A request's body that is larger than [`Server::body_max`](crate::Server::body_max) is an error of the
/// kind `FileTooLarge`, which [`Failure`](crate::Failure) answers by 413.
pub struct Body {
    source: Source,
    /// Number of bytes that may be read.
    left: u64,
}

enum Source {
    Bytes(Bytes),
    Reader(Box<dyn Read + Send>),
    Incoming { body: Incoming, received: Bytes },
}

impl Body {
    /// Returns a body without bytes.
    #[must_use]
    pub fn empty() -> Body {
        Bytes::new().into()
    }

    /// Returns the body of a response that is read while it is sent, until the end of the reader. It goes
    /// out in chunks, unless the response has a `Content-Length`. An error ends the connection, by which
    /// the client sees that the body is not complete.
    pub fn from_reader(reader: impl Read + Send + 'static) -> Body {
        Body {
            source: Source::Reader(Box::new(reader)),
            left: u64::MAX,
        }
    }

    pub(crate) fn from_incoming(body: Incoming, max: u64) -> Body {
        let received = Bytes::new();
        Body {
            source: Source::Incoming { body, received },
            left: max,
        }
    }

    /// Reads the rest of the body.
    ///
    /// # Errors
    ///
    /// `FileTooLarge` for a body above the limit; any other error of the connection.
    pub fn into_bytes(mut self) -> io::Result<Bytes> {
        if let Source::Bytes(bytes) = &mut self.source {
            return Ok(mem::take(bytes));
        }
        let mut bytes = Vec::new();
        self.read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }

    /// Waits for bytes of a request. Returns none at the end.
    fn receive(body: &mut Incoming) -> io::Result<Bytes> {
        loop {
            let frame = future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
            match uthread::thread::try_block_on(frame)? {
                None => return Ok(Bytes::new()),
                Some(Err(error)) => return Err(io::Error::other(error)),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Ok(data),
                    // Trailers, which nobody asks for.
                    _ => {}
                },
            }
        }
    }

    fn spend(&mut self, count: usize) -> io::Result<()> {
        match self.left.checked_sub(count as u64) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "the body is larger than the server permits",
            )),
        }
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.source {
            Source::Reader(reader) => reader.read(buffer),
            Source::Bytes(bytes) => Ok(take(bytes, buffer)),
            Source::Incoming { body, received } => {
                if received.is_empty() && !buffer.is_empty() {
                    *received = Body::receive(body)?;
                    let count = received.len();
                    self.spend(count)?;
                    return self.read_received(buffer);
                }
                Ok(take(received, buffer))
            }
        }
    }
}

impl Body {
    fn read_received(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.source {
            Source::Incoming { received, .. } => Ok(take(received, buffer)),
            _ => unreachable!("it has received"),
        }
    }
}

/// Moves bytes into a buffer. Returns their number.
fn take(bytes: &mut Bytes, buffer: &mut [u8]) -> usize {
    let count = cmp::min(bytes.len(), buffer.len());
    bytes.copy_to_slice(&mut buffer[..count]);
    count
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let next = match &mut self.get_mut().source {
            Source::Bytes(bytes) => Ok(mem::take(bytes)),
            // Waits, in the fiber of the connection, which has nothing else to do.
            Source::Reader(reader) => chunk(reader),
            Source::Incoming { body, received } => {
                if received.is_empty() {
                    let next = Pin::new(body).poll_frame(context);
                    return next.map_err(io::Error::other);
                }
                Ok(mem::take(received))
            }
        };
        Poll::Ready(match next {
            Ok(bytes) if bytes.is_empty() => None,
            next => Some(next.map(Frame::data)),
        })
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Bytes(bytes) => bytes.is_empty(),
            Source::Reader(_) => false,
            Source::Incoming { body, received } => received.is_empty() && body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Bytes(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Reader(_) | Source::Incoming { .. } => SizeHint::new(),
        }
    }
}

fn chunk(reader: &mut impl Read) -> io::Result<Bytes> {
    let mut bytes = vec![0; CHUNK_BYTES];
    let count = loop {
        match reader.read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => break result?,
        }
    };
    bytes.truncate(count);
    Ok(bytes.into())
}

impl Default for Body {
    fn default() -> Body {
        Body::empty()
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Body {
        Body {
            source: Source::Bytes(bytes.into()),
            left: u64::MAX,
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Body").finish_non_exhaustive()
    }
}

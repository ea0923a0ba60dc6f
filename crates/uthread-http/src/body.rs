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
pub struct Body(Source);

enum Source {
    Bytes(Bytes),
    Reader(Box<dyn Read + Send>),
    Request(Received),
}

/// The body of a request.
struct Received {
    body: Incoming,
    /// Number of bytes that may still arrive.
    left: u64,
    /// Bytes that have arrived and were not read.
    bytes: Bytes,
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
        Body(Source::Reader(Box::new(reader)))
    }

    pub(crate) fn from_incoming(body: Incoming, max: u64) -> Body {
        Body(Source::Request(Received {
            body,
            left: max,
            bytes: Bytes::new(),
        }))
    }

    /// Reads the rest of the body.
    ///
    /// # Errors
    ///
    /// `FileTooLarge` for a body above the limit; any other error of the connection.
    pub fn into_bytes(mut self) -> io::Result<Bytes> {
        if let Source::Bytes(bytes) = &mut self.0 {
            return Ok(mem::take(bytes));
        }
        let mut bytes = Vec::new();
        self.read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }
}

impl Received {
    /// Waits for bytes. Returns none at the end.
    fn receive(&mut self) -> io::Result<Bytes> {
        loop {
            let frame = future::poll_fn(|context| self.poll_frame(context));
            match uthread::thread::try_block_on(frame)?.transpose()? {
                None => return Ok(Bytes::new()),
                Some(frame) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Ok(data),
                    // Trailers, which nobody asks for.
                    _ => {}
                },
            }
        }
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        frame.map(|frame| {
            Some(
                frame?
                    .map_err(io::Error::other)
                    .and_then(|frame| self.admit(frame)),
            )
        })
    }

    /// Counts the bytes of a frame.
    fn admit(&mut self, frame: Frame<Bytes>) -> io::Result<Frame<Bytes>> {
        let count = frame.data_ref().map_or(0, Bytes::len);
        match self.left.checked_sub(count as u64) {
            Some(left) => {
                self.left = left;
                Ok(frame)
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
        match &mut self.0 {
            Source::Reader(reader) => reader.read(buffer),
            Source::Bytes(bytes) => Ok(take(bytes, buffer)),
            Source::Request(received) => {
                if received.bytes.is_empty() && !buffer.is_empty() {
                    received.bytes = received.receive()?;
                }
                Ok(take(&mut received.bytes, buffer))
            }
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
        let next = match &mut self.get_mut().0 {
            Source::Bytes(bytes) => Ok(mem::take(bytes)),
            // Waits, in the fiber of the connection, which has nothing else to do.
            Source::Reader(reader) => chunk(reader),
            Source::Request(received) if received.bytes.is_empty() => {
                return received.poll_frame(context);
            }
            Source::Request(received) => Ok(mem::take(&mut received.bytes)),
        };
        Poll::Ready(match next {
            Ok(bytes) if bytes.is_empty() => None,
            next => Some(next.map(Frame::data)),
        })
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Source::Bytes(bytes) => bytes.is_empty(),
            Source::Reader(_) => false,
            Source::Request(received) => received.bytes.is_empty() && received.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Bytes(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Reader(_) | Source::Request(_) => SizeHint::new(),
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
        Body(Source::Bytes(bytes.into()))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Body").finish_non_exhaustive()
    }
}

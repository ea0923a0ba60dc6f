//! Bodies of requests and responses.

use std::error::Error;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{cmp, fmt, future, mem};

use bytes::{Buf, Bytes};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use crate::shared::Peer;
use crate::stream::Link;

/// Bytes of a reader that go out at once.
const CHUNK_BYTES: usize = 16 << 10;

/// The body of a request or response. That of a request is read by [`Read`], which waits for the client;
/// that of a response is made of bytes or text by `From`, or of a reader by [`Body::from_reader`].
///
/// A request's body that is larger than [`Server::body_max`](crate::Server::body_max) is an error of the
/// kind `FileTooLarge`, which [`Failure`](crate::Failure) answers by 413.
pub struct Body {
    source: Source,
    /// The connection, if it is the body of a request.
    peer: Option<Arc<Peer>>,
}

/// What is rare is boxed: requests and responses are moved often.
enum Source {
    Bytes(Bytes),
    Reader(Box<dyn Read + Send>),
    Stream(Box<Received<Pin<Box<Async>>>>),
    Request(Box<Received<Incoming>>),
    /// The body of a request, of which nothing is received.
    TooLarge,
}

type Async = dyn http_body::Body<Data = Bytes, Error = Box<dyn Error + Send + Sync>> + Send;

/// A body that arrives in frames.
struct Received<B> {
    body: B,
    /// Number of bytes that may still arrive.
    left: u64,
    /// How long a read waits for them.
    limit: Duration,
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
        Body::from_source(Source::Reader(Box::new(reader)))
    }

    /// Returns a body that another crate makes, such as that of a response of `axum` or `reqwest`. Its
    /// polls must not wait, or the connection waits with them.
    ///
    /// ```
    /// use http_body_util::StreamBody;
    /// use uthread_http::Body;
    ///
    /// let frames = ["one ", "two"].map(|text| Ok::<_, std::io::Error>(http_body::Frame::data(text.into())));
    /// let body = Body::from_http_body(StreamBody::new(futures_util::stream::iter(frames)));
    /// assert_eq!(&body.into_bytes()?[..], b"one two");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn from_http_body<B>(body: B) -> Body
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        Body::from_source(Source::Stream(Box::new(Received {
            body: Box::pin(body.map_err(Into::into)),
            left: u64::MAX,
            limit: Duration::MAX,
            bytes: Bytes::new(),
        })))
    }

    pub(crate) fn from_incoming(body: Incoming, max: u64, limit: Duration) -> Body {
        if body.is_end_stream() {
            return Body::empty();
        }
        if body.size_hint().lower() > max {
            return Body::from_source(Source::TooLarge);
        }
        Body::from_source(Source::Request(Box::new(Received {
            body,
            left: max,
            limit,
            bytes: Bytes::new(),
        })))
    }

    fn from_source(source: Source) -> Body {
        Body { source, peer: None }
    }

    pub(crate) fn sent_by(mut self, peer: Arc<Peer>) -> Body {
        self.peer = Some(peer);
        self
    }

    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.peer.as_ref().map(|peer| peer.address)
    }

    /// Returns `true` if nothing more is received.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.source, Source::Bytes(_) | Source::TooLarge)
    }

    pub(crate) fn is_too_large(&self) -> bool {
        matches!(self.source, Source::TooLarge)
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
}

impl<B> Received<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.bytes.is_empty() && !buffer.is_empty() {
            self.bytes = self.receive()?;
        }
        Ok(take(&mut self.bytes, buffer))
    }

    /// Waits for bytes. Returns none at the end.
    fn receive(&mut self) -> io::Result<Bytes> {
        let limit = self.limit;
        loop {
            let frame = future::poll_fn(|context| self.poll_frame(context));
            let frame = uthread::timeout(limit, || uthread::thread::try_block_on(frame))??;
            match frame.transpose()? {
                None => return Ok(Bytes::new()),
                Some(frame) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Ok(data),
                    // Trailers, which nobody asks for.
                    _ => {}
                },
            }
        }
    }

    /// Returns the bytes that were not read, and then what arrives.
    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.bytes.is_empty() {
            return self.poll_frame(context);
        }
        Poll::Ready(Some(Ok(Frame::data(mem::take(&mut self.bytes)))))
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
            None => Err(too_large()),
        }
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.source {
            Source::Reader(reader) => reader.read(buffer),
            Source::Bytes(bytes) => Ok(take(bytes, buffer)),
            Source::Stream(received) => received.read(buffer),
            Source::Request(received) => received.read(buffer),
            Source::TooLarge => Err(too_large()),
        }
    }
}

fn too_large() -> io::Error {
    let text = "the body is larger than the server permits";
    io::Error::new(io::ErrorKind::FileTooLarge, text)
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
            // Waits, in the fiber of the response, which has nothing else to do.
            Source::Reader(reader) => chunk(reader),
            Source::Stream(received) => return received.poll_rest(context),
            Source::Request(received) => return received.poll_rest(context),
            Source::TooLarge => Err(too_large()),
        };
        Poll::Ready(match next {
            Ok(bytes) if bytes.is_empty() => None,
            next => Some(next.map(Frame::data)),
        })
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Bytes(bytes) => bytes.is_empty(),
            Source::Reader(_) | Source::TooLarge => false,
            Source::Stream(received) => received.bytes.is_empty() && received.body.is_end_stream(),
            Source::Request(received) => received.bytes.is_empty() && received.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Bytes(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Stream(received) if received.bytes.is_empty() => received.body.size_hint(),
            _ => SizeHint::new(),
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
        Body::from_source(Source::Bytes(bytes.into()))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Body").finish_non_exhaustive()
    }
}

/// The body of a response that hyper sends.
pub(crate) struct Outgoing {
    body: Body,
    /// Present if the body may have to be waited for.
    _open: Option<Open>,
}

impl Outgoing {
    /// Lets polls of the connection not wait while it waits for the body, too.
    pub(crate) fn on(body: Body, link: &Link) -> Outgoing {
        let may_wait = matches!(body.source, Source::Stream(_) | Source::Request(_));
        let open = may_wait.then(|| {
            link.set_polls(true);
            Open(link.clone())
        });
        Outgoing { body, _open: open }
    }
}

struct Open(Link);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.set_polls(false);
    }
}

#[cfg(feature = "http2")]
impl From<Body> for Outgoing {
    fn from(body: Body) -> Outgoing {
        Outgoing { body, _open: None }
    }
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

//! The socket, with TLS or without, as hyper reads and writes it.
//!
//! A poll may wait as long as nothing else happens on the connection, and must not while the
//! connection has several things to wait for: then it [polls](Link::set_polls). What a poll writes is
//! sent after it, all at once, and the fiber does not wait on the stack that connections share.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use hyper::rt::{self, ReadBufCursor};
use rustix::io::retry_on_intr;
use rustix::net::{RecvFlags, SendFlags};
use uthread::net::TcpStream;
#[cfg(feature = "tls")]
use uthread_rustls::TlsStream;

/// Bytes that are received at once. Most requests without a body are shorter.
const RECEIVED_BYTES: usize = 2 << 10;

/// Bytes of a body that are received at once. Kept by connections whose requests have bodies.
const BODY_BYTES: usize = 16 << 10;

/// Bytes that are sent after a poll. Most responses are shorter, and a connection keeps room for its
/// longest.
const OUTGOING_BYTES_MAX: usize = 4 << 10;

/// The same where a poll may have the responses to many requests.
const OUTGOING_OF_MANY_BYTES_MAX: usize = 32 << 10;

/// The stream of the socket, whose calls wait or fail with `WouldBlock`.
#[derive(Debug, Clone)]
pub(crate) struct Link(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    stream: Arc<TcpStream>,
    polls: AtomicBool,
}

impl Link {
    pub(crate) fn new(stream: Arc<TcpStream>) -> Link {
        let polls = AtomicBool::new(false);
        Link(Arc::new(Shared { stream, polls }))
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.0.stream
    }

    pub(crate) fn polls(&self) -> bool {
        // Relaxed: only the fiber that polls the connection uses it, or has ended a body.
        self.0.polls.load(Ordering::Relaxed)
    }

    pub(crate) fn set_polls(&self, polls: bool) {
        self.0.polls.store(polls, Ordering::Relaxed);
    }
}

impl Read for &Link {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.polls() {
            return self.stream().read(buffer);
        }
        let received =
            retry_on_intr(|| rustix::net::recv(self.stream(), &mut *buffer, RecvFlags::DONTWAIT));
        Ok(received?.1)
    }
}

impl Write for &Link {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.polls() {
            return self.stream().write(bytes);
        }
        let now = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(retry_on_intr(|| {
            rustix::net::send(self.stream(), bytes, now)
        })?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the protocol is spoken on.
#[derive(Debug)]
pub(crate) enum Transport {
    Plain(Link),
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream<Link>>),
}

impl Transport {
    pub(crate) fn link(&self) -> &Link {
        match self {
            Transport::Plain(link) => link,
            #[cfg(feature = "tls")]
            Transport::Tls(stream) => stream.get_ref(),
        }
    }

    /// Ends what is sent.
    pub(crate) fn close(&self) -> io::Result<()> {
        #[cfg(feature = "tls")]
        if let Transport::Tls(stream) = self {
            stream.close()?;
        }
        self.link().stream().shutdown(Shutdown::Write)
    }
}

impl Read for &Transport {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(link) => (&mut &*link).read(buffer),
            #[cfg(feature = "tls")]
            Transport::Tls(stream) => (&mut &**stream).read(buffer),
        }
    }
}

impl Write for &Transport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(link) => (&mut &*link).write(bytes),
            #[cfg(feature = "tls")]
            Transport::Tls(stream) => (&mut &**stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Transport::Plain(_) => Ok(()),
            #[cfg(feature = "tls")]
            Transport::Tls(stream) => (&mut &**stream).flush(),
        }
    }
}

/// The transport, and what was not possible when it was polled last.
pub(crate) struct Socket {
    pub(crate) transport: Transport,
    received: Box<[u8]>,
    /// The bytes of it that hyper has not taken.
    left: Range<usize>,
    /// To be sent after the poll, but for the first bytes, which have been.
    outgoing: Vec<u8>,
    sent: usize,
    has_ended: bool,
    pub(crate) wants_read: bool,
    pub(crate) wants_write: bool,
}

impl Socket {
    pub(crate) fn new(transport: Transport) -> Rc<RefCell<Socket>> {
        Rc::new(RefCell::new(Socket {
            transport,
            received: Box::new([0; RECEIVED_BYTES]),
            left: 0..0,
            outgoing: Vec::new(),
            sent: 0,
            has_ended: false,
            wants_read: false,
            wants_write: false,
        }))
    }

    /// Waits for bytes, which the next poll takes after those that are left. Returns the number of all
    /// of them.
    ///
    /// # Errors
    ///
    /// Those of the socket, `WouldBlock` after its timeout among them.
    pub(crate) fn receive(&mut self) -> io::Result<usize> {
        if self.left.is_empty() {
            self.left = 0..0;
        }
        let count = (&self.transport).read(&mut self.received[self.left.end..])?;
        self.left.end += count;
        self.has_ended = count == 0;
        Ok(self.left.len())
    }

    /// Returns `true` if the client has ended what it sends.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns the bytes that hyper has not taken.
    pub(crate) fn left(&self) -> &[u8] {
        &self.received[self.left.clone()]
    }

    /// Sends what a poll has left. If the link polls, sends what is possible now, and the rest is
    /// wanted to be written.
    pub(crate) fn send(&mut self) -> io::Result<()> {
        if self.outgoing.is_empty() {
            return Ok(());
        }
        match self.send_all() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.wants_write = true;
                if self.transport.link().polls() {
                    return Ok(());
                }
                // The timeout of the socket.
                Err(io::ErrorKind::TimedOut.into())
            }
            sent => sent,
        }
    }

    fn send_all(&mut self) -> io::Result<()> {
        let mut transport = &self.transport;
        while self.sent < self.outgoing.len() {
            match transport.write(&self.outgoing[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        transport.flush()?;
        self.outgoing.clear();
        self.sent = 0;
        Ok(())
    }

    /// Sends what polls have left, and waits for it. The link polls no more.
    pub(crate) fn send_rest(&mut self) -> io::Result<()> {
        self.transport.link().set_polls(false);
        self.send()
    }

    /// Gives the room back in which responses were gathered.
    #[cfg(any(test, feature = "http2"))]
    pub(crate) fn shrink(&mut self) {
        if self.outgoing.is_empty() && self.outgoing.capacity() > OUTGOING_BYTES_MAX {
            self.outgoing = Vec::new();
        }
    }

    /// Receives what has arrived, if there is anything.
    fn try_receive(&mut self) -> io::Result<()> {
        if self.received.len() < BODY_BYTES {
            self.received = vec![0; BODY_BYTES].into();
        }
        match (&self.transport).read(&mut self.received) {
            Ok(count) => (self.left, self.has_ended) = (0..count, count == 0),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Moves bytes to hyper, and returns `true` if there are any.
    fn take(&mut self, cursor: &mut ReadBufCursor<'_>) -> bool {
        let count = self.left.len().min(cursor.remaining());
        let end = self.left.start + count;
        cursor.put_slice(&self.received[self.left.start..end]);
        self.left.start = end;
        count > 0
    }

    /// Returns what a write has led to.
    fn written<T>(&mut self, result: io::Result<T>) -> Poll<io::Result<T>> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if !self.transport.link().polls() {
                    // The timeout of the socket.
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
                self.wants_write = true;
                Poll::Pending
            }
            result => Poll::Ready(result),
        }
    }
}

/// What hyper has of the socket.
pub(crate) struct Stream(pub(crate) Rc<RefCell<Socket>>);

impl rt::Read for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut cursor: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut socket = self.0.borrow_mut();
        if socket.transport.link().polls() && socket.left.is_empty() && !socket.has_ended {
            socket.try_receive()?;
        }
        if socket.take(&mut cursor) || socket.has_ended || cursor.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        socket.wants_read = true;
        Poll::Pending
    }
}

impl rt::Write for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut socket = self.0.borrow_mut();
        let max = if socket.transport.link().polls() {
            OUTGOING_OF_MANY_BYTES_MAX
        } else {
            OUTGOING_BYTES_MAX
        };
        // What is sent now comes after what is left.
        if socket.outgoing.len() + bytes.len() > max {
            socket.send()?;
            if !socket.outgoing.is_empty() {
                return Poll::Pending;
            }
        }
        if bytes.len() > max {
            let written = (&socket.transport).write(bytes);
            return socket.written(written);
        }
        socket.outgoing.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut socket = self.0.borrow_mut();
        if !socket.outgoing.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let flushed = (&socket.transport).flush();
        socket.written(flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut socket = self.0.borrow_mut();
        socket.send()?;
        if !socket.outgoing.is_empty() {
            return Poll::Pending;
        }
        let closed = socket.transport.close();
        socket.written(closed)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use hyper::rt::Write as _;

    use super::*;
    use crate::connection::tests::polled;

    const CHUNK: [u8; 16 << 10] = [b'x'; 16 << 10];

    fn write(stream: &mut Stream, bytes: &[u8]) -> Poll<usize> {
        let written = Pin::new(stream).poll_write(&mut Context::from_waker(Waker::noop()), bytes);
        written.map(Result::unwrap)
    }

    #[test]
    fn what_a_poll_writes_leaves_at_once_after_it() {
        let (connection, client) = polled();
        let mut stream = Stream(connection.socket);
        assert_eq!(write(&mut stream, b"one"), Poll::Ready(3));
        assert_eq!(write(&mut stream, b"two"), Poll::Ready(3));
        client.set_nonblocking(true).unwrap();
        let nothing = (&client).read(&mut [0]).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        stream.0.borrow_mut().send().unwrap();
        client.set_nonblocking(false).unwrap();
        let mut text = [0; 16];
        let count = (&client).read(&mut text).unwrap();
        assert_eq!(&text[..count], b"onetwo");
    }

    #[test]
    fn what_the_client_does_not_take_waits() {
        let (connection, client) = polled();
        let mut stream = Stream(connection.socket);
        let mut written = 0;
        while let Poll::Ready(count) = write(&mut stream, &CHUNK) {
            written += count;
        }
        assert!(stream.0.borrow().wants_write);
        let mut received = 0;
        while received < written {
            received += (&client).read(&mut vec![0; 1 << 20]).unwrap();
            stream.0.borrow_mut().send().unwrap();
        }
        assert_eq!(received, written);
        stream.0.borrow_mut().shrink();
        assert_eq!(stream.0.borrow().outgoing.capacity(), 0);
        assert_eq!(write(&mut stream, b"again"), Poll::Ready(5));
    }
}

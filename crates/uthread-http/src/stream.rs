//! The socket as hyper reads and writes it: no poll waits.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::rt::{self, ReadBufCursor};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use uthread::net::TcpStream;

/// Bytes that are received at once. Most requests without a body are shorter.
const RECEIVED_BYTES: usize = 2 << 10;

/// Bytes of a body that are received at once. Kept by connections whose requests have bodies.
const BODY_BYTES: usize = 16 << 10;

/// The socket, and what was not possible when it was polled last.
pub(crate) struct Socket {
    pub(crate) stream: Arc<TcpStream>,
    received: Box<[u8]>,
    /// The bytes of it that hyper has not taken.
    left: Range<usize>,
    has_ended: bool,
    pub(crate) wants_read: bool,
    pub(crate) wants_write: bool,
    /// Set while a fiber of its own answers a request: nothing may wait meanwhile.
    pub(crate) is_shared: bool,
}

impl Socket {
    pub(crate) fn new(stream: Arc<TcpStream>) -> Rc<RefCell<Socket>> {
        Rc::new(RefCell::new(Socket {
            stream,
            received: Box::new([0; RECEIVED_BYTES]),
            left: 0..0,
            has_ended: false,
            wants_read: false,
            wants_write: false,
            is_shared: false,
        }))
    }

    /// Waits for bytes, which the next poll takes. Returns their number.
    ///
    /// # Errors
    ///
    /// Those of the socket, `WouldBlock` after its timeout among them.
    pub(crate) fn receive(&mut self) -> io::Result<usize> {
        let count = (&*self.stream).read(&mut self.received[..])?;
        (self.left, self.has_ended) = (0..count, count == 0);
        Ok(count)
    }

    /// Receives what has arrived, if there is anything.
    fn try_receive(&mut self) -> io::Result<()> {
        if self.received.len() < BODY_BYTES {
            self.received = vec![0; BODY_BYTES].into();
        }
        match rustix::net::recv(&*self.stream, &mut self.received[..], RecvFlags::DONTWAIT) {
            Ok((_, count)) => {
                (self.left, self.has_ended) = (0..count, count == 0);
                Ok(())
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Moves bytes to hyper, and returns `true` if there are any.
    fn take(&mut self, cursor: &mut ReadBufCursor<'_>) -> bool {
        let count = self.left.len().min(cursor.remaining());
        let end = self.left.start + count;
        cursor.put_slice(&self.received[self.left.start..end]);
        self.left.start = end;
        count > 0
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
        if socket.is_shared && socket.left.is_empty() && !socket.has_ended {
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
        if !socket.is_shared {
            // Nothing else happens on this connection.
            return Poll::Ready((&*socket.stream).write(bytes));
        }
        let now = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match rustix::net::send(&*socket.stream, bytes, now) {
            Err(Errno::AGAIN | Errno::INTR) => {
                socket.wants_write = true;
                Poll::Pending
            }
            result => Poll::Ready(result.map_err(io::Error::from)),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.borrow().stream.shutdown(Shutdown::Write))
    }
}

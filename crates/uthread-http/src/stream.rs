//! The socket as hyper reads and writes it: no poll waits.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::rt::{self, ReadBufCursor};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use uthread::net::TcpStream;

/// Bytes that are received at once while the connection waits for a request.
const RECEIVED_BYTES: usize = 8 << 10;

/// The socket, and what was not possible when it was polled last.
pub(crate) struct Socket {
    pub(crate) stream: Arc<TcpStream>,
    received: Vec<u8>,
    /// Bytes of `received` that hyper has taken.
    taken: usize,
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
            received: Vec::new(),
            taken: 0,
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
    pub(crate) fn receive(this: &RefCell<Socket>) -> io::Result<usize> {
        let mut bytes = [0; RECEIVED_BYTES];
        let stream = Arc::clone(&this.borrow().stream);
        let count = (&*stream).read(&mut bytes)?;
        let mut this = this.borrow_mut();
        this.received.clear();
        this.received.extend_from_slice(&bytes[..count]);
        (this.taken, this.has_ended) = (0, count == 0);
        Ok(count)
    }

    fn take(&mut self, cursor: &mut ReadBufCursor<'_>) -> bool {
        let left = &self.received[self.taken..];
        let count = left.len().min(cursor.remaining());
        cursor.put_slice(&left[..count]);
        self.taken += count;
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
        if socket.take(&mut cursor) || socket.has_ended || cursor.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if socket.is_shared {
            let mut bytes = [0; RECEIVED_BYTES];
            let length = bytes.len().min(cursor.remaining());
            let now = RecvFlags::DONTWAIT;
            match rustix::net::recv(&*socket.stream, &mut bytes[..length], now) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Poll::Ready(Err(errno.into())),
                Ok((_, count)) => {
                    cursor.put_slice(&bytes[..count]);
                    socket.has_ended = count == 0;
                    return Poll::Ready(Ok(()));
                }
            }
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

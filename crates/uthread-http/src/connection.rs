//! One connection: what hyper waits for, its fiber waits for.

use std::cell::RefCell;
use std::io::{self, Read};
use std::net::Shutdown;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use uthread::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::shared::{Peer, Shared};
use crate::stream::Socket;
use crate::upgrade::{Speak, Upgraded};

/// Limits of receiving after the last response: a few round trips on a bad line.
const LINGER_TIME_MAX: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: u64 = 1 << 20;

/// A connection and its fiber.
pub(crate) struct Connection {
    pub(crate) shared: Arc<Shared>,
    pub(crate) peer: Arc<Peer>,
    pub(crate) socket: Rc<RefCell<Socket>>,
    /// Has a message when hyper is to be polled again.
    pub(crate) bell: Receiver<()>,
}

/// Wakes the fiber of a connection.
struct Bell(SyncSender<()>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // It has rung if there is no room.
        let _ = self.0.try_send(());
    }
}

/// Returns the bell of a connection, and what rings it.
pub(crate) fn bell() -> (Receiver<()>, Waker) {
    let (sender, bell) = sync_channel(1);
    (bell, Waker::from(Arc::new(Bell(sender))))
}

impl Connection {
    /// Waits for bytes of the next request, and returns their number.
    ///
    /// # Errors
    ///
    /// `ConnectionAborted` if the server is about to end.
    pub(crate) fn receive_idle(&self) -> io::Result<usize> {
        if !self.peer.begin_idle(&self.shared) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let received = self.socket.borrow_mut().receive();
        self.peer.end_idle();
        received
    }

    /// Ends the connection. What the client still sends is received for a while: unread, it would
    /// reset the connection, and the last response might be lost with it.
    #[inline(never)]
    pub(crate) fn close(self) -> io::Result<()> {
        let mut socket = self.socket.borrow_mut();
        socket.send_rest()?;
        let link = socket.transport.link();
        socket.transport.close()?;
        if !socket.has_ended() {
            let mut rest = link.stream().take(LINGER_BYTES_MAX);
            uthread::timeout(LINGER_TIME_MAX, || io::copy(&mut rest, &mut io::sink()))??;
        }
        Ok(())
    }

    /// Speaks another protocol on the connection, whose client has sent these bytes of it.
    pub(crate) fn upgrade(self, received: Bytes, speak: Box<Speak>) -> io::Result<()> {
        let socket = Rc::into_inner(self.socket).expect("hyper is done with the socket");
        let mut socket = socket.into_inner();
        socket.send_rest()?;
        let rest = Bytes::copy_from_slice(socket.left());
        let received = [received, rest].concat();
        let stream = &self.peer.stream;
        stream.set_read_timeout(None)?;
        stream.set_write_timeout(None)?;
        let stream = Upgraded::new(socket.transport, received.into());
        if !self.peer.begin_idle(&self.shared) {
            stream.socket().shutdown(Shutdown::Read)?;
        }
        speak(stream);
        Ok(())
    }

    /// Returns `true` if hyper was woken since the last call.
    pub(crate) fn has_rung(&self) -> bool {
        self.bell.try_recv().is_ok()
    }

    /// Forgets what hyper waited for. Called before a poll.
    pub(crate) fn begin_poll(&self) {
        let mut socket = self.socket.borrow_mut();
        (socket.wants_read, socket.wants_write) = (false, false);
    }

    /// Waits for a wake-up, or for what hyper waits for from the socket. Returns `false` if nothing
    /// happens for so long.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> io::Result<bool> {
        let socket = self.socket.borrow();
        let (bell, stream) = (&self.bell, socket.transport.link().stream());
        let limit = limit.unwrap_or(Duration::MAX);
        let ready = match (socket.wants_read, socket.wants_write) {
            (true, true) => uthread::select! {
                recv(bell) -> _ => Ok(()),
                readable(stream) -> ready => ready,
                writable(stream) -> ready => ready,
                default(limit) => return Ok(false),
            },
            (true, false) => uthread::select! {
                recv(bell) -> _ => Ok(()),
                readable(stream) -> ready => ready,
                default(limit) => return Ok(false),
            },
            (false, true) => uthread::select! {
                recv(bell) -> _ => Ok(()),
                writable(stream) -> ready => ready,
                default(limit) => return Ok(false),
            },
            (false, false) => match bell.recv_timeout(limit) {
                Ok(()) => Ok(()),
                Err(_) => return Ok(false),
            },
        };
        ready.map(|()| true)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use std::thread;

    use hyper::rt::Write as _;
    use uthread::net::TcpListener;

    use super::*;
    use crate::Request;
    use crate::shared::Limits;
    use crate::stream::{Link, Stream, Transport};

    const LONG: Duration = Duration::from_secs(20);

    /// Returns a connection that polls, and its client.
    pub(crate) fn polled() -> (Connection, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_read_timeout(Some(LONG)).unwrap();
        let (stream, address) = listener.accept().unwrap();
        let limits = Limits {
            timeout: None,
            overdue_max: 0,
            keep_alive: LONG,
            head: LONG,
            body_max: 0,
        };
        let shared = Arc::new(Shared::new(|_: Request| "", limits));
        let (bell, waker) = bell();
        let peer = shared.enter(stream, address, waker);
        let link = Link::new(Arc::clone(&peer.stream));
        link.set_polls(true);
        let connection = Connection {
            shared,
            peer,
            socket: Socket::new(Transport::Plain(link)),
            bell,
        };
        (connection, client)
    }

    /// Writes until neither the socket nor the room after it takes more, and ends the connection.
    /// Checks that all of it arrives, and returns what follows.
    fn fill_and_end(end: impl FnOnce(Connection) -> io::Result<()>) -> Vec<u8> {
        let (connection, mut client) = polled();
        let mut stream = Stream(Rc::clone(&connection.socket));
        let mut context = Context::from_waker(Waker::noop());
        let mut count = 0;
        while let Poll::Ready(written) =
            Pin::new(&mut stream).poll_write(&mut context, &[b'x'; 1 << 14])
        {
            count += written.unwrap();
        }
        drop(stream);
        let receiving = thread::spawn(move || {
            let mut received = Vec::new();
            client.read_to_end(&mut received).map(|_| received)
        });
        end(connection).unwrap();
        let received = receiving.join().unwrap().unwrap();
        let (all, rest) = received.split_at(count.min(received.len()));
        assert_eq!(all.len(), count, "the rest was lost");
        assert!(all.iter().all(|byte| *byte == b'x'));
        rest.to_vec()
    }

    #[test]
    fn what_polls_have_left_is_sent_before_the_end() {
        assert_eq!(fill_and_end(Connection::close), b"");
    }

    #[test]
    fn what_polls_have_left_is_sent_before_another_protocol() {
        let speak = |mut stream: Upgraded| io::Write::write_all(&mut stream, b"next").unwrap();
        let upgrade = |connection: Connection| connection.upgrade(Bytes::new(), Box::new(speak));
        assert_eq!(fill_and_end(upgrade), b"next");
    }
}

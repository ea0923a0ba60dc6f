//! A connection of HTTP/2, by whose fiber hyper moves the frames. Each stream has a fiber of its own,
//! within whose poll the handler is called, and the body of the response is read.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use uthread::thread::{JoinSet, on_shared_stack};

use crate::body::Outgoing;
use crate::connection::Connection;
use crate::shared::{Peer, Shared};
use crate::stream::Stream;

/// Streams of a connection at once, as browsers and other servers have it.
const STREAMS_MAX: u32 = 100;

/// How long the responses of new streams are gathered.
const GATHER_TIME_MAX: Duration = Duration::from_micros(100);

/// Fibers of a connection at once: those of its streams, and of streams that the client has reset.
const FIBERS_MAX: usize = 2 * STREAMS_MAX as usize;

/// Serves the streams of a connection.
pub(crate) fn serve(connection: Connection) -> io::Result<()> {
    let streams = Streams::default();
    let _end = End(&streams);
    let keep_alive = connection.shared.limits.keep_alive;
    let service = service_fn(|request| Answer {
        shared: Arc::clone(&connection.shared),
        peer: Arc::clone(&connection.peer),
        request: Some(request),
    });
    connection.socket.borrow().transport.link().set_polls(true);
    let mut builder = http2::Builder::new(streams.clone());
    builder.max_concurrent_streams(STREAMS_MAX);
    let stream = Stream(Rc::clone(&connection.socket));
    let mut served = pin!(builder.serve_connection(stream, service));
    let mut is_ending = false;
    loop {
        connection.begin_poll();
        let waker = &connection.peer.waker;
        let mut context = Context::from_waker(waker);
        let polled = on_shared_stack(|| served.as_mut().poll(&mut context));
        connection.socket.borrow_mut().send()?;
        match polled {
            Poll::Ready(result) => return result.map_err(io::Error::other),
            Poll::Pending => {}
        }
        streams.let_begin();
        streams.reap();
        let mut ends = connection.shared.is_draining();
        if is_ending || !ends {
            if connection.has_rung() {
                continue;
            }
            connection.socket.borrow_mut().shrink();
            if connection.wait(Some(keep_alive))? {
                continue;
            }
            // While handlers run, the client may have nothing to say.
            let is_stuck = connection.socket.borrow().wants_write;
            ends = is_stuck || streams.0.running.load(Ordering::Relaxed) == 0;
        }
        if ends && is_ending {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if ends {
            is_ending = true;
            served.as_mut().graceful_shutdown();
        }
    }
}

/// Runs what hyper spawns.
#[derive(Clone, Default)]
struct Streams(Arc<Fibers>);

#[derive(Default)]
struct Fibers {
    set: Mutex<JoinSet<()>>,
    /// Number of those that do not wait for the client.
    running: AtomicUsize,
    /// Number of those that have not begun.
    new: AtomicUsize,
}

impl Streams {
    fn set(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets those that are new begin, and others go on. What they answer meanwhile goes out together.
    fn let_begin(&self) {
        let begin = Instant::now();
        uthread::yield_now();
        while self.0.new.load(Ordering::Relaxed) > 0 && begin.elapsed() < GATHER_TIME_MAX {
            uthread::yield_now();
        }
    }

    /// Forgets those that have ended. If the client resets streams faster than their handlers end, it
    /// has to wait.
    fn reap(&self) {
        let mut set = self.set();
        while set.try_join_next().is_some() {}
        while set.len() > FIBERS_MAX {
            set.join_next();
        }
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, future: F) {
        let fibers = Arc::clone(&self.0);
        let new = Count::up(&fibers, |fibers| &fibers.new);
        self.set().spawn(move || {
            drop(new);
            let mut future = pin!(future);
            let polled = poll_fn(|context| {
                let _running = Count::up(&fibers, |fibers| &fibers.running);
                future.as_mut().poll(context)
            });
            uthread::block_on(polled);
        });
    }
}

/// One of those that are counted.
struct Count {
    fibers: Arc<Fibers>,
    of: fn(&Fibers) -> &AtomicUsize,
}

impl Count {
    fn up(fibers: &Arc<Fibers>, of: fn(&Fibers) -> &AtomicUsize) -> Count {
        of(fibers).fetch_add(1, Ordering::Relaxed);
        let fibers = Arc::clone(fibers);
        Count { fibers, of }
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        (self.of)(&self.fibers).fetch_sub(1, Ordering::Relaxed);
    }
}

/// Ends the streams with their connection.
struct End<'a>(&'a Streams);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let set = std::mem::take(&mut *self.0.set());
        uthread::shield(|| drop(set));
    }
}

/// The response to a request: the poll calls the handler.
struct Answer {
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    request: Option<http::Request<Incoming>>,
}

impl Future for Answer {
    type Output = Result<http::Response<Outgoing>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let request = self.request.take().expect("it is polled once");
        let request = self.shared.receive(&self.peer, request);
        let response = self.shared.answer(request);
        Poll::Ready(Ok(response.map(Outgoing::from)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use crate::connection::tests::polled;

    use super::*;

    /// How a client begins (RFC 9113, section 3.4): the preface, and settings without a value.
    const BEGIN: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

    /// The start of the frame by which a server ends a connection.
    const GOAWAY: &[u8] = b"\0\0\x08\x07\0";

    #[test]
    fn a_connection_that_never_waits_sees_that_the_server_ends() {
        let runtime = uthread::Runtime::builder().workers(1).build().unwrap();
        runtime.run(|| {
            let (connection, mut client) = polled();
            client.set_nonblocking(true).unwrap();
            client.write_all(BEGIN).unwrap();
            let shared = Arc::clone(&connection.shared);
            let waker = connection.peer.waker.clone();
            // Rings whenever the connection lets others run, so that it never finds the bell silent.
            let ringing = uthread::spawn(move || {
                let mut received = Vec::new();
                let start = Instant::now();
                while !received.windows(GOAWAY.len()).any(|bytes| bytes == GOAWAY) {
                    assert!(start.elapsed() < Duration::from_secs(5), "it goes on");
                    waker.wake_by_ref();
                    uthread::yield_now();
                    let _ = client.read_to_end(&mut received);
                    // After the settings of the server.
                    if !received.is_empty() {
                        shared.drain();
                    }
                }
            });
            let _ = serve(connection);
            ringing.join().unwrap();
        });
    }
}

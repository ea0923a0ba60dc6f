//! One connection: what hyper waits for, its fiber waits for.
//!
//! A request without a body is answered within hyper's poll: the connection has nothing else to do
//! meanwhile. One with a body gets a fiber, since hyper has to receive the body while the handler reads it.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use http::{HeaderValue, StatusCode, header};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use uthread::net::TcpStream;
use uthread::sync::mpsc::{Receiver, SyncSender, sync_channel};
use uthread::thread::{self, Cancelled, JoinHandle};

use crate::shared::{Peer, Shared};
use crate::stream::{Socket, Stream};
use crate::{Body, IntoResponse, Response};

/// Wakes the fiber of a connection.
struct Bell(SyncSender<()>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // It has rung if there is no room.
        let _ = self.0.try_send(());
    }
}

/// Serves the requests of a connection.
pub(crate) fn serve(shared: &Arc<Shared>, stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(shared.limits.keep_alive))?;
    stream.set_write_timeout(Some(shared.limits.keep_alive))?;
    let peer = shared.enter(stream);
    let socket = Socket::new(Arc::clone(&peer.stream));
    let requests = Requests {
        shared: Arc::clone(shared),
        socket: Rc::clone(&socket),
        running: Rc::default(),
        count: Rc::default(),
    };
    let (running, count) = (
        Running(Rc::clone(&requests.running)),
        Rc::clone(&requests.count),
    );
    let (sender, bell) = sync_channel(1);
    let waker = Waker::from(Arc::new(Bell(sender)));
    let mut builder = http1::Builder::new();
    builder.half_close(true).pipeline_flush(true);
    let mut connection = pin!(builder.serve_connection(Stream(Rc::clone(&socket)), requests));
    let mut head = Head::default();
    loop {
        {
            let mut socket = socket.borrow_mut();
            (socket.wants_read, socket.wants_write) = (false, false);
        }
        match connection.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result.map_err(io::Error::other),
            Poll::Pending => {}
        }
        let is_answering = running.0.borrow().is_some();
        if is_answering {
            await_either(&socket.borrow(), &bell)?;
        } else if bell.try_recv().is_err() {
            head.receive(shared, &peer, &socket, count.get())?;
        }
    }
}

/// The fiber that answers a request with a body. It ends with its connection.
struct Running(Rc<RefCell<Option<JoinHandle<()>>>>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(fiber) = self.0.take() {
            fiber.cancel();
            let _ = uthread::shield(|| fiber.join());
        }
    }
}

/// Waits for what hyper waits for, beside a fiber that answers.
fn await_either(socket: &Socket, bell: &Receiver<()>) -> io::Result<()> {
    let stream = &*socket.stream;
    match (socket.wants_read, socket.wants_write) {
        (true, true) => uthread::select! {
            recv(bell) -> _ => Ok(()),
            readable(stream) -> ready => ready,
            writable(stream) -> ready => ready,
        },
        (true, false) => uthread::select! {
            recv(bell) -> _ => Ok(()),
            readable(stream) -> ready => ready,
        },
        (false, true) => uthread::select! {
            recv(bell) -> _ => Ok(()),
            writable(stream) -> ready => ready,
        },
        (false, false) => bell.recv().map_err(io::Error::other),
    }
}

/// The wait for the head of a request.
#[derive(Default)]
struct Head {
    /// When the first bytes have arrived, and the number of requests before.
    begun: Option<(Instant, usize)>,
}

impl Head {
    fn receive(
        &mut self,
        shared: &Shared,
        peer: &Peer,
        socket: &RefCell<Socket>,
        count: usize,
    ) -> io::Result<()> {
        self.begun.take_if(|(_, before)| *before < count);
        let Some((since, _)) = self.begun else {
            if !peer.begin_idle(shared) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            let received = socket.borrow_mut().receive();
            peer.end_idle();
            if received? > 0 {
                self.begun = Some((Instant::now(), count));
            }
            return Ok(());
        };
        let left = shared.limits.head.saturating_sub(since.elapsed());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        uthread::timeout(left, || socket.borrow_mut().receive())
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map(drop)
    }
}

/// Answers the requests of a connection.
struct Requests {
    shared: Arc<Shared>,
    socket: Rc<RefCell<Socket>>,
    /// The fiber that answers a request with a body.
    running: Rc<RefCell<Option<JoinHandle<()>>>>,
    /// Number of requests so far.
    count: Rc<Cell<usize>>,
}

impl Service<http::Request<Incoming>> for Requests {
    type Response = Response;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, request: http::Request<Incoming>) -> Answer {
        self.count.set(self.count.get() + 1);
        let shared = Arc::clone(&self.shared);
        let max = shared.limits.body_max;
        if request.body().is_end_stream() {
            let request = request.map(|_| Body::empty());
            return Answer::Now(Some(shared.answer(request)));
        }
        let is_too_large = request.body().size_hint().lower() > max;
        if is_too_large {
            return Answer::Now(Some(StatusCode::PAYLOAD_TOO_LARGE.into_response()));
        }
        let request = request.map(|body| Body::from_incoming(body, max));
        let slot = Arc::new(Mutex::new(Slot::default()));
        let answered = Answered(Arc::clone(&slot));
        let fiber = uthread::spawn(move || answered.with(shared.answer(request)));
        self.running.replace(Some(fiber));
        self.socket.borrow_mut().is_shared = true;
        Answer::Later {
            slot,
            socket: Rc::clone(&self.socket),
            running: Rc::clone(&self.running),
        }
    }
}

#[derive(Default)]
struct Slot {
    response: Option<Response>,
    waker: Option<Waker>,
}

/// Hands over the response of a fiber, or a failure if the fiber ends without one.
struct Answered(Arc<Mutex<Slot>>);

impl Answered {
    fn with(self, response: Response) {
        lock(&self.0).response = Some(response);
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        let mut slot = lock(&self.0);
        slot.response
            .get_or_insert_with(|| StatusCode::INTERNAL_SERVER_ERROR.into_response());
        let waker = slot.waker.take();
        drop(slot);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

fn lock(slot: &Mutex<Slot>) -> std::sync::MutexGuard<'_, Slot> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The response to a request, now or later.
enum Answer {
    Now(Option<Response>),
    Later {
        slot: Arc<Mutex<Slot>>,
        socket: Rc<RefCell<Socket>>,
        running: Rc<RefCell<Option<JoinHandle<()>>>>,
    },
}

impl Future for Answer {
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Answer::Now(response) => Poll::Ready(Ok(response.take().expect("it is polled once"))),
            Answer::Later {
                slot,
                socket,
                running,
            } => {
                let mut slot = lock(slot);
                let Some(response) = slot.response.take() else {
                    slot.waker = Some(context.waker().clone());
                    return Poll::Pending;
                };
                running.take();
                socket.borrow_mut().is_shared = false;
                Poll::Ready(Ok(response))
            }
        }
    }
}

impl Shared {
    /// Calls the handler, and answers for it if it panics or takes too long.
    fn answer(self: &Arc<Self>, request: crate::Request) -> Response {
        let answered = match self.limits.timeout {
            None => catch_unwind(AssertUnwindSafe(|| self.handler.call(request))),
            Some(limit) => self.answer_within(limit, request),
        };
        let mut response = match answered {
            Ok(response) => response,
            // The fiber of the connection ends, and not only the request.
            Err(payload) if payload.is::<Cancelled>() => resume_unwind(payload),
            // The hook has printed the panic.
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        };
        if self.is_draining() {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        response
    }

    /// Calls the handler in a fiber, which goes on beside if it does not end in time.
    fn answer_within(
        self: &Arc<Self>,
        limit: Duration,
        request: crate::Request,
    ) -> thread::Result<Response> {
        if self.overdue.load(Ordering::Relaxed) >= self.limits.overdue_max {
            return Ok(StatusCode::SERVICE_UNAVAILABLE.into_response());
        }
        let late = || Ok(StatusCode::GATEWAY_TIMEOUT.into_response());
        let (shared, begun) = (Arc::clone(self), Instant::now());
        let call = uthread::spawn(move || {
            // Most calls end then, and so does the handler.
            uthread::timeout(limit, || shared.handler.call(request))
        });
        match call.join_timeout(limit) {
            Ok(Ok(Ok(response))) => {
                let has_failed = response.status() == StatusCode::INTERNAL_SERVER_ERROR;
                // Whatever the handler has made of calls that ended.
                let is_late = has_failed && begun.elapsed() >= limit;
                if is_late { late() } else { Ok(response) }
            }
            Ok(Ok(Err(_elapsed))) => late(),
            Ok(Err(payload)) => Err(payload),
            Err(call) => {
                if thread::is_cancelled() {
                    call.cancel();
                }
                self.overdue.fetch_add(1, Ordering::Relaxed);
                let shared = Arc::clone(self);
                uthread::spawn(move || {
                    let _ = call.join();
                    shared.overdue.fetch_sub(1, Ordering::Relaxed);
                });
                late()
            }
        }
    }
}

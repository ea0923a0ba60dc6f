//! A connection of HTTP/1.
//!
//! A request without a body is answered within hyper's poll: the connection has nothing else to do
//! meanwhile. One with a body gets a fiber, since hyper has to receive the body while the handler
//! reads it.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use http::{HeaderValue, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use uthread::thread::JoinHandle;

use crate::body::Outgoing;
use crate::connection::Connection;
use crate::shared::{Peer, Shared};
use crate::stream::{Link, Stream};
use crate::{IntoResponse, Response};

/// Serves the requests of a connection.
pub(crate) fn serve(connection: Connection) -> io::Result<()> {
    let link = connection.socket.borrow().transport.link().clone();
    let requests = Requests {
        shared: Arc::clone(&connection.shared),
        peer: Arc::clone(&connection.peer),
        link: link.clone(),
        running: Rc::default(),
        count: Rc::default(),
    };
    let (running, count) = (
        Running(Rc::clone(&requests.running)),
        Rc::clone(&requests.count),
    );
    let waker = connection.peer.waker.clone();
    let mut builder = http1::Builder::new();
    builder.half_close(true).pipeline_flush(true);
    let stream = Stream(Rc::clone(&connection.socket));
    let mut served = std::pin::pin!(builder.serve_connection(stream, requests));
    // The first one has begun.
    let mut head = Head {
        begun: Some((Instant::now(), 0)),
    };
    loop {
        connection.begin_poll();
        match served.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result.map_err(io::Error::other),
            Poll::Pending => {}
        }
        if running.is_some() || link.polls() {
            let wants_write = connection.socket.borrow().wants_write;
            let limit = wants_write.then_some(connection.shared.limits.keep_alive);
            if !connection.wait(limit)? {
                return Err(io::ErrorKind::TimedOut.into());
            }
        } else if !connection.has_rung() {
            head.receive(&connection, count.get())?;
        }
    }
}

/// The fiber that answers a request with a body. It ends with its connection.
struct Running(Rc<RefCell<Option<JoinHandle<()>>>>);

impl Running {
    fn is_some(&self) -> bool {
        self.0.borrow().is_some()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(fiber) = self.0.take() {
            fiber.cancel();
            let _ = uthread::shield(|| fiber.join());
        }
    }
}

/// The wait for the head of a request.
struct Head {
    /// When the first bytes have arrived, and the number of requests before.
    begun: Option<(Instant, usize)>,
}

impl Head {
    fn receive(&mut self, connection: &Connection, count: usize) -> io::Result<()> {
        self.begun.take_if(|(_, before)| *before < count);
        let Some((since, _)) = self.begun else {
            if connection.receive_idle()? > 0 {
                self.begun = Some((Instant::now(), count));
            }
            return Ok(());
        };
        let left = connection
            .shared
            .limits
            .head
            .saturating_sub(since.elapsed());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut socket = connection.socket.borrow_mut();
        uthread::timeout(left, || socket.receive())
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map(drop)
    }
}

/// Answers the requests of a connection.
struct Requests {
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    link: Link,
    /// The fiber that answers a request with a body.
    running: Rc<RefCell<Option<JoinHandle<()>>>>,
    /// Number of requests so far.
    count: Rc<Cell<usize>>,
}

impl Service<http::Request<Incoming>> for Requests {
    type Response = http::Response<Outgoing>;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, request: http::Request<Incoming>) -> Answer {
        self.count.set(self.count.get() + 1);
        let request = match self.shared.receive(&self.peer, request) {
            Ok(request) => request,
            Err(status) => return Answer::now(self.finish(status.into_response())),
        };
        let shared = Arc::clone(&self.shared);
        if request.body().is_complete() {
            return Answer::now(self.finish(shared.answer(request)));
        }
        let slot = Arc::new(Mutex::new(Slot::default()));
        let answered = Answered(Arc::clone(&slot));
        let fiber = uthread::spawn(move || answered.with(shared.answer(request)));
        self.running.replace(Some(fiber));
        self.link.set_polls(true);
        Answer {
            now: None,
            later: Some(Later {
                slot,
                link: self.link.clone(),
                running: Rc::clone(&self.running),
                shared: Arc::clone(&self.shared),
            }),
        }
    }
}

impl Requests {
    fn finish(&self, response: Response) -> http::Response<Outgoing> {
        finish(&self.shared, &self.link, response)
    }
}

/// Returns the response as it goes out.
fn finish(shared: &Shared, link: &Link, mut response: Response) -> http::Response<Outgoing> {
    if shared.is_draining() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response.map(|body| Outgoing::on(body, link))
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

fn lock(slot: &Mutex<Slot>) -> MutexGuard<'_, Slot> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The response to a request, now or later.
struct Answer {
    now: Option<http::Response<Outgoing>>,
    later: Option<Later>,
}

/// What the fiber of a request answers.
struct Later {
    slot: Arc<Mutex<Slot>>,
    link: Link,
    running: Rc<RefCell<Option<JoinHandle<()>>>>,
    shared: Arc<Shared>,
}

impl Answer {
    fn now(response: http::Response<Outgoing>) -> Answer {
        Answer {
            now: Some(response),
            later: None,
        }
    }
}

impl Future for Answer {
    type Output = Result<http::Response<Outgoing>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(later) = &self.later else {
            return Poll::Ready(Ok(self.now.take().expect("it is polled once")));
        };
        let mut slot = lock(&later.slot);
        let Some(response) = slot.response.take() else {
            slot.waker = Some(context.waker().clone());
            return Poll::Pending;
        };
        later.running.take();
        later.link.set_polls(false);
        Poll::Ready(Ok(finish(&later.shared, &later.link, response)))
    }
}

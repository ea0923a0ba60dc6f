//! A connection of HTTP/1.
//!
//! Hyper is polled on a stack that all connections of a worker share. A request without a body is
//! answered between two polls: the connection has nothing else to do meanwhile. One with a body gets
//! a fiber, since hyper has to receive the body while the handler reads it.

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
use uthread::thread::{JoinHandle, on_shared_stack};

use crate::body::Outgoing;
use crate::connection::Connection;
use crate::shared::{Peer, Shared};
use crate::stream::{Link, Stream};
use crate::upgrade::{Speak, Switch};
use crate::{IntoResponse, Request, Response};

/// Serves the requests of a connection.
pub(crate) fn serve(connection: Connection) -> io::Result<()> {
    let link = connection.socket.borrow().transport.link().clone();
    let exchange = Rc::new(Exchange {
        shared: Arc::clone(&connection.shared),
        peer: Arc::clone(&connection.peer),
        link: link.clone(),
        asked: Cell::default(),
        answered: Cell::default(),
        running: RefCell::default(),
        count: Cell::default(),
        switch: RefCell::default(),
    });
    let _end = End(Rc::clone(&exchange));
    let waker = connection.peer.waker.clone();
    let mut builder = http1::Builder::new();
    // Without `pipeline_flush`, which keeps a response while a part of the next request is there.
    builder.half_close(true);
    let stream = Stream(Rc::clone(&connection.socket));
    let mut served = builder.serve_connection(stream, Requests(Rc::clone(&exchange)));
    // The first one has begun.
    let mut head = Head {
        begun: Some((Instant::now(), 0)),
    };
    let result = loop {
        connection.begin_poll();
        let mut context = Context::from_waker(&waker);
        let polled = on_shared_stack(|| served.poll_without_shutdown(&mut context));
        connection.socket.borrow_mut().send()?;
        match polled {
            Poll::Ready(result) => break result.map_err(io::Error::other),
            Poll::Pending => {}
        }
        if exchange.answer() {
            continue;
        }
        if exchange.running.borrow().is_some() || link.polls() {
            let wants_write = connection.socket.borrow().wants_write;
            let limit = wants_write.then_some(connection.shared.limits.keep_alive);
            if !connection.wait(limit)? {
                return Err(io::ErrorKind::TimedOut.into());
            }
        } else if !connection.has_rung() {
            head.receive(&connection, exchange.count.get())?;
        }
    };
    let speak = exchange.switch.take().filter(|_| result.is_ok());
    let Some(speak) = speak else {
        return connection.close().and(result);
    };
    let received = served.into_parts().read_buf;
    connection.upgrade(received, speak)
}

/// Ends the fiber that answers a request with a body, with its connection.
struct End(Rc<Exchange>);

impl Drop for End {
    fn drop(&mut self) {
        if let Some(fiber) = self.0.running.take() {
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

/// The requests of a connection, and the one that is answered.
struct Exchange {
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    link: Link,
    /// The request without a body that is to be answered.
    asked: Cell<Option<Request>>,
    /// The response to it.
    answered: Cell<Option<Response>>,
    /// The fiber that answers a request with a body.
    running: RefCell<Option<JoinHandle<()>>>,
    /// Number of requests so far.
    count: Cell<usize>,
    /// What follows the last response.
    switch: RefCell<Option<Box<Speak>>>,
}

impl Exchange {
    /// Answers a request without a body, if there is one. Never inlined: what follows has the same
    /// place on the stack.
    #[inline(never)]
    fn answer(&self) -> bool {
        let Some(request) = self.asked.take() else {
            return false;
        };
        self.answered.set(Some(self.shared.answer(request)));
        true
    }

    /// Returns the response as it goes out.
    fn finish(&self, mut response: Response) -> http::Response<Outgoing> {
        if let Some(switch) = response.extensions_mut().remove::<Switch>() {
            self.switch.replace(switch.take());
        } else if self.shared.is_draining() {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        response.map(|body| Outgoing::on(body, &self.link))
    }
}

/// Answers the requests of a connection.
struct Requests(Rc<Exchange>);

impl Service<http::Request<Incoming>> for Requests {
    type Response = http::Response<Outgoing>;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, request: http::Request<Incoming>) -> Answer {
        let exchange = &self.0;
        exchange.count.set(exchange.count.get() + 1);
        let request = exchange.shared.receive(&exchange.peer, request);
        let shared = Arc::clone(&exchange.shared);
        if request.body().is_complete() {
            exchange.asked.set(Some(request));
            return Answer::Here(Rc::clone(exchange));
        }
        let slot = Arc::new(Mutex::new(Slot::default()));
        let handover = Handover(Arc::clone(&slot));
        let fiber = uthread::spawn(move || handover.with(shared.answer(request)));
        exchange.running.replace(Some(fiber));
        exchange.link.set_polls(true);
        Answer::OfFiber(slot, Rc::clone(exchange))
    }
}

#[derive(Default)]
struct Slot {
    response: Option<Response>,
    waker: Option<Waker>,
}

/// Hands over the response of a fiber, or a failure if the fiber ends without one.
struct Handover(Arc<Mutex<Slot>>);

impl Handover {
    fn with(self, response: Response) {
        lock(&self.0).response = Some(response);
    }
}

impl Drop for Handover {
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

/// The response to a request.
enum Answer {
    /// It comes between two polls of the connection.
    Here(Rc<Exchange>),
    OfFiber(Arc<Mutex<Slot>>, Rc<Exchange>),
}

impl Future for Answer {
    type Output = Result<http::Response<Outgoing>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (exchange, response) = match &*self {
            Answer::Here(exchange) => (exchange, exchange.answered.take()),
            Answer::OfFiber(slot, exchange) => {
                let mut slot = lock(slot);
                let response = slot.response.take();
                if response.is_some() {
                    exchange.running.take();
                    exchange.link.set_polls(false);
                } else {
                    slot.waker = Some(context.waker().clone());
                }
                (exchange, response)
            }
        };
        response.map_or(Poll::Pending, |response| {
            Poll::Ready(Ok(exchange.finish(response)))
        })
    }
}

//! Calls of the handler: its panics, and its deadline.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use http::StatusCode;
use uthread::thread::{self, Cancelled};

use crate::response::Cause;
use crate::shared::{Answered, Shared};
use crate::{IntoResponse, Request, Response};

impl Shared {
    /// Answers a request, and tells the observer.
    pub(crate) fn answer(self: &Arc<Self>, request: Request) -> Response {
        let (Some(observer), Some(peer)) = (&self.observer, request.body().peer()) else {
            return self.call(request);
        };
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let (version, begun) = (request.version(), Instant::now());
        let mut response = self.call(request);
        let failure = response.extensions_mut().remove();
        observer(&Answered {
            peer,
            method,
            uri,
            version,
            status: response.status(),
            failure: failure.map(|Cause(source)| source),
            time: begun.elapsed(),
        });
        response
    }

    /// Calls the handler, and answers for it if it panics or takes too long.
    fn call(self: &Arc<Self>, request: Request) -> Response {
        if request.body().is_too_large() {
            return only(StatusCode::PAYLOAD_TOO_LARGE);
        }
        let answered = match self.limits.timeout {
            None => catch_unwind(AssertUnwindSafe(|| self.handler.call(request))),
            Some(limit) => self.answer_within(limit, request),
        };
        answered.unwrap_or_else(failed)
    }

    /// Calls the handler in a fiber, which goes on beside if it does not end in time.
    #[inline(never)]
    fn answer_within(
        self: &Arc<Self>,
        limit: Duration,
        request: Request,
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
            // A panic for the error of a call that ended.
            Ok(Err(payload)) if begun.elapsed() >= limit && !payload.is::<Cancelled>() => late(),
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

/// Returns a response without a body. Never inlined, as that takes a place on the stack.
#[cold]
#[inline(never)]
fn only(status: StatusCode) -> Response {
    status.into_response()
}

/// Returns the response to a request whose handler has panicked.
#[cold]
#[inline(never)]
fn failed(payload: Box<dyn Any + Send>) -> Response {
    if payload.is::<Cancelled>() {
        // The fiber ends, and not only the request.
        resume_unwind(payload);
    }
    // The hook has printed the panic.
    only(StatusCode::INTERNAL_SERVER_ERROR)
}

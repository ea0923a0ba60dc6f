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
            return StatusCode::PAYLOAD_TOO_LARGE.into_response();
        }
        match self.limits.timeout {
            None => {
                catch_unwind(AssertUnwindSafe(|| self.handler.call(request))).unwrap_or_else(failed)
            }
            Some(limit) => self.answer_within(limit, request),
        }
    }

    /// Calls the handler in a fiber, which goes on beside if it does not end in time.
    #[inline(never)]
    fn answer_within(self: &Arc<Self>, limit: Duration, request: Request) -> Response {
        if self.overdue.load(Ordering::Relaxed) >= self.limits.overdue_max {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
        let late = || StatusCode::GATEWAY_TIMEOUT.into_response();
        let (shared, begun) = (Arc::clone(self), Instant::now());
        let call = uthread::spawn(move || {
            // Most calls end then, and so does the handler.
            uthread::timeout(limit, || shared.handler.call(request))
        });
        let response = match call.join_timeout(limit) {
            Ok(Ok(Ok(response))) => response,
            Ok(Ok(Err(_elapsed))) => return late(),
            Ok(Err(payload)) => failed(payload),
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
                return late();
            }
        };
        // Whatever the handler has made of calls that ended, also a panic.
        let has_failed = response.status() == StatusCode::INTERNAL_SERVER_ERROR;
        if has_failed && begun.elapsed() >= limit {
            return late();
        }
        response
    }
}

/// Returns the response to a request whose handler has panicked.
fn failed(payload: Box<dyn Any + Send>) -> Response {
    if payload.is::<Cancelled>() {
        // The fiber ends, and not only the request.
        resume_unwind(payload);
    }
    // The hook has printed the panic.
    StatusCode::INTERNAL_SERVER_ERROR.into_response()
}

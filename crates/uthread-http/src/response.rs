//! What handlers return.

use std::error::Error;
use std::sync::Arc;
use std::{fmt, io};

use http::{HeaderValue, StatusCode, header};

use crate::{Body, Response};

/// What a handler may return: text, bytes, a status, a status with one of these, a response, or a `Result`
/// of two of them.
pub trait IntoResponse {
    /// Returns the response.
    fn into_response(self) -> Response;
}

impl IntoResponse for Response {
    fn into_response(self) -> Response {
        self
    }
}

fn typed(body: Body, content_type: &'static str) -> Response {
    let mut response = Response::new(body);
    let content_type = HeaderValue::from_static(content_type);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}

const TEXT: &str = "text/plain; charset=utf-8";
const BYTES: &str = "application/octet-stream";

impl IntoResponse for &'static str {
    fn into_response(self) -> Response {
        typed(self.into(), TEXT)
    }
}

impl IntoResponse for String {
    fn into_response(self) -> Response {
        typed(self.into(), TEXT)
    }
}

impl IntoResponse for Vec<u8> {
    fn into_response(self) -> Response {
        typed(self.into(), BYTES)
    }
}

impl IntoResponse for Body {
    fn into_response(self) -> Response {
        Response::new(self)
    }
}

impl IntoResponse for () {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}

impl IntoResponse for StatusCode {
    // As a response takes a place on the stack, and most of these are rare.
    #[inline(never)]
    fn into_response(self) -> Response {
        let mut response = Response::default();
        *response.status_mut() = self;
        response
    }
}

impl<T: IntoResponse> IntoResponse for (StatusCode, T) {
    fn into_response(self) -> Response {
        let (status, body) = self;
        let mut response = body.into_response();
        *response.status_mut() = status;
        response
    }
}

impl<T: IntoResponse, E: IntoResponse> IntoResponse for Result<T, E> {
    fn into_response(self) -> Response {
        match self {
            Ok(value) => value.into_response(),
            Err(error) => error.into_response(),
        }
    }
}

/// The error of a handler, into which `?` turns any other. The client gets a status and, unless that is
/// 500, the text. Then [`Server::observe`](crate::Server::observe) gets the error.
///
/// The status is 500, or for errors of I/O 413 if the kind is `FileTooLarge`, as for a body above the limit,
/// and 504 if it is `TimedOut`.
///
/// ```
/// use uthread_http::{Failure, IntoResponse, Request, StatusCode};
///
/// fn sum(request: Request) -> Result<String, Failure> {
///     let query = request.uri().query().ok_or(Failure::new(StatusCode::BAD_REQUEST, "no numbers"))?;
///     let numbers = query.split('+').map(str::parse::<u32>);
///     Ok(numbers.sum::<Result<u32, _>>()?.to_string())
/// }
///
/// let answer = |path: &str| {
///     let request = Request::new(Default::default());
///     let (mut parts, body) = request.into_parts();
///     parts.uri = path.parse().unwrap();
///     sum(Request::from_parts(parts, body)).into_response().status()
/// };
/// assert_eq!([answer("/?1+2"), answer("/"), answer("/?x")].map(|status| status.as_u16()), [200, 400, 500]);
/// ```
#[derive(Debug)]
pub struct Failure {
    status: StatusCode,
    source: Box<dyn Error + Send + Sync>,
}

impl Failure {
    /// Returns a failure with this status and text.
    pub fn new(status: StatusCode, text: impl Into<Box<dyn Error + Send + Sync>>) -> Failure {
        Failure {
            status,
            source: text.into(),
        }
    }

    /// Returns the status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(formatter)
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Failure {
        let source: Box<dyn Error + Send + Sync> = Box::new(error);
        let kind = source.downcast_ref().map(io::Error::kind);
        let status = match kind {
            Some(io::ErrorKind::FileTooLarge) => StatusCode::PAYLOAD_TOO_LARGE,
            Some(io::ErrorKind::TimedOut) => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Failure { status, source }
    }
}

/// What a response says nothing of: it goes with it, as an extension.
#[derive(Clone)]
pub(crate) struct Cause(pub(crate) Arc<dyn Error + Send + Sync>);

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match self.status {
            // What has failed inside is not the client's to know, but the observer's.
            StatusCode::INTERNAL_SERVER_ERROR => {
                let mut response = self.status.into_response();
                let cause = Cause(self.source.into());
                response.extensions_mut().insert(cause);
                response
            }
            status => (status, format!("{}\n", self.source)).into_response(),
        }
    }
}

/// A page of HTML. Whatever is part of it has to be escaped, as template engines do.
///
/// ```
/// use uthread_http::{Html, IntoResponse};
///
/// let response = Html("<p>Hello".to_owned()).into_response();
/// assert_eq!(response.headers()["content-type"], "text/html; charset=utf-8");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Html<T>(pub T);

impl<T: Into<Body>> IntoResponse for Html<T> {
    fn into_response(self) -> Response {
        typed(self.0.into(), "text/html; charset=utf-8")
    }
}

/// A value as JSON: what a handler returns, or gets by [`RequestExt::json`](crate::RequestExt::json).
///
/// ```
/// use std::collections::BTreeMap;
/// use uthread_http::{IntoResponse, Json};
///
/// let response = Json(BTreeMap::from([("answer", 42)])).into_response();
/// assert_eq!(response.headers()["content-type"], "application/json");
/// assert_eq!(&response.into_body().into_bytes().unwrap()[..], br#"{"answer":42}"#);
/// ```
#[cfg(feature = "json")]
#[derive(Debug, Clone, Copy)]
pub struct Json<T>(pub T);

#[cfg(feature = "json")]
impl<T: serde::Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(bytes) => typed(bytes.into(), "application/json"),
            Err(error) => Failure::from(error).into_response(),
        }
    }
}

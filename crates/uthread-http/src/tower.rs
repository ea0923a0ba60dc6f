//! Services of `tower` as handlers.

use std::error::Error;
use std::future::poll_fn;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt as _;
use tower_service::Service;

use crate::{Body, Failure, Handler, IntoResponse, Request, Response};

/// Bytes of a body that are awaited before the response goes out: most bodies are there at once.
const AWAITED_BYTES: u64 = 64 << 10;

/// A service of the crate `tower` as a handler, such as a router of `axum`. The fiber of the request runs the
/// future of the service, which may block, too. An error of the service is answered by 500.
///
/// What the service asks of Tokio, such as a timer, it finds in a runtime that is
/// [entered](https://docs.rs/tokio/latest/tokio/runtime/struct.Handle.html#method.enter) by a function
/// [around](crate::Router::around) it. Upgrades are those of this crate.
///
/// ```
/// use axum::extract::Path;
/// use axum::routing::get;
/// use uthread_http::{Handler, Request, Tower};
///
/// let router = axum::Router::new().route("/users/{id}", get(|Path(id): Path<u32>| async move {
///     uthread::sleep(std::time::Duration::from_millis(1)); // Suspends the fiber of this request.
///     format!("user {id}")
/// }));
/// let handler = Tower(router);
/// let mut request = Request::default();
/// *request.uri_mut() = "/users/7".parse()?;
/// let response = handler.call(request);
/// assert_eq!(&response.into_body().into_bytes()?[..], b"user 7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Tower<S>(pub S);

impl<S, B> Handler for Tower<S>
where
    S: Service<Request, Response = http::Response<B>> + Clone + Send + Sync + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    fn call(&self, request: Request) -> Response {
        let mut service = self.0.clone();
        let answered: Result<Response, Box<dyn Error + Send + Sync>> = uthread::block_on(async {
            let ready = poll_fn(|context| service.poll_ready(context)).await;
            ready.map_err(Into::into)?;
            let answered = service.call(request).await.map_err(Into::into)?;
            let (head, body) = answered.into_parts();
            let length = body.size_hint().exact();
            if length.is_some_and(|length| length <= AWAITED_BYTES) {
                let collected = body.collect().await.map_err(Into::into)?;
                return Ok(Response::from_parts(head, collected.to_bytes().into()));
            }
            Ok(Response::from_parts(head, Body::from_http_body(body)))
        });
        answered
            .map_err(|error| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, error))
            .into_response()
    }
}

//! Methods, paths with parameters, and functions around handlers.

use std::collections::HashMap;
use std::net::SocketAddr;

use http::{HeaderValue, Method, StatusCode, header};

use crate::{IntoResponse, Request, Response};

/// What answers a request: a function from it to a response, or a [`Router`].
pub trait Handler: Send + Sync + 'static {
    /// Returns the response. May wait for whatever it needs.
    fn call(&self, request: Request) -> Response;
}

impl<F, R> Handler for F
where
    F: Fn(Request) -> R + Send + Sync + 'static,
    R: IntoResponse,
{
    fn call(&self, request: Request) -> Response {
        self(request).into_response()
    }
}

/// The parameters of a path, by name.
#[derive(Debug, Clone, Default)]
struct Parameters(Vec<(Box<str>, Box<str>)>);

/// What handlers ask of a request.
pub trait RequestExt {
    /// Returns a parameter of the route's path, percent-encoded as the client has sent it.
    fn param(&self, name: &str) -> Option<&str>;

    /// Returns the address of the client, as the connection has it: behind a proxy it is the proxy's.
    fn peer_addr(&self) -> Option<SocketAddr>;

    /// Returns the values of the query, `?a=1&b=2`.
    ///
    /// # Errors
    ///
    /// A failure with the status 400 if it has no such values.
    #[cfg(feature = "form")]
    fn query<T: serde::de::DeserializeOwned>(&self) -> Result<T, crate::Failure>;

    /// Reads the body as a form, `a=1&b=2`.
    ///
    /// # Errors
    ///
    /// As [`json`](RequestExt::json).
    #[cfg(feature = "form")]
    fn form<T: serde::de::DeserializeOwned>(self) -> Result<T, crate::Failure>;

    /// Reads the body as JSON.
    ///
    /// # Errors
    ///
    /// A failure with the status 400 if the body is no such value, and 413 if it is larger than the server
    /// permits.
    #[cfg(feature = "json")]
    fn json<T: serde::de::DeserializeOwned>(self) -> Result<T, crate::Failure>;
}

impl RequestExt for Request {
    fn param(&self, name: &str) -> Option<&str> {
        let Parameters(all) = self.extensions().get()?;
        let found = all.iter().find(|(known, _)| **known == *name)?;
        Some(&found.1)
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        self.body().peer()
    }

    #[cfg(feature = "form")]
    fn query<T: serde::de::DeserializeOwned>(&self) -> Result<T, crate::Failure> {
        let query = self.uri().query().unwrap_or_default();
        serde_urlencoded::from_str(query).map_err(bad_request)
    }

    #[cfg(feature = "form")]
    fn form<T: serde::de::DeserializeOwned>(self) -> Result<T, crate::Failure> {
        let bytes = self.into_body().into_bytes()?;
        serde_urlencoded::from_bytes(&bytes).map_err(bad_request)
    }

    #[cfg(feature = "json")]
    fn json<T: serde::de::DeserializeOwned>(self) -> Result<T, crate::Failure> {
        let bytes = self.into_body().into_bytes()?;
        serde_json::from_slice(&bytes).map_err(bad_request)
    }
}

#[cfg(any(feature = "form", feature = "json"))]
fn bad_request(error: impl std::fmt::Display) -> crate::Failure {
    crate::Failure::new(StatusCode::BAD_REQUEST, error.to_string())
}

/// Handlers by method and path.
///
/// A path has parameters, `/users/{id}`, and may end with one for the rest, `/files/{*path}`, as those of
/// axum. A path that no route has is answered by 404, another method by 405 with the methods that there are,
/// and `HEAD` by the handler of `GET`, without the body.
///
/// ```
/// use uthread_http::{Handler, Method, Request, RequestExt, Router, StatusCode};
///
/// let users = Router::new()
///     .get("/users/{id}", |request: Request| format!("user {}", request.param("id").unwrap()))
///     .route(Method::DELETE, "/users/{id}", |_: Request| StatusCode::FORBIDDEN)
///     // Around all handlers: a function of the request and of what follows.
///     .around(|request, next| {
///         let mut response = next(request);
///         response.headers_mut().insert("server", "fibers".parse().unwrap());
///         response
///     });
/// let answer = |method: Method, path: &str| {
///     let mut request = Request::default();
///     (*request.method_mut(), *request.uri_mut()) = (method, path.parse().unwrap());
///     users.call(request)
/// };
/// assert_eq!(answer(Method::GET, "/users/7").headers()["server"], "fibers");
/// assert_eq!(answer(Method::DELETE, "/users/7").status(), 403);
/// assert_eq!(answer(Method::PUT, "/users/7").headers()["allow"], "GET,HEAD,DELETE");
/// assert_eq!(answer(Method::GET, "/").status(), 404);
/// ```
#[derive(Default)]
pub struct Router {
    paths: matchit::Router<usize>,
    /// The index of each path's handlers.
    known: HashMap<String, usize>,
    handlers: Vec<Vec<(Method, Box<dyn Handler>)>>,
    around: Vec<Box<Around>>,
}

type Around = dyn Fn(Request, &dyn Fn(Request) -> Response) -> Response + Send + Sync;

impl Router {
    /// Creates a router without routes.
    #[must_use]
    pub fn new() -> Router {
        Router::default()
    }

    /// Adds a handler for `GET`.
    ///
    /// # Panics
    ///
    /// Panics as [`route`](Router::route).
    #[must_use]
    pub fn get(self, path: &str, handler: impl Handler) -> Router {
        self.route(Method::GET, path, handler)
    }

    /// Adds a handler for `POST`.
    ///
    /// # Panics
    ///
    /// Panics as [`route`](Router::route).
    #[must_use]
    pub fn post(self, path: &str, handler: impl Handler) -> Router {
        self.route(Method::POST, path, handler)
    }

    /// Adds a handler.
    ///
    /// # Panics
    ///
    /// Panics if the path is none, if it conflicts with another one, or if it has a handler for this
    /// method.
    #[must_use]
    pub fn route(mut self, method: Method, path: &str, handler: impl Handler) -> Router {
        let new = self.handlers.len();
        let index = *self.known.entry(path.to_owned()).or_insert(new);
        if index == new {
            let added = self.paths.insert(path, index);
            added.unwrap_or_else(|error| panic!("the path {path}: {error}"));
            self.handlers.push(Vec::new());
        }
        let handlers = &mut self.handlers[index];
        assert!(
            handlers.iter().all(|(known, _)| *known != method),
            "{method} {path} has a handler"
        );
        handlers.push((method, Box::new(handler)));
        self
    }

    /// Puts a function around all handlers, also those of no route. It gets the request and what answers
    /// it. The last one that was put is the outermost.
    #[must_use]
    pub fn around(
        mut self,
        function: impl Fn(Request, &dyn Fn(Request) -> Response) -> Response + Send + Sync + 'static,
    ) -> Router {
        self.around.push(Box::new(function));
        self
    }

    fn answer(&self, mut request: Request) -> Response {
        let Ok(found) = self.paths.at(request.uri().path()) else {
            return StatusCode::NOT_FOUND.into_response();
        };
        let handlers = &self.handlers[*found.value];
        let of = |method: &Method| handlers.iter().find(|(known, _)| known == method);
        let handler = of(request.method());
        let handler = handler.or_else(|| match *request.method() {
            // The protocol leaves out the body.
            Method::HEAD => of(&Method::GET),
            _ => None,
        });
        let Some((_, handler)) = handler else {
            return not_allowed(handlers.iter().map(|(method, _)| method));
        };
        if !found.params.is_empty() {
            let parameters = found.params.iter();
            let parameters = parameters.map(|(name, value)| (name.into(), value.into()));
            let parameters = Parameters(parameters.collect());
            request.extensions_mut().insert(parameters);
        }
        handler.call(request)
    }

    fn answer_within(&self, around: &[Box<Around>], request: Request) -> Response {
        match around.split_last() {
            None => self.answer(request),
            Some((outer, inner)) => outer(request, &|request| self.answer_within(inner, request)),
        }
    }
}

#[inline(never)]
fn not_allowed<'a>(methods: impl Iterator<Item = &'a Method>) -> Response {
    let mut allowed = String::new();
    for method in methods {
        let separator = if allowed.is_empty() { "" } else { "," };
        allowed += separator;
        allowed += method.as_str();
        if *method == Method::GET {
            allowed += ",HEAD";
        }
    }
    let mut response = StatusCode::METHOD_NOT_ALLOWED.into_response();
    let allowed = HeaderValue::try_from(allowed).expect("methods are tokens");
    response.headers_mut().insert(header::ALLOW, allowed);
    response
}

impl Handler for Router {
    fn call(&self, request: Request) -> Response {
        if self.around.is_empty() {
            return self.answer(request);
        }
        self.answer_within(&self.around, request)
    }
}

impl std::fmt::Debug for Router {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.known.keys()).finish()
    }
}

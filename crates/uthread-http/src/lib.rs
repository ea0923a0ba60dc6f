//! A server of HTTP/1.1 and HTTP/2 whose handlers block.
//!
//! A handler is a function from a request to a response. It runs in a fiber: whatever it waits for, a
//! database, another service, a file or a lock, it waits for as blocking code does, and its worker serves
//! others meanwhile. The protocol is that of [`hyper`], and the types are those of the crate [`http`].
//!
//! ```
//! use uthread::net::TcpListener;
//! use uthread_http::{Request, RequestExt, Router, Server};
//!
//! let router = Router::new().get("/hello/{name}", |request: Request| {
//!     format!("Hello, {}!\n", request.param("name").unwrap_or_default())
//! });
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let address = listener.local_addr()?;
//! let end = listener.try_clone()?;
//! let server = uthread::spawn(move || Server::new(router).serve(&listener));
//!
//! # use std::io::{Read, Write};
//! let mut client = uthread::net::TcpStream::connect(address)?;
//! client.write_all(b"GET /hello/fibers HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")?;
//! let mut answer = String::new();
//! client.read_to_string(&mut answer)?;
//! assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("Hello, fibers!\n"));
//! // Connections that wait for a request are closed, and the others end with their response.
//! end.shutdown()?;
//! server.join().unwrap()?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! ```text
//!   HTTP/1   fiber of a connection   receive -> hyper parses -> handler -> hyper writes -> send -> ..
//!            fiber of a request      handler, if the request has a body: the connection receives that meanwhile
//!   HTTP/2   fiber of a connection   receive frames -> hyper -> send frames -> ..
//!            fiber of a stream       handler -> body of the response
//! ```
//!
//! A client that goes ends its requests with a body, and all of HTTP/2: their handlers are
//! [cancelled](uthread::thread::JoinHandle::cancel). A handler of another request goes on until it
//! has answered. One stream that a client resets does not end its handler.
//!
//! | module | contents |
//! | --- | --- |
//! | `body` | bodies, which are read by [`Read`](std::io::Read) and made of bytes, text or a reader |
//! | `response` | what handlers return |
//! | `router` | methods, paths with parameters, and functions around handlers |
//! | `server` | limits, and the connections until their end |
//! | `files` | files of a folder |
//! | `tower` | services of `tower` as handlers |
//! | `upgrade` | connections that go on with another protocol |
//! | `answer` | calls of the handler: its panics, and its deadline |
//! | `protocol` | the protocol of a connection |
//! | `http1`, `http2` | a connection of that protocol |
//! | `connection` | what hyper waits for, the fiber of a connection waits for |
//! | `shared` | what a server and its connections share |
//! | `stream` | the socket, with TLS or without, as hyper reads and writes it |

mod body;
mod response;

mod router;
mod shared;
mod stream;

mod answer;
#[cfg(feature = "files")]
mod files;
#[cfg(feature = "tower")]
mod tower;
mod upgrade;

mod connection;
mod http1;
#[cfg(feature = "http2")]
mod http2;
mod protocol;
mod server;

pub use body::Body;
#[cfg(feature = "files")]
pub use files::Files;
pub use http::{self, HeaderMap, Method, StatusCode, header};
#[cfg(feature = "json")]
pub use response::Json;
pub use response::{Failure, Html, IntoResponse};
pub use router::{Handler, RequestExt, Router};
pub use server::{Answered, Server};
#[cfg(feature = "tower")]
pub use tower::Tower;
#[cfg(feature = "websocket")]
pub use upgrade::websocket;
pub use upgrade::{Upgraded, upgrade};

/// A request with its body.
pub type Request = http::Request<Body>;

/// A response with its body.
pub type Response = http::Response<Body>;

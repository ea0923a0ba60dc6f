//! Adapters between the blocking streams of [`uthread`] and the traits of async streams.
//!
//! | adapter | around | implements |
//! | --- | --- | --- |
//! | [`Async`] | a socket, such as [`uthread::net::TcpStream`] | [`AsyncRead`](futures_io::AsyncRead), [`AsyncWrite`](futures_io::AsyncWrite) |
//! | [`Blocking`] | a stream with these traits | [`Read`](std::io::Read), [`Write`](std::io::Write) |
//!
//! The traits are those of the crate `futures-io`, which `futures` exports as `futures::io`. For a
//! crate that takes the traits of Tokio, wrap the adapter by `tokio_util::compat`, and for `hyper`
//! that by `hyper_util::rt::TokioIo`:
//!
//! ```text
//! let stream = TokioIo::new(Async::new(stream).compat());
//! uthread::block_on(hyper::server::conn::http1::Builder::new().serve_connection(stream, service))
//! ```
//!
//! The guide of `uthread` has a chapter on [async crates](uthread::guide::async_crates).

mod direction;
mod stream;

mod blocking;

pub use blocking::Blocking;
pub use stream::Async;

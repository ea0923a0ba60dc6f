//! The server over real sockets, on each driver.

mod common;
mod http1;
#[cfg(feature = "http2")]
mod http2;
#[cfg(feature = "tls")]
mod tls;

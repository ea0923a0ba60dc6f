//! The server over real sockets, on each driver.

mod common;
#[cfg(all(
    feature = "files",
    feature = "form",
    feature = "tower",
    feature = "websocket"
))]
mod handlers;
mod hostile;
mod http1;
#[cfg(feature = "http2")]
mod http2;
#[cfg(feature = "tls")]
mod tls;

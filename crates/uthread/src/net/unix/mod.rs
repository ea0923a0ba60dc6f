//! Unix sockets: streams, listeners and datagrams, bound to paths or to abstract names.

mod datagram;
mod listener;
mod stream;

mod address;
mod credentials;
mod fds;

pub use std::os::unix::net::SocketAddr;

pub use credentials::UCred;
pub use datagram::UnixDatagram;
pub use fds::{FDS_MAX, ReceivedFds};
pub use listener::{Incoming, UnixListener};
pub use stream::UnixStream;

//! TCP, UDP and Unix sockets, with the names of `std::net`.
//!
//! In a fiber, a call that has to wait suspends the fiber; outside the runtime it blocks the thread. Plain
//! types such as [`SocketAddr`] are re-exported from `std::net`.

mod methods;
mod settings;
mod socket;

mod inherited;
mod resolve;
mod send_file;
mod serve;
pub(crate) mod splice;
mod tcp;
mod udp;
pub mod unix;

pub use std::net::{
    AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6,
};

pub use inherited::{InheritedListener, InheritedSocket, listeners_from_env};
pub use resolve::ToSocketAddrs;
pub use serve::{AcceptFailure, Listener, serve};
pub use tcp::{Incoming, Keepalive, TcpListener, TcpSocket, TcpStream};
pub use udp::UdpSocket;
pub use unix::{UnixDatagram, UnixListener, UnixStream};

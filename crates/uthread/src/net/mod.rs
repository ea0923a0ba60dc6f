//! Sockets by the names of `std::net`.
//!
//! In a fiber each call that waits suspends the fiber; outside the runtime it blocks the thread.
//! What does not wait is the same in both. The plain types of `std::net` are re-exported.

mod methods;
mod settings;
mod socket;

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

pub use resolve::ToSocketAddrs;
pub use serve::{Listener, serve};
pub use tcp::{Incoming, Keepalive, TcpListener, TcpSocket, TcpStream};
pub use udp::UdpSocket;
pub use unix::{UnixDatagram, UnixListener, UnixStream};

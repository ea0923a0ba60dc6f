//! TCP streams, listeners, and sockets that are configured before they become one of them.

mod listener;
mod stream;

mod keepalive;
mod socket;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType};

use crate::op::net::SOCKET_FLAGS;

pub use keepalive::Keepalive;
pub use listener::{Incoming, TcpListener};
pub use socket::TcpSocket;
pub use stream::TcpStream;

/// Creates a TCP socket for the address family of `address`.
fn socket_for(address: SocketAddr) -> io::Result<OwnedFd> {
    open(match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    })
}

fn open(family: AddressFamily) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SOCKET_FLAGS, None)?;
    Ok(socket)
}

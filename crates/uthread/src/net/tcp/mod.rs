//! TCP streams, listeners, and sockets that are configured before they become one of them.

mod listener;
mod stream;

mod keepalive;
mod socket;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::op::net::SOCKET_FLAGS;
use crate::sched::caller;

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
    if caller::has_virtual_time() {
        // Nagle's algorithm waits for a timer of the kernel.
        sockopt::set_tcp_nodelay(&socket, true)?;
    }
    Ok(socket)
}

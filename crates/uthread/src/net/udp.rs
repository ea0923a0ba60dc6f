//! UDP.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::time::Duration;

use super::methods::{impl_buffer_sizes, impl_datagram, impl_socket, impl_timeouts};
use super::resolve::{ToSocketAddrs, for_each_address};
use super::socket::{Inner, Socket};

impl Inner for std::net::UdpSocket {
    const DRAINS: bool = false;
}

/// A UDP socket, as [`std::net::UdpSocket`].
///
/// ```
/// use uthread::net::UdpSocket;
///
/// let server = UdpSocket::bind("127.0.0.1:0")?;
/// let client = UdpSocket::bind("127.0.0.1:0")?;
/// client.connect(server.local_addr()?)?;
/// client.send(b"question")?;
/// let mut buffer = [0; 100];
/// let (count, from) = server.recv_from(&mut buffer)?;
/// assert_eq!(&buffer[..count], b"question");
/// server.send_to(b"answer", from)?;
/// let count = client.recv(&mut buffer)?;
/// assert_eq!(&buffer[..count], b"answer");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct UdpSocket {
    socket: Socket<std::net::UdpSocket>,
}

impl UdpSocket {
    /// Binds to the first of the addresses that is free; port 0 asks for a free one.
    ///
    /// # Errors
    ///
    /// The last address's: `EADDRINUSE`, `EACCES`; or the resolver's.
    ///
    /// ```
    /// use uthread::net::UdpSocket;
    ///
    /// let socket = UdpSocket::bind("127.0.0.1:0")?;
    /// let second = UdpSocket::bind(socket.local_addr()?);
    /// assert_eq!(second.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn bind<A: ToSocketAddrs>(address: A) -> io::Result<UdpSocket> {
        for_each_address(address, |address| {
            // Binding never waits.
            let inner = std::net::UdpSocket::bind(address)?;
            Ok(UdpSocket {
                socket: Socket::new(inner),
            })
        })
    }

    /// Sets the one address to which [`send`](UdpSocket::send) sends, and from which alone is received: the
    /// first of the addresses that the kernel takes.
    ///
    /// # Errors
    ///
    /// The kernel's: `ENETUNREACH`, `EAFNOSUPPORT`; or the resolver's.
    ///
    /// ```
    /// use uthread::net::UdpSocket;
    ///
    /// let [client, server, stranger] = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    /// client.connect(server.local_addr()?)?;
    /// stranger.send_to(b"unasked", client.local_addr()?)?;
    /// server.send_to(b"answer", client.local_addr()?)?;
    /// let mut buffer = [0; 100];
    /// let count = client.recv(&mut buffer)?;
    /// assert_eq!(&buffer[..count], b"answer");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn connect<A: ToSocketAddrs>(&self, address: A) -> io::Result<()> {
        // Connecting sends nothing, and never waits.
        for_each_address(address, |address| self.socket.inner.connect(address))
    }

    fn send_whole(&self, buffer: &[u8]) -> io::Result<usize> {
        self.socket.send(buffer)
    }

    /// Receives a datagram, and tells from where. What does not fit into the buffer is lost.
    ///
    /// # Errors
    ///
    /// The kernel's; `WouldBlock` after the timeout.
    ///
    /// ```
    /// use uthread::net::UdpSocket;
    ///
    /// let receiver = UdpSocket::bind("127.0.0.1:0")?;
    /// let sender = UdpSocket::bind("127.0.0.1:0")?;
    /// sender.send_to(b"a long word", receiver.local_addr()?)?;
    /// let mut buffer = [0; 6];
    /// assert_eq!(receiver.recv_from(&mut buffer)?, (6, sender.local_addr()?));
    /// assert_eq!(&buffer, b"a long");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (count, sender) = self.socket.receive_from(buffer, false)?;
        Ok((count, sender.to_socket_addr()?))
    }

    /// As [`recv_from`](UdpSocket::recv_from), but the next receive gets the same datagram.
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// ```
    /// # let socket = uthread::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"text", socket.local_addr()?)?;
    /// let mut buffer = [0; 100];
    /// let first = socket.peek_from(&mut buffer)?;
    /// assert_eq!(socket.recv_from(&mut buffer)?, first);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (count, sender) = self.socket.receive_from(buffer, true)?;
        Ok((count, sender.to_socket_addr()?))
    }

    /// Sends a datagram to the first of the addresses. See the example of [`UdpSocket`].
    ///
    /// # Errors
    ///
    /// The kernel's: `EMSGSIZE` for more than fits a datagram, `ECONNREFUSED` where an earlier one found
    /// nobody; `InvalidInput` for no address; or the resolver's.
    pub fn send_to<A: ToSocketAddrs>(&self, buffer: &[u8], address: A) -> io::Result<usize> {
        let Some(address) = address.to_socket_addrs()?.next() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "no addresses to send data to",
            ));
        };
        self.socket.send_to(buffer, &address.into())
    }

    /// The address it is connected to.
    ///
    /// # Errors
    ///
    /// The kernel's: `ENOTCONN`.
    ///
    /// ```
    /// use uthread::net::UdpSocket;
    ///
    /// let server = UdpSocket::bind("127.0.0.1:0")?;
    /// let client = UdpSocket::bind("127.0.0.1:0")?;
    /// assert_eq!(client.peer_addr().unwrap_err().kind(), std::io::ErrorKind::NotConnected);
    /// client.connect(server.local_addr()?)?;
    /// assert_eq!(client.peer_addr()?, server.local_addr()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.inner.peer_addr()
    }

    /// The address it is bound to.
    ///
    /// # Errors
    ///
    /// The kernel's.
    ///
    /// ```
    /// let socket = uthread::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let address = socket.local_addr()?;
    /// assert!(address.ip().is_loopback() && address.port() != 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.inner.local_addr()
    }

    /// Whether it may send to a whole network (`SO_BROADCAST`).
    ///
    /// # Errors
    ///
    /// The kernel's.
    ///
    /// ```
    /// let socket = uthread::net::UdpSocket::bind("127.0.0.1:0")?;
    /// socket.set_broadcast(true)?;
    /// assert!(socket.broadcast()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_broadcast(&self, broadcast: bool) -> io::Result<()> {
        self.socket.inner.set_broadcast(broadcast)
    }

    /// Whether it may send to a whole network, as in the example of [`set_broadcast`](UdpSocket::set_broadcast).
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn broadcast(&self) -> io::Result<bool> {
        self.socket.inner.broadcast()
    }

    /// Whether what it sends to a group of version 4 comes back to members on this machine.
    ///
    /// # Errors
    ///
    /// The kernel's.
    ///
    /// ```
    /// let socket = uthread::net::UdpSocket::bind("127.0.0.1:0")?;
    /// socket.set_multicast_loop_v4(false)?;
    /// assert!(!socket.multicast_loop_v4()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_multicast_loop_v4(&self, comes_back: bool) -> io::Result<()> {
        self.socket.inner.set_multicast_loop_v4(comes_back)
    }

    /// Whether what it sends to a group of version 4 comes back to members on this machine.
    /// See the example of [`set_multicast_loop_v4`](UdpSocket::set_multicast_loop_v4).
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn multicast_loop_v4(&self) -> io::Result<bool> {
        self.socket.inner.multicast_loop_v4()
    }

    /// Sets the time to live of what it sends to groups of version 4, in hops; 1 by default.
    ///
    /// # Errors
    ///
    /// The kernel's.
    ///
    /// ```
    /// let socket = uthread::net::UdpSocket::bind("127.0.0.1:0")?;
    /// assert_eq!(socket.multicast_ttl_v4()?, 1);
    /// socket.set_multicast_ttl_v4(4)?;
    /// assert_eq!(socket.multicast_ttl_v4()?, 4);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_multicast_ttl_v4(&self, ttl: u32) -> io::Result<()> {
        self.socket.inner.set_multicast_ttl_v4(ttl)
    }

    /// The time to live of what it sends to groups of version 4, in hops.
    /// See the example of [`set_multicast_ttl_v4`](UdpSocket::set_multicast_ttl_v4).
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn multicast_ttl_v4(&self) -> io::Result<u32> {
        self.socket.inner.multicast_ttl_v4()
    }

    /// Whether what it sends to a group of version 6 comes back to members on this machine.
    ///
    /// # Errors
    ///
    /// The kernel's.
    ///
    /// ```
    /// // Not every machine has version 6.
    /// if let Ok(socket) = uthread::net::UdpSocket::bind("[::1]:0") {
    ///     socket.set_multicast_loop_v6(false)?;
    ///     assert!(!socket.multicast_loop_v6()?);
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_multicast_loop_v6(&self, comes_back: bool) -> io::Result<()> {
        self.socket.inner.set_multicast_loop_v6(comes_back)
    }

    /// Whether what it sends to a group of version 6 comes back to members on this machine.
    /// See the example of [`set_multicast_loop_v6`](UdpSocket::set_multicast_loop_v6).
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn multicast_loop_v6(&self) -> io::Result<bool> {
        self.socket.inner.multicast_loop_v6()
    }

    /// Sets the time to live of outgoing packets, in hops.
    ///
    /// # Errors
    ///
    /// The kernel's.
    ///
    /// ```
    /// let socket = uthread::net::UdpSocket::bind("127.0.0.1:0")?;
    /// socket.set_ttl(64)?;
    /// assert_eq!(socket.ttl()?, 64);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.socket.inner.set_ttl(ttl)
    }

    /// The time to live of outgoing packets, in hops, as in the example of [`set_ttl`](UdpSocket::set_ttl).
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn ttl(&self) -> io::Result<u32> {
        self.socket.inner.ttl()
    }

    /// Receives what is sent to a group of version 4, at the interface with this address; the unspecified
    /// address lets the kernel choose one.
    ///
    /// # Errors
    ///
    /// The kernel's: `EINVAL` for an address that is no group's, `ENODEV` for no such interface.
    ///
    /// ```
    /// use uthread::net::{Ipv4Addr, UdpSocket};
    ///
    /// let (group, here) = (Ipv4Addr::new(239, 255, 0, 1), Ipv4Addr::LOCALHOST);
    /// let member = UdpSocket::bind("127.0.0.1:0")?;
    /// member.join_multicast_v4(&group, &here)?;
    /// member.leave_multicast_v4(&group, &here)?;
    /// assert!(member.join_multicast_v4(&here, &here).is_err(), "it is no group");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn join_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        self.socket.inner.join_multicast_v4(group, interface)
    }

    /// Receives what is sent to a group of version 6, at the interface of this index; 0 lets the kernel choose.
    ///
    /// # Errors
    ///
    /// As [`join_multicast_v4`](UdpSocket::join_multicast_v4).
    ///
    /// ```
    /// use uthread::net::{Ipv6Addr, UdpSocket};
    ///
    /// let group = Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0, 0x101);
    /// let loopback = 1;
    /// // Not every machine has version 6.
    /// if let Ok(member) = UdpSocket::bind("[::1]:0") {
    ///     member.join_multicast_v6(&group, loopback)?;
    ///     member.leave_multicast_v6(&group, loopback)?;
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.socket.inner.join_multicast_v6(group, interface)
    }

    /// Ends what [`join_multicast_v4`](UdpSocket::join_multicast_v4) began; see the example there.
    ///
    /// # Errors
    ///
    /// The kernel's: `EADDRNOTAVAIL` for a group that was not joined.
    pub fn leave_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        self.socket.inner.leave_multicast_v4(group, interface)
    }

    /// Ends what [`join_multicast_v6`](UdpSocket::join_multicast_v6) began; see the example there.
    ///
    /// # Errors
    ///
    /// As [`leave_multicast_v4`](UdpSocket::leave_multicast_v4).
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.socket.inner.leave_multicast_v6(group, interface)
    }
}

impl_socket!(
    UdpSocket,
    std::net::UdpSocket,
    "let socket = uthread::net::UdpSocket::bind(\"127.0.0.1:0\")?;"
);
impl_timeouts!(
    UdpSocket,
    "let socket = uthread::net::UdpSocket::bind(\"127.0.0.1:0\")?;"
);
impl_buffer_sizes!(
    UdpSocket,
    "let socket = uthread::net::UdpSocket::bind(\"127.0.0.1:0\")?;"
);
impl_datagram!(
    UdpSocket,
    "let socket = uthread::net::UdpSocket::bind(\"127.0.0.1:0\")?;
socket.connect(socket.local_addr()?)?;"
);

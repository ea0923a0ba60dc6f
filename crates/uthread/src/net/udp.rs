//! A UDP socket.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::time::Duration;

use super::methods::{impl_buffer_sizes, impl_datagram, impl_socket, impl_timeouts};
use super::resolve::{ToSocketAddrs, for_each_address};
use super::socket::{Inner, Socket};

impl Inner for std::net::UdpSocket {
    const IS_TCP_STREAM: bool = false;
}

/// A UDP socket; the counterpart of [`std::net::UdpSocket`].
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
    /// Creates a socket bound to the first of the addresses that can be bound. Port 0 requests a
    /// free port.
    ///
    /// # Errors
    ///
    /// `AddrInUse` if the address is taken; `PermissionDenied` if the process may not bind it; any
    /// other error that `socket(2)` or `bind(2)` reports for the last address, or that the resolver
    /// reports.
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

    /// Connects the socket to the first of the addresses that the kernel accepts:
    /// [`send`](UdpSocket::send) sends to this address, and only datagrams from it are received.
    ///
    /// # Errors
    ///
    /// `NetworkUnreachable` if there is no route to the address; `EAFNOSUPPORT` if it is of another
    /// address family than the socket; any other error that `connect(2)` reports for the last
    /// address, or that the resolver reports.
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
        // Connecting a UDP socket sends nothing and never waits.
        for_each_address(address, |address| self.socket.inner.connect(address))
    }

    fn send_whole(&self, buffer: &[u8]) -> io::Result<usize> {
        self.socket.send(buffer)
    }

    /// Receives a datagram and returns its length and its sender. Bytes that do not fit `buffer`
    /// are discarded.
    ///
    /// # Errors
    ///
    /// `WouldBlock` after the read timeout; any other error that `recvfrom(2)` reports.
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

    /// Receives a datagram without removing it from the queue: the next receive returns the same
    /// datagram.
    ///
    /// # Errors
    ///
    /// The errors of [`recv_from`](UdpSocket::recv_from).
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

    /// Sends a datagram to the first of the addresses, and returns the number of bytes sent. See
    /// the example of [`UdpSocket`].
    ///
    /// # Errors
    ///
    /// `InvalidInput` if there is no address; `EMSGSIZE` if `buffer` is too large for a datagram;
    /// `ConnectionRefused` if nothing received an earlier datagram; `WouldBlock` after the write
    /// timeout; any other error that `sendto(2)` or the resolver reports.
    pub fn send_to<A: ToSocketAddrs>(&self, buffer: &[u8], address: A) -> io::Result<usize> {
        let Some(address) = address.to_socket_addrs()?.next() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "no addresses to send data to",
            ));
        };
        self.socket.send_to(buffer, &address.into())
    }

    /// Returns the address that the socket is connected to.
    ///
    /// # Errors
    ///
    /// `NotConnected` if the socket is not connected; any other error that `getpeername(2)`
    /// reports.
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

    /// Returns the local address of the socket.
    ///
    /// # Errors
    ///
    /// Any error that `getsockname(2)` reports.
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

    /// Sets `SO_BROADCAST`, which allows sending to a broadcast address.
    ///
    /// # Errors
    ///
    /// Any error that `setsockopt(2)` reports.
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

    /// Returns `true` if the socket may send to a broadcast address (`SO_BROADCAST`). See the
    /// example of [`set_broadcast`](UdpSocket::set_broadcast).
    ///
    /// # Errors
    ///
    /// Any error that `getsockopt(2)` reports.
    pub fn broadcast(&self) -> io::Result<bool> {
        self.socket.inner.broadcast()
    }

    /// Sets `IP_MULTICAST_LOOP`, which delivers IPv4 multicast datagrams that this socket sends
    /// also to members of the group on this machine.
    ///
    /// # Errors
    ///
    /// Any error that `setsockopt(2)` reports.
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

    /// Returns `true` if IPv4 multicast datagrams are also delivered on this machine
    /// (`IP_MULTICAST_LOOP`). See the example of
    /// [`set_multicast_loop_v4`](UdpSocket::set_multicast_loop_v4).
    ///
    /// # Errors
    ///
    /// Any error that `getsockopt(2)` reports.
    pub fn multicast_loop_v4(&self) -> io::Result<bool> {
        self.socket.inner.multicast_loop_v4()
    }

    /// Sets the time to live of outgoing IPv4 multicast datagrams, in hops (`IP_MULTICAST_TTL`).
    /// The default is 1.
    ///
    /// # Errors
    ///
    /// Any error that `setsockopt(2)` reports.
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

    /// Returns the time to live of outgoing IPv4 multicast datagrams, in hops (`IP_MULTICAST_TTL`).
    /// See the example of [`set_multicast_ttl_v4`](UdpSocket::set_multicast_ttl_v4).
    ///
    /// # Errors
    ///
    /// Any error that `getsockopt(2)` reports.
    pub fn multicast_ttl_v4(&self) -> io::Result<u32> {
        self.socket.inner.multicast_ttl_v4()
    }

    /// Sets `IPV6_MULTICAST_LOOP`, which delivers IPv6 multicast datagrams that this socket sends
    /// also to members of the group on this machine.
    ///
    /// # Errors
    ///
    /// Any error that `setsockopt(2)` reports.
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

    /// Returns `true` if IPv6 multicast datagrams are also delivered on this machine
    /// (`IPV6_MULTICAST_LOOP`). See the example of
    /// [`set_multicast_loop_v6`](UdpSocket::set_multicast_loop_v6).
    ///
    /// # Errors
    ///
    /// Any error that `getsockopt(2)` reports.
    pub fn multicast_loop_v6(&self) -> io::Result<bool> {
        self.socket.inner.multicast_loop_v6()
    }

    /// Sets the time to live of outgoing datagrams, in hops (`IP_TTL`).
    ///
    /// # Errors
    ///
    /// Any error that `setsockopt(2)` reports.
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

    /// Returns the time to live of outgoing datagrams, in hops (`IP_TTL`). See the example of
    /// [`set_ttl`](UdpSocket::set_ttl).
    ///
    /// # Errors
    ///
    /// Any error that `getsockopt(2)` reports.
    pub fn ttl(&self) -> io::Result<u32> {
        self.socket.inner.ttl()
    }

    /// Joins an IPv4 multicast group on the interface with the address `interface`. With the
    /// unspecified address, the kernel chooses the interface.
    ///
    /// # Errors
    ///
    /// `InvalidInput` (`EINVAL`) if `group` is not a multicast address; `ENODEV` if there is no
    /// such interface; any other error that `setsockopt(2)` reports.
    ///
    /// ```
    /// use uthread::net::{Ipv4Addr, UdpSocket};
    ///
    /// let (group, here) = (Ipv4Addr::new(239, 255, 0, 1), Ipv4Addr::LOCALHOST);
    /// let member = UdpSocket::bind("127.0.0.1:0")?;
    /// member.join_multicast_v4(&group, &here)?;
    /// member.leave_multicast_v4(&group, &here)?;
    /// assert!(member.join_multicast_v4(&here, &here).is_err(), "the address is no group");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn join_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        self.socket.inner.join_multicast_v4(group, interface)
    }

    /// Joins an IPv6 multicast group on the interface with the index `interface`. With index 0, the
    /// kernel chooses the interface.
    ///
    /// # Errors
    ///
    /// `InvalidInput` (`EINVAL`) if `group` is not a multicast address; `ENODEV` if there is no
    /// such interface; any other error that `setsockopt(2)` reports.
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

    /// Leaves an IPv4 multicast group. See the example of
    /// [`join_multicast_v4`](UdpSocket::join_multicast_v4).
    ///
    /// # Errors
    ///
    /// `AddrNotAvailable` if the socket has not joined the group; any other error that
    /// `setsockopt(2)` reports.
    pub fn leave_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        self.socket.inner.leave_multicast_v4(group, interface)
    }

    /// Leaves an IPv6 multicast group. See the example of
    /// [`join_multicast_v6`](UdpSocket::join_multicast_v6).
    ///
    /// # Errors
    ///
    /// `AddrNotAvailable` if the socket has not joined the group; any other error that
    /// `setsockopt(2)` reports.
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

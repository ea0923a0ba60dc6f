//! Host names, resolved off the worker.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::{option, slice, vec};

use crate::sched::offload;

/// `std::net::ToSocketAddrs` whose look-ups do not block the worker: the system's resolver runs on
/// a thread of its own. What needs no look-up is converted at once.
///
/// ```
/// use uthread::net::ToSocketAddrs;
/// let address = "127.0.0.1:80".to_socket_addrs()?.next();
/// assert_eq!(address, Some("127.0.0.1:80".parse().unwrap()));
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait ToSocketAddrs {
    /// The addresses, in the order of preference.
    type Iter: Iterator<Item = SocketAddr>;

    /// Converts, or looks up. See the example of [`ToSocketAddrs`].
    ///
    /// # Errors
    ///
    /// `InvalidInput` for text that is no address with a port; the resolver's own.
    fn to_socket_addrs(&self) -> io::Result<Self::Iter>;
}

macro_rules! impl_immediate {
    ($($address:ty),*) => {$(
        impl ToSocketAddrs for $address {
            type Iter = option::IntoIter<SocketAddr>;

            fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
                std::net::ToSocketAddrs::to_socket_addrs(self)
            }
        }
    )*};
}

impl_immediate!(
    SocketAddr,
    SocketAddrV4,
    SocketAddrV6,
    (IpAddr, u16),
    (Ipv4Addr, u16),
    (Ipv6Addr, u16)
);

impl<'a> ToSocketAddrs for &'a [SocketAddr] {
    type Iter = std::iter::Cloned<slice::Iter<'a, SocketAddr>>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        Ok(self.iter().cloned())
    }
}

impl ToSocketAddrs for str {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        if let Ok(address) = self.parse::<SocketAddr>() {
            return Ok(vec![address].into_iter());
        }
        let name = self.to_owned();
        offload::perform(move || std::net::ToSocketAddrs::to_socket_addrs(&name))
    }
}

impl ToSocketAddrs for String {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        self.as_str().to_socket_addrs()
    }
}

impl ToSocketAddrs for (&str, u16) {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        let (host, port) = *self;
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)].into_iter());
        }
        let host = host.to_owned();
        offload::perform(move || std::net::ToSocketAddrs::to_socket_addrs(&(host.as_str(), port)))
    }
}

impl ToSocketAddrs for (String, u16) {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        (self.0.as_str(), self.1).to_socket_addrs()
    }
}

impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {
    type Iter = T::Iter;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        (**self).to_socket_addrs()
    }
}

/// Calls `attempt` with each address until one succeeds.
pub(super) fn for_each_address<A: ToSocketAddrs, R>(
    addresses: A,
    mut attempt: impl FnMut(SocketAddr) -> io::Result<R>,
) -> io::Result<R> {
    let mut refused = None;
    for address in addresses.to_socket_addrs()? {
        match attempt(address) {
            Ok(result) => return Ok(result),
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.unwrap_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "could not resolve to any addresses",
        )
    }))
}

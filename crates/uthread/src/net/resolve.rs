//! Resolution of host names outside the workers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::{option, slice, vec};

use crate::sched::caller;
use crate::sched::features::offload;

/// A value that can be converted to socket addresses; the counterpart of
/// [`std::net::ToSocketAddrs`].
///
/// A host name is resolved by the system's resolver on another thread, so that the lookup does not
/// block the worker. Values that need no lookup are converted at once. Programs may implement the
/// trait for types of their own.
///
/// ```
/// use uthread::net::ToSocketAddrs;
/// let address = "127.0.0.1:80".to_socket_addrs()?.next();
/// assert_eq!(address, Some("127.0.0.1:80".parse().unwrap()));
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait ToSocketAddrs {
    /// The iterator over the addresses, in order of preference.
    type Iter: Iterator<Item = SocketAddr>;

    /// Converts this value to socket addresses, resolving a host name if it has one. See the
    /// example of [`ToSocketAddrs`].
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the text is not an address with a port; any error that the resolver
    /// reports.
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
        resolve(move || std::net::ToSocketAddrs::to_socket_addrs(&name))
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
        resolve(move || std::net::ToSocketAddrs::to_socket_addrs(&(host.as_str(), port)))
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

/// Asks the resolver on another thread; in a simulated world, that of the calling host.
fn resolve<R: Send + 'static>(
    ask: impl FnOnce() -> io::Result<R> + Send + 'static,
) -> io::Result<R> {
    match caller::world() {
        Some(_) => ask(),
        None => offload::perform_wait(ask),
    }
}

/// Calls `attempt` with each address in turn until one call succeeds, and returns the last error if
/// none does.
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

//! The addresses of a world: 127.x.0.0/16, which no other world of this computer uses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

/// Bound as long as a world uses its addresses, at 127.x.255.254.
const LOCK_PORT: u16 = 49_149;

/// The second byte of the addresses: neither that of 127.0.0.1 nor those that systems use for resolvers.
const SUBNETS: std::ops::Range<u8> = 64..255;

/// Number of hosts at most.
pub(crate) const HOSTS_MAX: u32 = 65_000;

#[derive(Debug)]
pub(crate) struct Subnet {
    second: u8,
}

impl Subnet {
    /// Takes the addresses that are free, until the returned socket is closed.
    ///
    /// # Errors
    ///
    /// `AddrInUse` if none are; `EMFILE` if the process has no free descriptor.
    pub(crate) fn take() -> io::Result<(Subnet, UdpSocket)> {
        let mut result = Err(io::ErrorKind::AddrInUse.into());
        for second in SUBNETS {
            result = UdpSocket::bind((Ipv4Addr::new(127, second, 255, 254), LOCK_PORT));
            if let Ok(lock) = result {
                return Ok((Subnet { second }, lock));
            }
        }
        result.map(|_| unreachable!("it would have been returned"))
    }

    /// Returns the address of a host.
    pub(crate) fn address(&self, host: u32) -> Ipv4Addr {
        let [.., third, fourth] = host.to_be_bytes();
        Ipv4Addr::new(127, self.second, third, fourth)
    }

    /// Returns the address to which connections are never made.
    pub(crate) fn nowhere(&self) -> Ipv4Addr {
        Ipv4Addr::new(127, self.second, 255, 253)
    }

    /// Returns the host that has an address.
    pub(crate) fn host(&self, address: SocketAddr) -> Option<u32> {
        let IpAddr::V4(ip) = address.ip().to_canonical() else {
            return None;
        };
        let [first, second, third, fourth] = ip.octets();
        let host = u32::from_be_bytes([0, 0, third, fourth]);
        let is_host = (first, second) == (127, self.second) && (1..=HOSTS_MAX).contains(&host);
        is_host.then_some(host)
    }
}

//! IP networks, and those that the internet does not route to an ordinary host.
//!
//! The tables follow IANA's registries of special-purpose addresses (RFC 6890) and of multicast
//! addresses. Rows inside of others are left out. The few rows that are routed, such as those of
//! AS112, are names of services and not of hosts, and are special as the others are.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const SPECIAL_V4: [(Ipv4Addr, u32); 18] = [
    // RFC 791: this network
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    // RFC 1918: private use
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    // RFC 6598: shared by the customers of a provider
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    // RFC 1122: loopback
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // RFC 3927: link-local, with the metadata services of clouds
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    // RFC 1918: private use
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    // RFC 6890: protocol assignments, among them DS-Lite (RFC 6333) and NAT64 (RFC 7050)
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    // RFC 5737: documentation
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    // RFC 7535: AS112
    (Ipv4Addr::new(192, 31, 196, 0), 24),
    // RFC 7450: relays of multicast
    (Ipv4Addr::new(192, 52, 193, 0), 24),
    // RFC 7526: relays of 6to4
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    // RFC 1918: private use
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    // RFC 7534: AS112
    (Ipv4Addr::new(192, 175, 48, 0), 24),
    // RFC 2544: benchmarks
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    // RFC 5737: documentation
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    // RFC 5737: documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    // RFC 5771: multicast
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    // RFC 1112: reserved, and the broadcast of RFC 919
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// The only range from which addresses of hosts are assigned (RFC 4291, RFC 3513). Everything else
/// is local, reserved, multicast, or an address of IPv4 in disguise.
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

const SPECIAL_V6: [(Ipv6Addr, u32); 5] = [
    // RFC 2928: protocol assignments, among them Teredo (RFC 4380), benchmarks (RFC 5180) and
    // ORCHID (RFC 7343)
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    // RFC 3849: documentation
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    // RFC 3056: 6to4, which holds an address of IPv4
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    // RFC 7534: AS112
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48),
    // RFC 9637: documentation
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Returns `true` for addresses of hosts in the internet.
pub(crate) fn is_public(address: IpAddr) -> bool {
    let is_in = |(network, bits)| contains(network, bits, address);
    match address {
        IpAddr::V4(_) => !SPECIAL_V4
            .map(|(v4, bits)| (v4.into(), bits))
            .into_iter()
            .any(is_in),
        IpAddr::V6(_) => {
            is_in((GLOBAL_V6.0.into(), GLOBAL_V6.1))
                && !SPECIAL_V6
                    .map(|(v6, bits)| (v6.into(), bits))
                    .into_iter()
                    .any(is_in)
        }
    }
}

/// Returns `true` if the first `bits` of the address are those of the network.
pub(crate) fn contains(network: IpAddr, bits: u32, address: IpAddr) -> bool {
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            (network.to_bits() ^ address.to_bits()).leading_zeros() >= bits
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            (network.to_bits() ^ address.to_bits()).leading_zeros() >= bits
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first and last address of each network, between those before and after it.
    const BOUNDS: [(&str, &str, &str, &str); 24] = [
        ("0.0.0.0", "0.0.0.0", "0.255.255.255", "1.0.0.0"),
        ("9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0"),
        (
            "100.63.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "100.128.0.0",
        ),
        (
            "126.255.255.255",
            "127.0.0.0",
            "127.255.255.255",
            "128.0.0.0",
        ),
        (
            "169.253.255.255",
            "169.254.0.0",
            "169.254.255.255",
            "169.255.0.0",
        ),
        (
            "172.15.255.255",
            "172.16.0.0",
            "172.31.255.255",
            "172.32.0.0",
        ),
        ("191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0"),
        ("192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0"),
        (
            "192.31.195.255",
            "192.31.196.0",
            "192.31.196.255",
            "192.31.197.0",
        ),
        (
            "192.52.192.255",
            "192.52.193.0",
            "192.52.193.255",
            "192.52.194.0",
        ),
        (
            "192.88.98.255",
            "192.88.99.0",
            "192.88.99.255",
            "192.88.100.0",
        ),
        (
            "192.167.255.255",
            "192.168.0.0",
            "192.168.255.255",
            "192.169.0.0",
        ),
        (
            "192.175.47.255",
            "192.175.48.0",
            "192.175.48.255",
            "192.175.49.0",
        ),
        (
            "198.17.255.255",
            "198.18.0.0",
            "198.19.255.255",
            "198.20.0.0",
        ),
        (
            "198.51.99.255",
            "198.51.100.0",
            "198.51.100.255",
            "198.51.101.0",
        ),
        (
            "203.0.112.255",
            "203.0.113.0",
            "203.0.113.255",
            "203.0.114.0",
        ),
        ("223.255.255.255", "224.0.0.0", "255.255.255.255", "1.1.1.1"),
        ("2606:4700::1", "::", "1fff:ffff::", "2001:200::"),
        ("2000::", "2001::1", "2001:1ff:ffff::", "2001:200::"),
        (
            "2001:db7:ffff::",
            "2001:db8::",
            "2001:db8:ffff::",
            "2001:db9::",
        ),
        ("2001:ffff::", "2002::", "2002:ffff::", "2003::"),
        (
            "2620:4f:7fff::",
            "2620:4f:8000::",
            "2620:4f:8000:ffff::",
            "2620:4f:8001::",
        ),
        ("3ffe:ffff::", "3fff::", "3fff:fff:ffff::", "3fff:1000::"),
        ("3fff:ffff::", "4000::", "ffff:ffff::", "2a00::"),
    ];

    #[test]
    fn special_networks_end_where_public_ones_begin() {
        for (before, first, last, after) in BOUNDS {
            let is_public = |text: &str| is_public(text.parse().unwrap());
            assert!(!is_public(first) && !is_public(last), "{first} {last}");
            assert!(is_public(after), "{after}");
            assert!(before == first || is_public(before), "{before}");
        }
    }

    #[test]
    fn other_forms_of_local_addresses_are_not_public() {
        for text in [
            "::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "fd00::1",
            "fe80::1",
            "ff02::1",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
    }
}

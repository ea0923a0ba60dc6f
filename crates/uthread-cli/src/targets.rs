//! Targets of tunnels, and the list of those that clients may name.
//!
//! A name that a pattern allows may resolve to any address, also to one of this machine or of the
//! network behind it. So addresses that are not public are allowed only if the name is listed in
//! full, or if the address itself is in a listed network.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::networks::{contains, is_public};

/// Longest name of a host (RFC 1035, section 2.3.4).
const NAME_BYTES_MAX: usize = 253;

/// A host with a port, as in `example.com:443` or `[::1]:443`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) host: Host,
    pub(crate) port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Host {
    /// In lower case, without a dot at the end.
    Name(String),
    Address(IpAddr),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let (host, port) = split(text)?;
        let port = port.parse().ok().filter(|&port| port != 0);
        Ok(Target {
            host: host.parse()?,
            port: port.ok_or("the port must be a number from 1 to 65535")?,
        })
    }
}

/// Splits at the last colon, and removes the brackets of an IPv6 address.
fn split(text: &str) -> Result<(&str, &str), String> {
    let (host, port) = text.rsplit_once(':').ok_or("must be HOST:PORT")?;
    let bare = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    match bare {
        Some(bare) => Ok((bare, port)),
        None if host.contains(':') => Err("an IPv6 address must be in brackets".to_owned()),
        None => Ok((host, port)),
    }
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Host, String> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Host::Address(address.to_canonical()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_valid) {
            return Err(format!("{text:?} is no host"));
        }
        Ok(Host::Name(name.to_ascii_lowercase()))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) => write!(f, "{name}:{}", self.port),
            Host::Address(address) => std::net::SocketAddr::new(*address, self.port).fmt(f),
        }
    }
}

/// One entry of the list: hosts, and a port or all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    Any,
    Name(String),
    /// The part after `*`, with its dot.
    Subdomains(String),
    Network(IpAddr, u32),
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Rule, String> {
        let (hosts, port) = match text.rsplit_once("/") {
            // The brackets of an IPv6 network are around its address: [2001:db8::]/32:443.
            Some((address, rest)) => {
                let (bits, port) = rest.split_once(':').ok_or("must be NETWORK/BITS:PORT")?;
                let address = address.trim_start_matches('[').trim_end_matches(']');
                (network(address, bits)?, port)
            }
            None => {
                let (host, port) = split(text)?;
                (hosts(host)?, port)
            }
        };
        let port = match port {
            "*" => None,
            port => Some(port.parse().map_err(|_| "the port must be a number or *")?),
        };
        Ok(Rule { hosts, port })
    }
}

fn hosts(text: &str) -> Result<Hosts, String> {
    if text == "*" {
        return Ok(Hosts::Any);
    }
    if let Some(domain) = text.strip_prefix("*.") {
        return match domain.parse()? {
            Host::Name(name) => Ok(Hosts::Subdomains(format!(".{name}"))),
            Host::Address(_) => Err("an address has no subdomains".to_owned()),
        };
    }
    Ok(match text.parse()? {
        Host::Name(name) => Hosts::Name(name),
        Host::Address(address) => Hosts::Network(address, width(address)),
    })
}

fn network(address: &str, bits: &str) -> Result<Hosts, String> {
    let address: IpAddr = address
        .parse()
        .map_err(|_| format!("{address:?} is no network"))?;
    match bits.parse() {
        Ok(bits) if bits <= width(address) => Ok(Hosts::Network(address, bits)),
        _ => Err(format!("a network has 0 to {} bits", width(address))),
    }
}

fn width(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => Ipv4Addr::BITS,
        IpAddr::V6(_) => Ipv6Addr::BITS,
    }
}

impl Rule {
    fn has_port(&self, port: u16) -> bool {
        self.port.is_none_or(|allowed| allowed == port)
    }

    fn has_name(&self, name: &str) -> bool {
        match &self.hosts {
            Hosts::Any => true,
            Hosts::Name(allowed) => allowed == name,
            Hosts::Subdomains(suffix) => name.ends_with(suffix),
            Hosts::Network(..) => false,
        }
    }

    fn has_address(&self, address: IpAddr) -> bool {
        match (&self.hosts, address) {
            (Hosts::Any, address) => is_public(address),
            (Hosts::Network(network, bits), address) => contains(*network, *bits, address),
            _ => false,
        }
    }
}

/// Targets that clients may name.
#[derive(Debug)]
pub(crate) struct AllowList(pub(crate) Vec<Rule>);

impl AllowList {
    pub(crate) fn allows(&self, target: &Target) -> bool {
        self.rules(target.port).any(|rule| match &target.host {
            Host::Name(name) => rule.has_name(name),
            Host::Address(address) => rule.has_address(*address),
        })
    }

    /// Returns `true` if an allowed target may be reached at this address, to which its name
    /// resolves.
    pub(crate) fn allows_at(&self, target: &Target, address: IpAddr) -> bool {
        let address = address.to_canonical();
        is_public(address)
            || self
                .rules(target.port)
                .any(|rule| match (&rule.hosts, &target.host) {
                    (Hosts::Name(allowed), Host::Name(name)) => allowed == name,
                    _ => rule.has_address(address),
                })
    }

    fn rules(&self, port: u16) -> impl Iterator<Item = &Rule> {
        self.0.iter().filter(move |rule| rule.has_port(port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(rules: &[&str], target: &str) -> bool {
        let list = AllowList(rules.iter().map(|rule| rule.parse().unwrap()).collect());
        list.allows(&target.parse().unwrap())
    }

    #[test]
    fn rules() {
        let rules = &[
            "*.example.com:443",
            "db.lan:*",
            "10.1.0.0/16:5432",
            "[2001:db8::]/32:1",
        ];
        for (target, expected) in [
            ("www.example.com:443", true),
            ("A.WWW.EXAMPLE.COM.:443", true),
            ("www.example.com:80", false),
            ("example.com:443", false),
            ("badexample.com:443", false),
            ("db.lan:9", true),
            ("x.db.lan:9", false),
            ("10.1.255.1:5432", true),
            ("10.2.0.1:5432", false),
            ("[::ffff:10.1.2.3]:5432", true),
            ("[2001:db8:1::9]:1", true),
            ("[2001:db9::]:1", false),
        ] {
            assert_eq!(allowed(rules, target), expected, "{target}");
        }
    }

    #[test]
    fn every_host_is_every_public_one() {
        for (target, expected) in [
            ("example.com:443", true),
            ("8.8.8.8:443", true),
            ("[2606:4700::1]:443", true),
            ("0.0.0.0:443", false),
            ("127.1.2.3:443", false),
            ("10.0.0.1:443", false),
            ("100.64.0.1:443", false),
            ("169.254.169.254:443", false),
            ("172.31.0.1:443", false),
            ("192.168.0.1:443", false),
            ("224.0.0.1:443", false),
            ("255.255.255.255:443", false),
            ("[::1]:443", false),
            ("[::]:443", false),
            ("[fe80::1]:443", false),
            ("[fd00::1]:443", false),
            ("[ff02::1]:443", false),
            ("[64:ff9b::7f00:1]:443", false),
            ("[2002:7f00:1::]:443", false),
            ("[::ffff:127.0.0.1]:443", false),
            ("192.0.0.1:443", false),
            ("198.18.0.1:443", false),
            ("203.0.113.1:443", false),
            ("[2001:0:4136:e378::1]:443", false),
            ("[2001:db8::1]:443", false),
        ] {
            assert_eq!(allowed(&["*:443"], target), expected, "{target}");
        }
    }

    #[test]
    fn a_name_leads_to_local_addresses_only_if_it_is_listed_in_full() {
        let target = "a.lan:80".parse().unwrap();
        for (local, network) in [
            ("127.0.0.1", "127.0.0.0/8:80"),
            ("198.18.0.1", "198.18.0.0/15:80"),
            ("2001::1", "[2001::]/32:80"),
        ] {
            for (rule, expected) in [
                ("a.lan:80", true),
                ("a.lan:*", true),
                (network, true),
                ("*:80", false),
                ("*.lan:80", false),
                ("a.lan:81", false),
            ] {
                let list = AllowList(vec![rule.parse().unwrap()]);
                let is_allowed = list.allows_at(&target, local.parse().unwrap());
                assert_eq!(is_allowed, expected, "{rule} at {local}");
            }
        }
    }

    #[test]
    fn targets() {
        for (text, expected) in [
            ("Example.com.:443", Some("example.com:443")),
            ("[::1]:80", Some("[::1]:80")),
            ("127.0.0.1:80", Some("127.0.0.1:80")),
            ("::1:80", None),
            ("host", None),
            (":80", None),
            ("host:0", None),
            ("host:65536", None),
            ("user@host:80", None),
            ("a b:80", None),
        ] {
            let target: Result<Target, _> = text.parse();
            let found = target.ok().map(|target| target.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}

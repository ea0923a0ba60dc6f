//! The address that a server listens on: an IP address with a port, or the path of a Unix socket.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use uthread::net::unix;

/// The begin of the address of a Unix socket.
const UNIX: &str = "unix:";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Address {
    /// Returns the address of an inherited Unix socket, which may have an abstract name.
    pub(crate) fn of_unix(address: &unix::SocketAddr) -> Address {
        use std::os::linux::net::SocketAddrExt;
        Address::Unix(match (address.as_pathname(), address.as_abstract_name()) {
            (Some(path), _) => path.to_owned(),
            (None, Some(name)) => format!("@{}", name.escape_ascii()).into(),
            (None, None) => PathBuf::new(),
        })
    }

    /// Returns the URL of a web server at this address; for a Unix socket, which has none, the
    /// address.
    pub(crate) fn url(&self) -> String {
        match self {
            Address::Tcp(addr) => format!("http://{addr}/"),
            Address::Unix(_) => self.to_string(),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        match text.strip_prefix(UNIX) {
            Some("") => {
                Err("the path of the socket is missing, such as unix:/run/site.sock".into())
            }
            Some(path) => Ok(Address::Unix(path.into())),
            None => tcp(text)
                .map(Address::Tcp)
                .map_err(|error| format!("{error} or unix:/run/site.sock")),
        }
    }
}

/// Parses an address of TCP. A port alone is one of this machine only.
pub(crate) fn tcp(text: &str) -> Result<SocketAddr, String> {
    let port = match text.rsplit_once(':') {
        Some(("" | "localhost", port)) => port,
        _ => text,
    };
    if let Ok(port) = port.parse() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let like = "an address is like 127.0.0.1:8080, 0.0.0.0:8080 for all interfaces, [::1]:8080";
    text.parse().map_err(|error| format!("{error}; {like}"))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(addr) => addr.fmt(f),
            Address::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_shown_alike() {
        for text in ["127.0.0.1:80", "[::1]:80", "unix:/run/a b.sock", "unix:a"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "unix:",
            "127.0.0.1",
            "/run/a.sock",
            "Unix:/a",
            ":",
            "65536",
            "a:80",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_port_alone_is_one_of_this_machine() {
        for text in ["80", ":80", "localhost:80"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), "127.0.0.1:80");
        }
    }

    #[test]
    fn an_abstract_name_is_shown_behind_an_at_sign() {
        use std::os::linux::net::SocketAddrExt;
        let address = unix::SocketAddr::from_abstract_name(b"site").unwrap();
        assert_eq!(Address::of_unix(&address).to_string(), "unix:@site");
    }
}

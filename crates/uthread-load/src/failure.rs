//! Failures of requests: their kinds, and texts for people.

use std::fmt;
use std::io::{self, ErrorKind};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// Kinds of failures. In JSON in lower case, with hyphens.
///
/// ```
/// assert_eq!(uthread_load::Kind::TimedOut.to_string(), "timed out");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The server refused the connection.
    Refused,
    /// The server reset the connection.
    Reset,
    /// The server closed the connection while a response was due.
    Closed,
    /// A response or a connection was not complete in time.
    TimedOut,
    /// The status of the response was not 200.
    Status,
    /// The response did not match the request.
    Wrong,
    /// Open loop: a request was due while its connection was down.
    NotConnected,
    /// This machine lacks ports, descriptors or memory.
    Shortage,
    /// Any other error of the kernel.
    Other,
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Kind::Refused => "refused",
            Kind::Reset => "reset",
            Kind::Closed => "closed",
            Kind::TimedOut => "timed out",
            Kind::Status => "status",
            Kind::Wrong => "wrong",
            Kind::NotConnected => "not connected",
            Kind::Shortage => "shortage",
            Kind::Other => "other",
        })
    }
}

/// One failure: its kind, and a description.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(kind: Kind, text: impl Into<String>) -> Failure {
        let text = text.into();
        Failure { kind, text }
    }

    /// Describes a kernel error of an action, such as `connect`.
    pub(crate) fn of(doing: &str, error: &io::Error) -> Failure {
        let shortage = Errno::from_io_error(error).and_then(remedy);
        let kind = match error.kind() {
            _ if shortage.is_some() => Kind::Shortage,
            ErrorKind::ConnectionRefused => Kind::Refused,
            ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::NotConnected => Kind::Reset,
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Kind::TimedOut,
            _ => Kind::Other,
        };
        let text = match (kind, shortage) {
            (Kind::TimedOut, _) => format!("{doing}: timed out"),
            (_, Some(remedy)) => format!("{doing}: {error}: {remedy}"),
            _ => format!("{doing}: {error}"),
        };
        Failure { kind, text }
    }
}

/// Returns the remedy for a shortage on this machine.
fn remedy(errno: Errno) -> Option<&'static str> {
    match errno {
        Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => {
            Some("no port is free: widen net.ipv4.ip_local_port_range, or use fewer connections")
        }
        Errno::MFILE | Errno::NFILE => Some("raise the limit of open files (ulimit -n)"),
        Errno::NOBUFS | Errno::NOMEM => {
            Some("the kernel has no memory left: use fewer connections")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_kernel_have_a_kind_and_shortages_a_remedy() {
        let check = |errno: Errno, kind, words: &str| {
            let failure = Failure::of("connect", &errno.into());
            assert_eq!(failure.kind, kind, "{errno}");
            assert!(failure.text.contains(words), "{failure:?}");
        };
        check(Errno::CONNREFUSED, Kind::Refused, "connect: ");
        check(Errno::CONNRESET, Kind::Reset, "reset");
        check(Errno::PIPE, Kind::Reset, "pipe");
        check(Errno::AGAIN, Kind::TimedOut, "timed out");
        check(Errno::TIMEDOUT, Kind::TimedOut, "timed out");
        check(Errno::MFILE, Kind::Shortage, "ulimit -n");
        check(Errno::ADDRNOTAVAIL, Kind::Shortage, "ip_local_port_range");
        check(Errno::NOMEM, Kind::Shortage, "memory");
        check(Errno::NETUNREACH, Kind::Other, "unreachable");
    }
}

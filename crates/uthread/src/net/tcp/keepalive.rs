//! Keepalive probes: detecting that a silent peer is gone.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::net::sockopt;

/// When the kernel sends probes to a silent peer. Times are rounded up to whole seconds.
///
/// Later versions add no fields, so that programs can construct a value.
///
/// ```
/// use std::time::Duration;
/// use uthread::net::Keepalive;
///
/// // A peer that has gone is noticed after a minute and a half.
/// let keepalive = Keepalive {
///     idle: Duration::from_secs(60),
///     interval: Duration::from_secs(10),
///     count: 3,
/// };
/// assert_ne!(keepalive, Keepalive::default());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "programs match or construct it")]
pub struct Keepalive {
    /// Time without traffic before the first probe.
    pub idle: Duration,
    /// Time between two probes.
    pub interval: Duration,
    /// Number of unanswered probes after which the kernel drops the connection.
    pub count: u32,
}

/// The kernel's defaults, which detect a lost peer after two hours and eleven minutes.
impl Default for Keepalive {
    fn default() -> Keepalive {
        Keepalive {
            idle: Duration::from_secs(7200),
            interval: Duration::from_secs(75),
            count: 9,
        }
    }
}

pub(super) fn set(socket: BorrowedFd<'_>, keepalive: Option<Keepalive>) -> io::Result<()> {
    if let Some(keepalive) = keepalive {
        sockopt::set_tcp_keepidle(socket, keepalive.idle)?;
        sockopt::set_tcp_keepintvl(socket, keepalive.interval)?;
        sockopt::set_tcp_keepcnt(socket, keepalive.count)?;
    }
    Ok(sockopt::set_socket_keepalive(socket, keepalive.is_some())?)
}

pub(super) fn get(socket: BorrowedFd<'_>) -> io::Result<Option<Keepalive>> {
    if !sockopt::socket_keepalive(socket)? {
        return Ok(None);
    }
    Ok(Some(Keepalive {
        idle: sockopt::tcp_keepidle(socket)?,
        interval: sockopt::tcp_keepintvl(socket)?,
        count: sockopt::tcp_keepcnt(socket)?,
    }))
}

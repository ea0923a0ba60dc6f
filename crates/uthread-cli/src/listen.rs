//! Listening: binding with errors that say what to do, and an accept loop that outlives a shortage.

use std::io;
use std::time::{Duration, Instant};
use uthread::net::{SocketAddr, TcpListener, TcpStream};
use uthread::sleep;

use anyhow::{Context, anyhow};
use rustix::io::Errno;

use crate::tell;

/// Connections the kernel completes ahead of `accept`: a burst of clients should wait, not retry. The kernel lowers it to
/// `net.core.somaxconn`, by default this very number.
const BACKLOG: i32 = 4096;
/// Pause when descriptors or memory are short: they come back when some connection ends, not by asking faster.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(20);
/// A shortage is told again after this time: often enough to be seen, too seldom to fill a disk.
const SHORTAGE_REPORT_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) fn listen(addr: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(addr).map_err(|error| {
        let remedy = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "the port is taken: choose another with --listen, or stop what uses it"
            }
            io::ErrorKind::PermissionDenied => {
                "not permitted: ports below 1024 need root or CAP_NET_BIND_SERVICE, others do not"
            }
            io::ErrorKind::AddrNotAvailable => {
                "this machine has no such address: try 127.0.0.1 or 0.0.0.0"
            }
            _ => return anyhow!("cannot listen on {addr}: {error}"),
        };
        anyhow!("cannot listen on {addr}: {remedy}")
    })?;
    rustix::net::listen(&listener, BACKLOG).with_context(|| format!("cannot listen on {addr}"))?;
    Ok(listener)
}

/// Hands every connection to `handle` until `stopping`, which is looked at whenever `accept` returns.
pub(crate) fn accept_each(
    listener: &TcpListener,
    stopping: impl Fn() -> bool,
    mut handle: impl FnMut(TcpStream, SocketAddr),
) {
    let mut reported: Option<Instant> = None;
    loop {
        let accepted = listener.accept();
        if stopping() {
            return;
        }
        match accepted {
            Ok((stream, addr)) => handle(stream, addr),
            Err(error) if concerns_one_connection(&error) => {}
            Err(error) => {
                if reported.is_none_or(|at| at.elapsed() >= SHORTAGE_REPORT_INTERVAL) {
                    reported = Some(Instant::now());
                    tell(format_args!(
                        "cannot accept for now: {error}; if this stays, raise `ulimit -n`"
                    ));
                }
                sleep(SHORTAGE_PAUSE);
            }
        }
    }
}

/// Errors that are over when `accept` returns: the connection broke while it waited. The list is that of accept(2);
/// whatever is not on it may come back at once, so it is worth a pause.
fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::CONNABORTED
                | Errno::INTR
                | Errno::PROTO
                | Errno::NOPROTOOPT
                | Errno::OPNOTSUPP
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::NONET
        )
    )
}

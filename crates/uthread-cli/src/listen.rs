//! Binds listeners with helpful errors, raises the limit of open files, and accepts connections despite shortages of
//! descriptors or memory.

use std::io;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};
use uthread::net::{AcceptFailure, SocketAddr, TcpListener, TcpStream};
use uthread::sleep;

use anyhow::{Context, anyhow};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::output::tell;

/// Connections that the kernel completes ahead of `accept`: in a burst, clients should wait, not retry. The kernel
/// lowers it to `net.core.somaxconn`, whose default is the same number.
const BACKLOG: i32 = 4096;
/// Pause when descriptors or memory are short: they become free when a connection ends, not by asking faster.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(20);
/// Minimum time between two reports of a shortage: often enough to notice, too seldom to fill a disk.
const SHORTAGE_REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Descriptors besides the connections: standard streams, listener, rings, and files open for responses.
const DESCRIPTORS_RESERVED: u64 = 64;

pub(crate) fn listen(addr: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(addr).map_err(|error| {
        let remedy = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "the port is in use: choose another with --listen, or stop the program that uses it"
            }
            io::ErrorKind::PermissionDenied => {
                "permission denied: ports below 1024 need root or CAP_NET_BIND_SERVICE"
            }
            io::ErrorKind::AddrNotAvailable => {
                "this machine does not have the address: try 127.0.0.1 or 0.0.0.0"
            }
            _ => return anyhow!("cannot listen on {addr}: {error}"),
        };
        anyhow!("cannot listen on {addr}: {remedy}")
    })?;
    rustix::net::listen(&listener, BACKLOG).with_context(|| format!("cannot listen on {addr}"))?;
    Ok(listener)
}

/// Passes every connection to `handle` until `stopping` returns true, which is checked whenever `accept` returns.
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
            Err(error) if AcceptFailure::of(&error) == AcceptFailure::Connection => {}
            Err(error) => {
                if reported.is_none_or(|at| at.elapsed() >= SHORTAGE_REPORT_INTERVAL) {
                    reported = Some(Instant::now());
                    tell(format_args!(
                        "cannot accept connections: {error}; if this persists, raise `ulimit -n`"
                    ));
                }
                sleep(SHORTAGE_PAUSE);
            }
        }
    }
}

/// Raises the limit of open files as far as possible, and warns if it is too low for connections that use `each`
/// descriptors.
pub(crate) fn raise_descriptor_limit(max_connections: NonZeroUsize, each: u64) {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, the warning below reports the limit.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
    let needed = max_connections.get() as u64 * each + DESCRIPTORS_RESERVED;
    if let Some(allowed) = getrlimit(Resource::Nofile).current
        && allowed < needed
    {
        tell(format_args!(
            "the limit of {allowed} open files is too low: {max_connections} connections need {needed}; \
             raise `ulimit -n` or lower --max-connections"
        ));
    }
}

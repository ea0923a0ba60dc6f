//! Binds or inherits listeners with helpful errors, raises the limit of open files, and accepts
//! connections despite shortages of descriptors or memory.

use std::io;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};
use uthread::net::{
    AcceptFailure, InheritedSocket, SocketAddr, TcpListener, TcpSocket, listeners_from_env,
};
use uthread::{sleep, thread};

use anyhow::{Context, anyhow, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::address::Address;
use crate::args::ServerArgs;
use crate::output::tell;
use crate::socket_file::{self, SocketFile};
use crate::stream::{Client, Listener, Stream};

/// Connections that the kernel completes ahead of `accept`: in a burst, clients should wait, not
/// retry. The kernel lowers it to `net.core.somaxconn`, whose default is the same number.
const BACKLOG: u32 = 4096;
/// Pause when descriptors or memory are short: they become free when a connection ends, not by
/// asking faster.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(20);
/// Minimum time between two reports of a shortage: often enough to notice, too seldom to fill a
/// disk.
const SHORTAGE_REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Descriptors besides the connections: standard streams, listener, rings, and files open for
/// responses.
const DESCRIPTORS_RESERVED: u64 = 64;

/// The listener of a server.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) listener: Listener,
    pub(crate) addr: Address,
    is_inherited: bool,
    /// The file of a Unix socket, unless that is inherited.
    file: Option<SocketFile>,
}

impl Listening {
    /// Returns what the startup line adds about the listener.
    pub(crate) fn origin(&self) -> &'static str {
        if self.is_inherited {
            ", inherited socket"
        } else {
            ""
        }
    }

    /// Passes every connection to `handle` until the calling fiber is cancelled.
    pub(crate) fn accept_each(&self, mut handle: impl FnMut(Stream, Client)) {
        let mut reported: Option<Instant> = None;
        loop {
            match self.listener.accept() {
                Ok((stream, client)) => handle(stream, client),
                Err(_) if thread::is_cancelled() => return,
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

    /// Closes the listener after accepting the connections in its queue, which closing would reset.
    /// Those of an inherited socket stay there for the process that accepts next.
    pub(crate) fn close(mut self, mut handle: impl FnMut(Stream, Client)) {
        if self.is_inherited || self.listener.set_nonblocking(true).is_err() {
            return;
        }
        // New clients find no file, and those that have connected are served.
        drop(self.file.take());
        for _ in 0..BACKLOG {
            match self.listener.accept() {
                Ok((stream, client)) => handle(stream, client),
                Err(error) if AcceptFailure::of(&error) == AcceptFailure::Connection => {}
                Err(_) => return,
            }
        }
    }
}

/// Takes the socket that the process has inherited, or binds one to `addr`.
pub(crate) fn listen(addr: &Address, args: &ServerArgs) -> anyhow::Result<Listening> {
    let inherited = inherited().context("cannot use the sockets from LISTEN_FDS")?;
    if inherited.is_some() && args.reuse_port {
        bail!("--reuse-port does not apply to an inherited socket: set ReusePort= in its unit");
    }
    let is_inherited = inherited.is_some();
    let (listener, file) = match (inherited, addr) {
        (Some(listener), _) => (listener, None),
        (None, Address::Tcp(addr)) => (Listener::Tcp(bind(*addr, args.reuse_port)?), None),
        (None, Address::Unix(_)) if args.reuse_port => {
            bail!("--reuse-port does not apply to {addr}: a Unix socket has no port to share")
        }
        (None, Address::Unix(path)) => {
            let (listener, file) = socket_file::bind(path)?;
            (Listener::Unix(listener), Some(file))
        }
    };
    let addr = match &listener {
        Listener::Tcp(listener) => Address::Tcp(listener.local_addr()?),
        Listener::Unix(listener) => Address::of_unix(&listener.local_addr()?),
    };
    Ok(Listening {
        listener,
        addr,
        is_inherited,
        file,
    })
}

fn inherited() -> anyhow::Result<Option<Listener>> {
    let mut all = listeners_from_env()?;
    if all.len() > 1 {
        bail!("there are {}: pass only one", all.len());
    }
    match all.pop().map(|inherited| inherited.socket) {
        None => Ok(None),
        Some(InheritedSocket::Tcp(listener)) => Ok(Some(Listener::Tcp(listener))),
        Some(InheritedSocket::Unix(listener)) => Ok(Some(Listener::Unix(listener))),
        Some(_) => bail!("it is no TCP or Unix socket: set ListenStream= in its unit"),
    }
}

/// Binds a listener, which shares the port with other processes if `reuse_port` is set.
pub(crate) fn bind(addr: SocketAddr, reuse_port: bool) -> anyhow::Result<TcpListener> {
    let bound = || {
        let socket = match addr {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(reuse_port)?;
        socket.bind(addr)?;
        socket.listen(BACKLOG)
    };
    bound().map_err(|error| {
        let remedy = match error.kind() {
            io::ErrorKind::AddrInUse if reuse_port => {
                "the port is in use by another user, or by a program without --reuse-port"
            }
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
    })
}

/// Raises the limit of open files as far as possible, and warns if it is too low for connections
/// that use `each` descriptors.
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

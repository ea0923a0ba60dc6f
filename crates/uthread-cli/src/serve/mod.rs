//! `uthread serve`: serves a directory over HTTP/1.1, with one fiber per connection.
//!
//! A connection reads a head (`Input`, `http::request`), finds the file (`locate`, `target`,
//! `root`), builds the response (`respond`) and sends it (`send`). The other modules are the
//! built-in pages, the log and the graceful shutdown.

mod connection;

mod cache;
mod directory;
mod locate;
mod root;
mod site;
mod target;

mod etag;
mod respond;
mod send;

mod scratch;

mod error_pages;
mod listing;
mod page;

mod access_log;
mod peers;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use uthread::{Runtime, sleep, thread};

use anyhow::{Context, anyhow};

use crate::address::tcp;
use crate::args::ServeArgs;
use crate::counters::{self, Count, Counted, Value};
use crate::exit::Exit;
use crate::http::request::Method;
use crate::http::response::{Persistence, Status};
use crate::listen::{Listening, listen, raise_descriptor_limit};
use crate::output::tell;
use crate::runtime;
use crate::stop::{self, Stop};
use crate::stream::{Client, Stream};
use access_log::AccessLog;
use error_pages::ErrorPages;
use peers::Peers;
use root::Root;
use site::Site;

/// Maximum number of connections beyond the limit that receive a 503 at the same time. Each lasts a
/// second at most; further ones are closed without a response.
const REFUSALS_MAX: usize = 256;
/// The response fits the empty send buffer of a new connection, so only a broken client reaches
/// this timeout.
const REFUSAL_WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a drain waits for a request on an idle connection, which may be on its way: a few round
/// trips on a bad line.
const LAST_REQUEST_TIME: Duration = Duration::from_secs(1);

/// State shared by all connections.
#[derive(Debug)]
pub(crate) struct Server {
    site: Site,
    header_timeout: Duration,
    idle_timeout: Duration,
    write_timeout: Duration,
    log: Option<AccessLog>,
    peers: Arc<Peers>,
    refusals: AtomicUsize,
}

impl Counted for Server {
    const PREFIX: &'static str = "serve";

    fn counts(&self) -> Vec<Count> {
        vec![
            Count {
                name: "connections_open",
                help: "Connections that are open.",
                value: Value::Gauge(self.peers.count() as u64),
            },
            Count {
                name: "requests",
                help: "Requests of connections that have ended.",
                value: Value::Counter(self.peers.requests_served()),
            },
        ]
    }
}

pub(crate) fn run(args: &ServeArgs) -> Exit {
    let Started {
        runtime,
        server,
        listening,
        stop,
    } = match start(args) {
        Ok(started) => started,
        Err(error) => {
            tell(format_args!("{error:#}"));
            return Exit::CouldNotStart;
        }
    };
    let cut = runtime.run(|| {
        let peers = &server.peers;
        let hurry = stop.accept_until_signal(
            listening,
            || drain(Arc::clone(peers)),
            |stream, client| welcome(&server, stream, client),
        );
        stop::wait(|| peers.none_open(), || peers.cut(), args.grace, &hurry)
    });
    if let Some(log) = &server.log {
        log.finish();
    }
    tell(format_args!(
        "stopped: served {} requests, cut {cut} connections",
        server.peers.requests_served()
    ));
    if cut == 0 {
        Exit::Done
    } else {
        Exit::ConnectionsCut
    }
}

struct Started {
    runtime: Runtime,
    server: Arc<Server>,
    listening: Listening,
    stop: Stop,
}

/// Prepares everything that can fail because of wrong arguments or settings, before serving starts.
fn start(args: &ServeArgs) -> anyhow::Result<Started> {
    let site = Site {
        root: open_root(&args.dir)?,
        error_pages: ErrorPages::load(args.error_pages.as_deref())?,
        listing: !args.no_listing,
    };
    let runtime = runtime::start(&args.server, args.counters.is_enabled())?;
    let listening = listen(&args.listen, &args.server)?;
    let counters_listener = counters::listen(&args.counters)?;
    let peers = Arc::new(Peers::new(args.max_connections.get()));
    let stop = Stop::watch()?;
    let log = AccessLog::start(args.log).context("cannot start the access log")?;
    raise_descriptor_limit(args.max_connections, 1);
    let server = Arc::new(Server {
        site,
        header_timeout: args.header_timeout,
        idle_timeout: args.idle_timeout,
        write_timeout: args.write_timeout,
        log,
        peers,
        refusals: AtomicUsize::new(0),
    });
    counters::start(counters_listener, &runtime, &server)?;
    let dir = args.dir.canonicalize().unwrap_or_else(|_| args.dir.clone());
    tell(format_args!(
        "serving {} on {} (workers {}, driver {}{})",
        dir.display(),
        listening.addr.url(),
        runtime.workers(),
        runtime.driver().driver(),
        listening.origin()
    ));
    stop.ready();
    Ok(Started {
        runtime,
        server,
        listening,
        stop,
    })
}

fn open_root(dir: &Path) -> anyhow::Result<Root> {
    use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, Unsupported};
    Root::new(dir).map_err(|error| {
        let address = dir.to_str().filter(|text| tcp(text).is_ok());
        if let (NotFound, Some(address)) = (error.kind(), address) {
            return anyhow!(
                "cannot serve {address}: the directory does not exist; to listen there: --listen {address}"
            );
        }
        let why = match error.kind() {
            NotFound => "the directory does not exist; name another: uthread serve DIR",
            NotADirectory => "it is not a directory; name the directory that contains the file",
            PermissionDenied => "permission denied; this user must be able to read it",
            Unsupported => "the kernel lacks openat2 (Linux 5.6), or a seccomp profile forbids it",
            _ => return anyhow!("cannot serve {}: {error}", dir.display()),
        };
        anyhow!("cannot serve {}: {why}", dir.display())
    })
}

/// Ends every connection after its next response, and those without a request after a while.
fn drain(peers: Arc<Peers>) {
    peers.drain();
    thread::spawn(move || {
        sleep(LAST_REQUEST_TIME);
        peers.end_idle();
    });
}

/// Starts the fiber of a new connection. Never waits, because the next connection is already there.
fn welcome(server: &Arc<Server>, stream: Stream, client: Client) {
    let server = Arc::clone(server);
    match server.peers.admit(stream, client) {
        Ok(mut admitted) => {
            thread::spawn(move || connection::run(&server, &mut admitted));
        }
        Err(stream) => {
            if server.refusals.fetch_add(1, Ordering::Relaxed) < REFUSALS_MAX {
                thread::spawn(move || {
                    turn_away(&server, &stream);
                    server.refusals.fetch_sub(1, Ordering::Relaxed);
                });
            } else {
                server.refusals.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// Sends a 503 to a connection beyond the limit.
fn turn_away(server: &Server, mut stream: &Stream) {
    let mut out = scratch::Scratch::take();
    respond::error(
        &server.site.error_pages,
        Status::Unavailable,
        Method::Get,
        Persistence::Close,
        &mut out,
    );
    let written = stream
        .set_write_timeout(Some(REFUSAL_WRITE_TIMEOUT))
        .and_then(|()| stream.write_all(&out));
    drop(out);
    if written.is_ok() {
        connection::linger(stream);
    }
}

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

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use uthread::{sleep, spawn};

use anyhow::anyhow;

use crate::address::tcp;
use crate::args::ServeArgs;
use crate::counters::{self, Count, Counted, Counter};
use crate::exit::Exit;
use crate::http::request::Method;
use crate::http::response::{Persistence, Status};
use crate::line_log::LineLog;
use crate::listen::{Listening, listen, raise_descriptor_limit};
use crate::output::tell;
use crate::runtime;
use crate::server::{self, Place, Server};
use crate::stream::{Client, Stream};
use error_pages::ErrorPages;
use peers::{Peer, Peers};
use root::Root;
use scratch::Scratch;
use site::Site;

/// How long a drain waits for a request on an idle connection, which may be on its way: a few round
/// trips on a bad line.
const LAST_REQUEST_TIME: Duration = Duration::from_secs(1);

/// State shared by all connections.
#[derive(Debug)]
pub(crate) struct WebServer {
    site: Site,
    header_timeout: Duration,
    idle_timeout: Duration,
    write_timeout: Duration,
    log: Option<LineLog>,
    peers: Peers,
    /// Requests of connections that have ended. A counter written for every request would be
    /// contended.
    requests_served: Counter,
}

impl Counted for WebServer {
    const PREFIX: &'static str = "serve";

    fn counts(&self) -> Vec<Count> {
        let help = "Requests of connections that have ended.";
        vec![
            Count::open_connections(self.open_count()),
            self.requests_served.count("requests", help),
        ]
    }
}

impl Server for WebServer {
    fn welcome(self: &Arc<Self>, stream: Stream, client: Client) {
        let server = Arc::clone(self);
        match self.peers.open.admit(client, Peer::new(stream, client)) {
            Ok(admitted) => {
                spawn(move || connection::run(&server, &admitted));
            }
            Err(refused) => self
                .peers
                .open
                .refuse(move || server.turn_away(&refused.stream)),
        }
    }

    /// Ends every connection after its next response, and those without a request after a while.
    fn drain(self: &Arc<Self>) {
        self.peers.drain();
        let server = Arc::clone(self);
        spawn(move || {
            sleep(LAST_REQUEST_TIME);
            server.peers.end_idle();
        });
    }

    fn open_count(&self) -> usize {
        self.peers.open.count()
    }

    fn cut(&self) -> usize {
        self.peers.cut()
    }

    fn finish(&self, cut: usize) {
        if let Some(log) = &self.log {
            log.finish();
        }
        tell(format_args!(
            "stopped: served {} requests, cut {cut} connections",
            self.requests_served.get()
        ));
    }
}

impl WebServer {
    /// Sends a 503 to a connection beyond the limit.
    fn turn_away(&self, stream: &Stream) {
        let mut out = Scratch::take();
        respond::error(
            &self.site.error_pages,
            Status::Unavailable,
            Method::Get,
            Persistence::Close,
            &mut out,
        );
        // An error means that the client has gone.
        let _ = stream.refuse(&out);
    }
}

pub(crate) fn run(args: &ServeArgs) -> Exit {
    // Nothing here waits but by the library, and connections share the buffers of their thread.
    let runtime = runtime::start_lean(&args.server, args.counters.is_enabled());
    server::run(runtime, |place| serve(args, place))
}

/// Serves on fibers of the caller's runtime.
pub(crate) fn serve(args: &ServeArgs, place: Place) -> Exit {
    server::serve(start(args, &place.runtime), place.stop, args.grace)
}

/// Prepares everything that can fail because of wrong arguments or settings, before serving starts.
fn start(args: &ServeArgs, runtime: &str) -> anyhow::Result<(Listening, Arc<WebServer>)> {
    let site = Site {
        root: open_root(&args.dir)?,
        error_pages: ErrorPages::load(args.error_pages.as_deref())?,
        listing: !args.no_listing,
    };
    let listening = listen(&args.listen, &args.server)?;
    raise_descriptor_limit(args.max_connections, 1);
    let server = Arc::new(WebServer {
        site,
        header_timeout: args.header_timeout,
        idle_timeout: args.idle_timeout,
        write_timeout: args.write_timeout,
        log: LineLog::start(args.log)?,
        peers: Peers::new(args.max_connections),
        requests_served: Counter::default(),
    });
    counters::start(&args.counters, &server)?;
    let dir = args.dir.canonicalize().unwrap_or_else(|_| args.dir.clone());
    tell(format_args!(
        "serving {} on {} ({runtime}{})",
        dir.display(),
        listening.addr.url(),
        listening.origin()
    ));
    Ok((listening, server))
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

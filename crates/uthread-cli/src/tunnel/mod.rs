//! `uthread tunnel`: relays TCP connections, as an HTTP CONNECT proxy (RFC 9110, section 9.3.6) or
//! to one target.
//!
//! A connection has a fiber, which reads the request (`handshake`), resolves and connects
//! (`connect`, `race`), and relays (`relay`) with a second fiber for the other direction. Other
//! fibers end what is idle or open for too long (`open`), and serve the counters. Every step is
//! plain blocking code; its deadline is that of the block around it.

mod connect;
mod counters;
mod failure;
mod handshake;
mod open;
mod race;
mod record;
mod relay;

use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use uthread::time::interval;
use uthread::{Runtime, shield, spawn};

use anyhow::Context;

use crate::args::TunnelArgs;
use crate::exit::Exit;
use crate::listen::{Listening, listen, raise_descriptor_limit};
use crate::output::tell;
use crate::runtime;
use crate::stop::{self, Stop};
use crate::stream::{Client, Listener, Stream};
use crate::targets::Target;
use connect::Connector;
use counters::Counters;
use failure::Failure;
use open::{Admitted, Limits, Open};
use record::Log;

/// Descriptors of a connection: the client and the target. Pipes for bulk transfers come on top,
/// and are not necessary.
const DESCRIPTORS_EACH: u64 = 2;
/// Interval at which connections are checked for being idle or old.
const EXPIRY_STEP: Duration = Duration::from_millis(100);

/// State shared by all connections.
#[derive(Debug)]
struct Server {
    /// The target of every connection; `None` for a proxy.
    to: Option<Target>,
    connector: Connector,
    header_timeout: Duration,
    rate_max: Option<NonZeroU64>,
    open: Arc<Open>,
    counters: Counters,
    log: Option<Log>,
}

pub(crate) fn run(args: &TunnelArgs) -> Exit {
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
        let hurry = stop.accept_until_signal(
            listening,
            || {},
            |stream, client| welcome(&server, stream, client),
        );
        let open = &server.open;
        stop::wait(|| open.count() == 0, || open.cut(), args.grace, &hurry)
    });
    if let Some(log) = &server.log {
        log.finish();
    }
    let connections = server.counters.accepted();
    tell(format_args!(
        "stopped: served {connections} connections, cut {cut}"
    ));
    match cut {
        0 => Exit::Done,
        _ => Exit::ConnectionsCut,
    }
}

struct Started {
    runtime: Runtime,
    server: Arc<Server>,
    listening: Listening,
    stop: Stop,
}

/// Prepares everything that can fail because of wrong arguments or settings, before the first
/// connection.
fn start(args: &TunnelArgs) -> anyhow::Result<Started> {
    let runtime = runtime::start(&args.server, args.counters.is_enabled())?;
    let listening = listen(&args.listen, &args.server)?;
    // Accepted sockets inherit it (tcp(7)).
    if let Listener::Tcp(listener) = &listening.listener {
        rustix::net::sockopt::set_tcp_nodelay(listener, true)?;
    }
    let counters_listener = crate::counters::listen(&args.counters)?;
    let limits = Limits {
        connections_max: args.max_connections.get(),
        per_client_max: args.max_per_client.map_or(usize::MAX, |most| most.get()),
        idle_time_max: args.idle_timeout,
        lifetime_max: args.lifetime,
    };
    let server = Arc::new(Server {
        to: args.to.clone(),
        connector: Connector::new(args),
        header_timeout: args.header_timeout,
        rate_max: args.rate,
        open: Arc::new(Open::new(limits)),
        counters: Counters::default(),
        log: Log::start(args.log).context("cannot start the access log")?,
    });
    raise_descriptor_limit(args.max_connections, DESCRIPTORS_EACH);
    let stop = Stop::watch()?;
    let open = Arc::clone(&server.open);
    runtime.spawn(move || interval(EXPIRY_STEP).for_each(|_| open.expire()));
    crate::counters::start(counters_listener, &runtime, &server)?;
    let purpose = match &args.to {
        Some(target) => target.to_string(),
        None => "CONNECT".to_owned(),
    };
    let (addr, origin) = (&listening.addr, listening.origin());
    let (workers, driver) = (runtime.workers(), runtime.driver().driver());
    tell(format_args!(
        "listening on {addr} for {purpose} (workers {workers}, driver {driver}{origin})"
    ));
    stop.ready();
    Ok(Started {
        runtime,
        server,
        listening,
        stop,
    })
}

/// Starts the fiber of a new connection. Never waits, because the next connection is already there.
fn welcome(server: &Arc<Server>, stream: Stream, client: Client) {
    server.counters.accept();
    let Some(admitted) = server.open.admit(client) else {
        server.counters.refuse();
        if server.to.is_none() && server.counters.begin_refusal() {
            let server = Arc::clone(server);
            spawn(move || {
                // An error means that the client has gone.
                let _ = Failure::TooMany.send(&stream);
                server.counters.end_refusal();
            });
        }
        return;
    };
    let id = admitted.id;
    let shared = Arc::clone(server);
    let handle = spawn(move || connection(&shared, &stream, &admitted));
    server.open.attach(id, handle);
}

/// Runs one connection from its first byte to its end.
fn connection(server: &Server, client: &Stream, admitted: &Admitted) {
    let mut recorded = Recorded {
        server,
        record: record::Record::new(admitted),
    };
    let record = &mut recorded.record;
    let ended = || admitted.progress.ended.get().copied();
    record.end = match tunnel(server, client, admitted, record) {
        Ok(()) if record.failure.is_some() => "refused",
        Ok(()) => "closed",
        Err(error) => ended().unwrap_or_else(|| record::cause(&error)),
    };
}

/// Counts and logs a connection when it ends, also if it is cancelled in a call without an error
/// value, such as the wait for a name.
struct Recorded<'a> {
    server: &'a Server,
    record: record::Record<'a>,
}

impl Drop for Recorded<'_> {
    fn drop(&mut self) {
        let ended = self.record.admitted.progress.ended.get();
        if self.record.end.is_empty() {
            self.record.end = ended.copied().unwrap_or("error");
        }
        shield(|| {
            self.server.counters.end(&self.record);
            if let Some(log) = &self.server.log {
                log.append(&self.record);
            }
        });
    }
}

fn tunnel(
    server: &Server,
    client: &Stream,
    admitted: &Admitted,
    record: &mut record::Record<'_>,
) -> io::Result<()> {
    let Some(target) = handshake::establish(server, client, record)? else {
        return Ok(());
    };
    admitted.progress.relays.store(true, Ordering::Relaxed);
    let relayed = relay::relay(client, &target, &admitted.progress.moved, server.rate_max);
    if relayed.is_err() {
        // Both ends must see that the stream is incomplete.
        for stream in [client, &target] {
            let _ = stream.reset_on_close();
        }
    }
    relayed
}

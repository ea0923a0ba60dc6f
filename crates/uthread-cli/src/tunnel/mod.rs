//! `uthread tunnel`: relays TCP connections, as an HTTP proxy (RFC 9110, sections 3.7 and 9.3.6) or
//! to one target.
//!
//! A connection has a fiber, which reads a request (`handshake`), checks the client's credentials
//! (`users`), resolves and connects (`connect`, `race`) as often as it is worth it (`policies`),
//! and relays (`relay`) with a second fiber for the other direction. A plain request is forwarded
//! (`forward`) with a head of its own (`heads`), and its body is streamed (`body`). Other fibers
//! end what is idle or open for too long (`open`), read the settings again (`settings`), and serve
//! the counters. Every step is plain blocking code; its deadline is that of the block around it.

mod body;
mod connect;
mod counters;
mod failure;
mod forward;
mod handshake;
mod heads;
mod open;
mod policies;
mod race;
mod record;
mod relay;
mod settings;
mod users;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use uthread::net::Shutdown;
use uthread::signal::{Signal, Signals};
use uthread::time::interval;
use uthread::{shield, sleep, spawn, timeout};

use anyhow::Context;

use crate::args::TunnelArgs;
use crate::connections::Connections;
use crate::exit::Exit;
use crate::input::Input;
use crate::line_log::LineLog;
use crate::listen::{Listening, listen, raise_descriptor_limit};
use crate::output::tell;
use crate::runtime;
use crate::server::{self, Place, Server};
use crate::stream::{Client, Listener, Stream};
use connect::Connector;
use counters::Counters;
use failure::Failure;
use handshake::Next;
use open::Connection;
use record::Record;
use settings::{Current, Settings};

/// Descriptors of a connection: the client and the target. Pipes for bulk transfers come on top,
/// and are not necessary.
const DESCRIPTORS_EACH: u64 = 2;
/// Interval at which connections are checked for being idle or old.
const EXPIRY_STEP: Duration = Duration::from_millis(100);
/// Time for which connections that wait for a request stay open when the program is to end: as
/// with `serve`, some round trips.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// State shared by all connections.
#[derive(Debug)]
struct Tunnel {
    /// The arguments that the program has started with.
    args: TunnelArgs,
    settings: Current,
    connector: Connector,
    open: Arc<Connections<Connection>>,
    /// Set when the program is to end.
    draining: AtomicBool,
    counters: Counters,
    log: Option<LineLog>,
}

impl Server for Tunnel {
    fn welcome(self: &Arc<Self>, stream: Stream, client: Client) {
        self.counters.accepted.add(1);
        let Ok(admitted) = self.open.admit(client, Connection::new(client)) else {
            self.counters.refused.add(1);
            // Without TLS, the client could not read a response.
            if self.args.to.is_none() && self.settings.get().tls.is_none() {
                // An error means that the client has gone.
                self.open
                    .refuse(move || drop(Failure::TooMany.send(&stream, false)));
            }
            return;
        };
        let opened = Arc::clone(&admitted.connection);
        let server = Arc::clone(self);
        let handle = spawn(move || {
            let stream = match &server.settings.get().tls {
                Some(config) => stream.with_tls(config),
                None => Ok(stream),
            };
            match stream {
                Ok(stream) => connection(&server, &stream, &admitted),
                Err(error) => tell(format_args!("cannot use TLS: {error}")),
            }
        });
        opened.handle.set(handle).expect("set once");
    }

    /// Requests that are on their way on idle connections are still served.
    fn drain(self: &Arc<Self>) {
        self.draining.store(true, Ordering::Relaxed);
        let open = Arc::clone(&self.open);
        spawn(move || {
            sleep(DRAIN_TIME);
            open::end_waiting(&open);
        });
    }

    fn open_count(&self) -> usize {
        self.open.count()
    }

    fn cut(&self) -> usize {
        open::cut(&self.open)
    }

    fn finish(&self, cut: usize) {
        if let Some(log) = &self.log {
            log.finish();
        }
        let connections = self.counters.accepted.get();
        tell(format_args!(
            "stopped: served {connections} connections, cut {cut}"
        ));
    }
}

pub(crate) fn run(args: &TunnelArgs) -> Exit {
    let args = match args.load() {
        Ok(args) if !args.check => args,
        checked => return check(checked.and_then(|args| Settings::load(&args))),
    };
    let runtime = runtime::start(&args.server, args.counters.is_enabled());
    server::run(runtime, |place| serve(args, place))
}

/// Reports whether the arguments and the files that they name are valid.
fn check(loaded: anyhow::Result<Settings>) -> Exit {
    match loaded {
        Ok(_) => {
            tell("the options and their files are valid");
            Exit::Done
        }
        Err(error) => server::could_not_start(&error),
    }
}

/// Serves on fibers of the caller's runtime.
pub(crate) fn serve(args: TunnelArgs, place: Place) -> Exit {
    let grace = args.grace;
    server::serve(start(args, &place.runtime), place.stop, grace)
}

/// Prepares everything that can fail because of wrong arguments or settings, before the first
/// connection.
fn start(args: TunnelArgs, runtime: &str) -> anyhow::Result<(Listening, Arc<Tunnel>)> {
    let settings = Settings::load(&args)?;
    let listening = listen(&args.listen, &args.server)?;
    // Accepted sockets inherit it (tcp(7)).
    if let Listener::Tcp(listener) = &listening.listener {
        rustix::net::sockopt::set_tcp_nodelay(listener, true)?;
    }
    let server = Arc::new(Tunnel {
        settings: Current::new(settings),
        connector: Connector::default(),
        open: Connections::new(args.max_connections, args.max_per_client),
        draining: AtomicBool::new(false),
        counters: Counters::default(),
        log: LineLog::start(args.log)?,
        args,
    });
    let args = &server.args;
    raise_descriptor_limit(args.max_connections, DESCRIPTORS_EACH);
    let expiring = Arc::clone(&server);
    spawn(move || {
        interval(EXPIRY_STEP).for_each(|_| open::expire(&expiring.open, &expiring.settings.get()))
    });
    let hang_ups = Signals::new([Signal::HUP]).context("cannot watch for SIGHUP")?;
    let reloading = Arc::clone(&server);
    spawn(move || hang_ups.for_each(|_| reloading.reload()));
    crate::counters::start(&args.counters, &server)?;
    let purpose = match &args.to {
        Some(target) => target.to_string(),
        None => "HTTP and CONNECT".to_owned(),
    };
    let over = match args.tls_key {
        Some(_) => " over TLS",
        None => "",
    };
    let (addr, origin) = (&listening.addr, listening.origin());
    tell(format_args!(
        "listening on {addr} for {purpose}{over} ({runtime}{origin})"
    ));
    Ok((listening, server))
}

impl Tunnel {
    /// Reads the configuration and its files again. If that fails, all settings stay.
    fn reload(&self) {
        let reloaded = self.args.load().and_then(|args| {
            self.args.check_change(&args)?;
            self.settings.set(Settings::load(&args)?);
            Ok(args)
        });
        match reloaded {
            Ok(args) => {
                self.open
                    .set_limits(args.max_connections, args.max_per_client);
                raise_descriptor_limit(args.max_connections, DESCRIPTORS_EACH);
                tell("reloaded the settings");
            }
            Err(error) => tell(format_args!("kept the settings: {error:#}")),
        }
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Waits for the first byte of another request. Returns `false` if there is none.
    fn await_request(&self, client: &Stream, input: &mut Input, waits: &AtomicBool) -> bool {
        if !input.unread().is_empty() {
            return true;
        }
        let idle_timeout = self.settings.get().idle_timeout;
        waits.store(true, Ordering::Relaxed);
        // A drain looks for connections that wait a second after it can be seen here.
        let is_received = !self.is_draining()
            && matches!(timeout(idle_timeout, || input.receive(client)), Ok(Ok(1..)));
        waits.store(false, Ordering::Relaxed);
        is_received
    }
}

/// Runs one connection from its first byte to its end: a tunnel, or plain requests.
fn connection(server: &Tunnel, client: &Stream, connection: &Connection) {
    let mut input = Input::new();
    while exchange(server, client, &mut input, connection) {
        if !server.await_request(client, &mut input, &connection.waits) {
            // An error means that the client has gone.
            let _ = client.shutdown(Shutdown::Write);
            return;
        }
    }
}

/// Runs one tunnel or request. Returns `true` if another request may follow.
fn exchange(server: &Tunnel, client: &Stream, input: &mut Input, connection: &Connection) -> bool {
    let mut recorded = Recorded {
        server,
        record: Record::new(connection),
    };
    let record = &mut recorded.record;
    let next = handshake::establish(server, client, input, record);
    let outcome = match &next {
        Ok(Next::Relay(target)) => relay(server, client, target, connection),
        Ok(Next::Request | Next::End) => Ok(()),
        Err(error) => Err(io::Error::from(error.kind())),
    };
    record.end = match &outcome {
        Ok(()) if record.failure.is_some() => "refused",
        Ok(()) if record.path.is_some() => "answered",
        Ok(()) => "closed",
        Err(error) => {
            let ended = connection.ended.get().copied();
            ended.unwrap_or_else(|| record::cause(error))
        }
    };
    matches!(next, Ok(Next::Request))
}

/// Counts and logs a tunnel or request when it ends, also if it is cancelled in a call without an
/// error value, such as the wait for a name.
struct Recorded<'a> {
    server: &'a Tunnel,
    record: Record<'a>,
}

impl Drop for Recorded<'_> {
    fn drop(&mut self) {
        let ended = self.record.connection.ended.get();
        if self.record.end.is_empty() {
            self.record.end = ended.copied().unwrap_or("error");
        }
        shield(|| {
            self.server.counters.end(&self.record);
            if let Some(log) = &self.server.log {
                record::append(log, &self.record);
            }
        });
    }
}

fn relay(
    server: &Tunnel,
    client: &Stream,
    target: &Stream,
    connection: &Connection,
) -> io::Result<()> {
    connection.relays.store(true, Ordering::Relaxed);
    let rate_max = server.settings.get().rate_max;
    let relayed = relay::relay(client, target, &connection.moved, rate_max);
    if relayed.is_err() {
        // Both ends must see that the stream is incomplete.
        for stream in [client, target] {
            let _ = stream.reset_on_close();
        }
    }
    relayed
}

//! Plain HTTP requests: each is forwarded on a connection of its own, and its response returned.
//!
//! A body that the client is still sending has a fiber, since an origin may respond before it has
//! all of it.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use uthread::net::Shutdown;
use uthread::{scope, timeout};

use super::Tunnel;
use super::body::{Sink, copy};
use super::failure::Failure;
use super::heads::{self, Forward, Framing};
use super::record::Record;
use super::relay::Pace;
use super::settings::Settings;
use crate::counters::Counter;
use crate::http::reply;
use crate::http::request::{Body, Version, header_slots};
use crate::http::response::Status;
use crate::input::Input;
use crate::stream::Stream;

/// Interim responses to one request: more than the 100 and 103 that servers send.
const INTERIMS_MAX: usize = 16;

/// One request between its two connections.
struct Exchange<'a> {
    server: &'a Tunnel,
    settings: &'a Settings,
    client: &'a Stream,
    origin: &'a Stream,
    request: &'a Forward,
    /// Set when the origin has got all of the request.
    is_sent: AtomicBool,
    /// Which came first: an error of the client within its body, or `None` for the response.
    first: OnceLock<Option<io::Error>>,
}

/// Forwards a request whose target has been connected, and returns its response. Returns `true` if
/// the client may send another request.
///
/// # Errors
///
/// A failure that the client has not been told, within the result. Otherwise, the client has got
/// only a part of the response, or has gone.
pub(super) fn forward(
    server: &Tunnel,
    settings: &Settings,
    client: &Stream,
    input: &mut Input,
    request: &Forward,
    origin: &Stream,
    record: &mut Record<'_>,
) -> io::Result<Result<bool, Failure>> {
    let moved = &record.connection.moved;
    let rest = match send_begin(input, request, origin, &moved.up) {
        Ok(rest) => rest,
        Err(error) => return Ok(Err(Failure::NoReply(error))),
    };
    let exchange = Exchange {
        server,
        settings,
        client,
        origin,
        request,
        is_sent: AtomicBool::new(rest == Body::Bytes(0)),
        first: OnceLock::new(),
    };
    let replied = scope(|scope| {
        let is_sent = exchange.is_sent.load(Ordering::Relaxed);
        let sending = (!is_sent).then(|| scope.spawn(|| exchange.send(input, rest, &moved.up)));
        let replied = exchange.reply(record);
        if let Some(sending) = sending {
            sending.cancel();
        }
        replied
    });
    match exchange.first.into_inner().flatten() {
        Some(error) if error.kind() == io::ErrorKind::InvalidData => {
            Ok(Err(Failure::Request(Status::BadRequest)))
        }
        Some(error) => Err(error),
        None => replied,
    }
}

/// Sends the head, and what there is of a body with a length. Returns the rest of the body.
fn send_begin(
    input: &mut Input,
    request: &Forward,
    mut origin: &Stream,
    moved: &Counter,
) -> io::Result<Body> {
    let mut begin = request.head.clone();
    let rest = match request.body {
        Body::Bytes(bytes) => {
            let early = (input.unread().len() as u64).min(bytes);
            begin.extend_from_slice(&input.unread()[..early as usize]);
            input.consume(early as usize);
            moved.add(early);
            Body::Bytes(bytes - early)
        }
        Body::Chunked => Body::Chunked,
    };
    origin.write_all(&begin)?;
    Ok(rest)
}

impl Exchange<'_> {
    /// Sends the rest of the body. If the client fails before there is a response, the origin is
    /// disconnected, which ends the wait for it.
    fn send(&self, input: &mut Input, rest: Body, moved: &Counter) {
        let mut sink = Sink {
            to: self.origin,
            is_chunked: rest == Body::Chunked,
            moved,
            pace: Pace::new(self.settings.rate_max),
        };
        let Err(error) = copy(self.client, input, Some(rest), &mut sink) else {
            self.is_sent.store(true, Ordering::Relaxed);
            return;
        };
        let is_read = matches!(
            error.kind(),
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
        );
        // Otherwise the origin takes no more, and may have responded.
        let is_clients = is_read || self.client.check_connected().is_err();
        if is_clients && self.first.set(Some(error)).is_ok() {
            // An error means that the origin has gone.
            let _ = self.origin.shutdown(Shutdown::Both);
        }
    }

    fn reply(&self, record: &mut Record<'_>) -> io::Result<Result<bool, Failure>> {
        let mut input = Input::new();
        for _ in 0..INTERIMS_MAX {
            let head_bytes = match self.receive_head(&mut input, record) {
                Ok(head_bytes) => head_bytes,
                Err(failure) => return Ok(Err(failure)),
            };
            let mut slots = header_slots();
            let Some(reply) = reply::parse(&input.unread()[..head_bytes], &mut slots) else {
                return Ok(Err(Failure::BadReply));
            };
            // Nobody asked for another protocol.
            if reply.code == 101 {
                return Ok(Err(Failure::BadReply));
            }
            let framing = heads::framing(self.request, &reply);
            let keep_alive = self.request.keep_alive
                && framing != Framing::Rest
                && self.is_sent.load(Ordering::Relaxed)
                && !self.server.is_draining();
            let head = heads::reply(self.request, &reply, framing, keep_alive);
            let (code, length) = (reply.code, reply.length);
            input.consume(head_bytes);
            let mut client = self.client;
            if code < 200 {
                // Clients of HTTP/1.0 know no interim responses.
                if self.request.version == Version::Http11 {
                    client.write_all(&head)?;
                }
                continue;
            }
            if self.first.set(None).is_err() {
                return Ok(Err(Failure::BadReply));
            }
            record.status = Some(code);
            client.write_all(&head)?;
            if !matches!(framing, Framing::Nothing(_)) {
                self.return_body(&mut input, framing, length, record)?;
            }
            return Ok(Ok(keep_alive));
        }
        Ok(Err(Failure::BadReply))
    }

    fn return_body(
        &self,
        input: &mut Input,
        framing: Framing,
        length: Option<Body>,
        record: &Record<'_>,
    ) -> io::Result<()> {
        let mut sink = Sink {
            to: self.client,
            is_chunked: framing == Framing::Chunks,
            moved: &record.connection.moved.down,
            pace: Pace::new(self.settings.rate_max),
        };
        record.connection.relays.store(true, Ordering::Relaxed);
        let copied = copy(self.origin, input, length, &mut sink);
        record.connection.relays.store(false, Ordering::Relaxed);
        copied
    }

    /// Receives a head from the origin, within the time that a connection may be idle.
    fn receive_head(&self, input: &mut Input, record: &Record<'_>) -> Result<usize, Failure> {
        let sent_bytes = || record.connection.moved.up.get();
        loop {
            let before = sent_bytes();
            match timeout(self.settings.idle_timeout, || {
                input.receive_head(self.origin)
            }) {
                Ok(Ok(received)) => return received.map_err(|_| Failure::BadReply),
                Ok(Err(error)) if error.kind() != io::ErrorKind::TimedOut => {
                    return Err(Failure::NoReply(error));
                }
                Ok(Err(_)) | Err(_) if sent_bytes() != before => {}
                Ok(Err(_)) | Err(_) if !self.is_sent.load(Ordering::Relaxed) => {
                    return Err(Failure::Request(Status::RequestTimeout));
                }
                Ok(Err(_)) | Err(_) => return Err(Failure::ReplyTimedOut),
            }
        }
    }
}

//! One connection from its first byte to its end: one request after another, each with deadlines.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};
use uthread::thread;

use super::WebServer;
use super::access_log::{self, Record};
use super::peers::{Peer, Phase};
use super::respond::{self, Response};
use super::scratch::Scratch;
use super::send::send;
use crate::http::request::{self, Method, Request, Version};
use crate::http::response::{Persistence, Status};
use crate::input::Input;
use crate::output::tell;
use crate::stream::Stream;

/// Largest body to read and discard in order to keep the connection. Neither GET nor HEAD has a use
/// for a body.
const BODY_BYTES_MAX: u64 = 64 * 1024;
/// How long a connection that waits for a request keeps its receive buffer. A busy client sends the
/// next one earlier; for the others, another system call per request is nothing. A connection whose
/// last request came later than that waits without a buffer from the start: to give it back during
/// the wait would resume the fiber once more.
const BUFFER_TIME: Duration = Duration::from_millis(20);
/// Buffer for discarded bytes.
const DISCARD_BYTES: usize = 16 * 1024;

/// The step after an exchange.
enum Next {
    Exchange,
    /// Close after the client had time to read: it may still be sending.
    Linger,
    Close,
}

pub(crate) fn run(server: &WebServer, peer: &Peer) {
    let mut connection = Connection {
        server,
        peer,
        input: Input::new(),
        received_at: Instant::now(),
        is_slow: false,
        requests_served: 0,
    };
    let next = connection.exchange_all();
    server.requests_served.add(connection.requests_served);
    if let Next::Linger = next {
        peer.set_phase(Phase::Lingering);
        peer.stream.linger();
    }
}

struct Connection<'a> {
    server: &'a WebServer,
    peer: &'a Peer,
    input: Input,
    /// When bytes were received last.
    received_at: Instant,
    /// The last request came more than [`BUFFER_TIME`] after the one before.
    is_slow: bool,
    requests_served: u64,
}

/// Reasons why there is no request to respond to.
enum NoHead {
    /// The client disconnected or timed out, or the server is draining: nobody waits for a
    /// response.
    Ended,
    Refused(Status),
}

impl Connection<'_> {
    fn exchange_all(&mut self) -> Next {
        let stream = &self.peer.stream;
        // The last segment must not wait for the acknowledgement of the previous one.
        if stream.set_nodelay().is_err()
            || stream
                .set_write_timeout(Some(self.server.write_timeout))
                .is_err()
        {
            return Next::Close;
        }
        loop {
            let next = match self.await_head() {
                Ok(head_bytes) => self.exchange(head_bytes),
                Err(NoHead::Ended) => Next::Close,
                Err(NoHead::Refused(status)) => self.refuse(status),
            };
            let Next::Exchange = next else {
                return next;
            };
        }
    }

    /// Handles one request. Never inlined: a connection that waits for a request does without the
    /// kilobytes of this frame.
    #[inline(never)]
    fn exchange(&mut self, head_bytes: usize) -> Next {
        let log_start = self.server.log.as_ref().and_then(access_log::start_clock);
        let mut slots = request::header_slots();
        let unread = self.input.unread();
        let parsed = request::parse(&unread[..head_bytes], &mut slots)
            .and_then(|request| Ok((request.body_bytes()?, request)));
        let (body_bytes, request) = match parsed {
            Ok(parsed) => parsed,
            Err(status) => return self.refuse(status),
        };
        let body_received = body_bytes.min((unread.len() - head_bytes) as u64);
        let body = match self.discard_body(&request, body_bytes, body_bytes - body_received) {
            Ok(body) => body,
            Err(NoHead::Ended) => return Next::Close,
            Err(NoHead::Refused(status)) => return self.refuse(status),
        };

        let persistence = self.persistence(&request, &body);
        let mut out = Scratch::take();
        let response = match body {
            BodyFate::TooLarge if request.method != Method::Other => respond::error(
                &self.server.site.error_pages,
                Status::ContentTooLarge,
                request.method,
                persistence,
                &mut out,
            ),
            _ => respond::respond(
                &self.server.site,
                &request,
                self.received_at,
                persistence,
                &mut out,
            ),
        };
        let sent = send(&self.peer.stream, &mut out, &response);
        drop(out);
        self.requests_served += 1;
        if let Some(log) = &self.server.log {
            let record = Record {
                client: self.peer.client,
                request: Some(&request),
                status: response.status,
                body_bytes: sent.is_ok().then_some(response.body_bytes),
                start: log_start,
            };
            access_log::append(log, &record);
        }
        if let Err(error) = sent {
            report(&error, &request, &response);
            return Next::Close;
        }
        self.input.consume(head_bytes + body_received as usize);
        self.after(persistence, &body)
    }

    /// Waits for a whole head, and returns its length.
    fn await_head(&mut self) -> Result<usize, NoHead> {
        let mut scanned = 0;
        let mut received = false;
        let mut empty_line_skipped = false;
        let mut deadline = None;
        loop {
            if !empty_line_skipped && self.input.skip_empty_line() {
                empty_line_skipped = true;
                scanned = 0;
            }
            let unread = self.input.unread();
            if let Some(head_bytes) =
                request::head_length(unread, scanned).map_err(NoHead::Refused)?
            {
                if received {
                    let now = Instant::now();
                    self.is_slow = now - self.received_at > BUFFER_TIME;
                    self.received_at = now;
                    // Let the other connections receive, too: one look at a file then serves all
                    // their requests.
                    thread::yield_now();
                }
                return Ok(head_bytes);
            }
            received = true;
            scanned = unread.len();
            if scanned == 0 {
                self.receive_first()?;
            } else {
                let deadline =
                    *deadline.get_or_insert_with(|| Instant::now() + self.server.header_timeout);
                self.receive_more(deadline)?;
            }
        }
    }

    fn receive_first(&mut self) -> Result<(), NoHead> {
        self.peer.set_phase(Phase::Idle);
        if self.server.peers.idle_ended() {
            return Err(NoHead::Ended);
        }
        let idle_time = self.server.idle_timeout;
        let with_buffer = if self.is_slow {
            Duration::ZERO
        } else {
            BUFFER_TIME.min(idle_time)
        };
        let mut received = self.receive_within(with_buffer);
        if matches!(&received, Err(error) if is_timeout(error)) && with_buffer < idle_time {
            self.input.release();
            received = self.receive_when_ready_within(idle_time - with_buffer);
        }
        match received {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Ok(0) | Err(_) => Err(NoHead::Ended),
            Ok(_) => {
                self.peer.set_phase(Phase::Busy);
                Ok(())
            }
        }
    }

    fn receive_within(&mut self, time: Duration) -> io::Result<usize> {
        set_read_time(&self.peer.stream, time)?;
        self.input.receive(&self.peer.stream)
    }

    /// Receives into a buffer that is taken when there are bytes.
    fn receive_when_ready_within(&mut self, time: Duration) -> io::Result<usize> {
        let stream = &self.peer.stream;
        set_read_time(stream, time)?;
        match stream.peek(&mut [0])? {
            0 => Ok(0),
            _ => self.input.receive(stream),
        }
    }

    fn receive_more(&mut self, deadline: Instant) -> Result<(), NoHead> {
        let time = deadline.saturating_duration_since(Instant::now());
        match self.receive_within(time) {
            Ok(0) => Err(NoHead::Ended),
            Ok(_) => Ok(()),
            Err(error) => no_head(&error),
        }
    }

    /// Reads `missing` bytes of the body and no more, because the next request follows.
    fn discard_body(
        &self,
        request: &Request<'_, '_>,
        body_bytes: u64,
        missing: u64,
    ) -> Result<BodyFate, NoHead> {
        if body_bytes > BODY_BYTES_MAX {
            return Ok(BodyFate::TooLarge);
        }
        if missing == 0 {
            return Ok(BodyFate::Discarded);
        }
        // The client waits for permission to send a body that is not needed. Send the final
        // response instead, and close.
        if request.values("expect").next().is_some() {
            return Ok(BodyFate::Unwanted);
        }
        let mut stream = &self.peer.stream;
        let mut discarded = Scratch::take();
        discarded.resize(DISCARD_BYTES, 0);
        let deadline = Instant::now() + self.server.header_timeout;
        let mut missing = missing as usize;
        while missing > 0 {
            let piece = missing.min(DISCARD_BYTES);
            let time = deadline.saturating_duration_since(Instant::now());
            let received =
                set_read_time(stream, time).and_then(|()| stream.read(&mut discarded[..piece]));
            match received {
                Ok(0) => return Err(NoHead::Ended),
                Ok(count) => missing -= count,
                Err(error) => no_head(&error)?,
            }
        }
        Ok(BodyFate::Discarded)
    }

    fn persistence(&self, request: &Request<'_, '_>, body: &BodyFate) -> Persistence {
        let in_step = matches!(body, BodyFate::Discarded);
        if !request.keep_alive || !in_step || self.server.peers.draining() {
            return Persistence::Close;
        }
        match request.version {
            Version::Http10 => Persistence::OpenAsAsked,
            Version::Http11 => Persistence::Open,
        }
    }

    fn after(&self, persistence: Persistence, body: &BodyFate) -> Next {
        if persistence != Persistence::Close {
            return Next::Exchange;
        }
        // A client that requested the close sends nothing more; any other may be sending right now.
        let in_step = matches!(body, BodyFate::Discarded);
        if in_step && self.input.unread().is_empty() && !self.server.peers.draining() {
            return Next::Close;
        }
        Next::Linger
    }

    /// Responds to an invalid request. The bytes that follow cannot be trusted, so the connection
    /// ends.
    fn refuse(&mut self, status: Status) -> Next {
        let mut out = Scratch::take();
        let response = respond::error(
            &self.server.site.error_pages,
            status,
            Method::Get,
            Persistence::Close,
            &mut out,
        );
        let sent = (&self.peer.stream).write_all(&out);
        drop(out);
        self.requests_served += 1;
        if let Some(log) = &self.server.log {
            let record = Record {
                client: self.peer.client,
                request: None,
                status,
                body_bytes: sent.is_ok().then_some(response.body_bytes),
                start: None,
            };
            access_log::append(log, &record);
        }
        match sent {
            Ok(()) => Next::Linger,
            Err(_) => Next::Close,
        }
    }
}

/// Outcome of a request's body.
enum BodyFate {
    Discarded,
    /// The client announced the body and waits for permission, which it does not get.
    Unwanted,
    TooLarge,
}

/// Limits the next read; fails with `TimedOut` if there is no time.
fn set_read_time(stream: &Stream, time: Duration) -> io::Result<()> {
    if time.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    stream.set_read_timeout(Some(time))
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

fn no_head(error: &io::Error) -> Result<(), NoHead> {
    match error.kind() {
        io::ErrorKind::Interrupted => Ok(()),
        _ if is_timeout(error) => Err(NoHead::Refused(Status::RequestTimeout)),
        _ => Err(NoHead::Ended),
    }
}

/// Reports a file that changed while it was sent. A client that disconnected is not worth a
/// message.
fn report(error: &io::Error, request: &Request<'_, '_>, response: &Response) {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        tell(format_args!(
            "{} was truncated while it was sent (announced {} bytes); closed the connection",
            request.target.escape_debug(),
            response.body_bytes
        ));
    }
}

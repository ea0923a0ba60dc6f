//! The part of a connection before its bytes are relayed: the request, the target, and the
//! response.

use std::io::{self, Write};
use uthread::timeout;

use super::Tunnel;
use super::failure::Failure;
use super::forward::forward;
use super::heads::Forward;
use super::record::Record;
use super::settings::Settings;
use crate::http::request::{self, Request, header_slots};
use crate::http::response::Status;
use crate::input::Input;
use crate::stream::Stream;
use crate::targets::Target;

const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection Established\r\n\r\n";

/// What a connection does after a request.
#[derive(Debug)]
pub(super) enum Next {
    /// The client has a tunnel to this target.
    Relay(Stream),
    /// Another request may follow.
    Request,
    End,
}

/// What a client asks for.
enum Requested {
    Tunnel(Target),
    Forward(Forward),
}

/// Reads a request, and connects the client to its target, or forwards a plain request. Responds to
/// the client if that fails.
///
/// Never inlined: a connection that relays does without the kilobytes of these frames.
#[inline(never)]
pub(super) fn establish(
    server: &Tunnel,
    client: &Stream,
    input: &mut Input,
    record: &mut Record<'_>,
) -> io::Result<Next> {
    let settings = server.settings.get();
    let read = timeout(settings.header_timeout, || {
        match client.handshake() {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Ok(Err(Failure::Handshake(error)));
            }
            completed => completed?,
        }
        match &server.args.to {
            Some(target) => Ok(Ok(Requested::Tunnel(target.clone()))),
            None => read_request(&settings, client, input, record),
        }
    });
    let requested = match read {
        Ok(Ok(requested)) => requested,
        // The client wants nothing, as those that check whether the proxy is there.
        Ok(Err(error)) if is_end(&error) && input.unread().is_empty() => return Ok(Next::End),
        Ok(Err(error)) if error.kind() != io::ErrorKind::TimedOut => return Err(error),
        Ok(Err(_)) | Err(_) => Err(Failure::Request(Status::RequestTimeout)),
    };
    let served = match requested {
        Ok(requested) => serve(server, &settings, client, input, requested, record)?,
        Err(failure) => Err(failure),
    };
    served.or_else(|failure| {
        record.fail(&failure);
        if server.args.to.is_none() && !matches!(failure, Failure::Handshake(_)) {
            let is_head = record.method.as_deref() == Some("HEAD");
            // An error means that the client has gone.
            let _ = failure.send(client, is_head);
        }
        Ok(Next::End)
    })
}

/// Reads one head, and checks the credentials in it.
fn read_request(
    settings: &Settings,
    client: &Stream,
    input: &mut Input,
    record: &mut Record<'_>,
) -> io::Result<Result<Requested, Failure>> {
    let head_bytes = match input.receive_head(client)? {
        Ok(head_bytes) => head_bytes,
        Err(status) => return Ok(Err(Failure::Request(status))),
    };
    let parsed = parse(settings, &input.unread()[..head_bytes], record);
    input.consume(head_bytes);
    Ok(parsed)
}

fn is_end(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
}

fn parse(settings: &Settings, head: &[u8], record: &mut Record<'_>) -> Result<Requested, Failure> {
    let mut slots = header_slots();
    let request = request::parse(head, &mut slots).map_err(Failure::Request)?;
    record.method = Some(request.method_name.to_owned());
    if let Some(users) = &settings.users {
        let authorization = request.single("proxy-authorization");
        let user = authorization.and_then(|value| users.check(value));
        record.user = Some(user.ok_or(Failure::NoUser)?.to_owned());
    }
    match request.method_name {
        "CONNECT" => tunnel_target(&request).map(Requested::Tunnel),
        _ => Forward::new(&request).map(Requested::Forward),
    }
}

fn tunnel_target(request: &Request<'_, '_>) -> Result<Target, Failure> {
    if request.body_bytes().map_err(Failure::Request)? > 0 {
        return Err(Failure::Request(Status::BadRequest));
    }
    let bad_target = |_| Failure::Request(Status::BadRequest);
    request.target.parse().map_err(bad_target)
}

/// Connects to the target. Then tells the client of the tunnel, or forwards its request.
///
/// # Errors
///
/// A failure that the client has not been told, within the result.
fn serve(
    server: &Tunnel,
    settings: &Settings,
    mut client: &Stream,
    input: &mut Input,
    requested: Requested,
    record: &mut Record<'_>,
) -> io::Result<Result<Next, Failure>> {
    let (Requested::Tunnel(target) | Requested::Forward(Forward { target, .. })) = &requested;
    record.target = Some(target.clone());
    let (origin, address) = match server.connector.connect(settings, target) {
        Ok(connected) => connected,
        Err(failure) => return Ok(Err(failure)),
    };
    record.address = Some(address);
    origin.set_nodelay(true)?;
    let origin = Stream::Tcp(origin);
    let request = match requested {
        Requested::Forward(request) => request,
        Requested::Tunnel(_) => {
            if server.args.to.is_none() {
                record.status = Some(Status::Ok.code());
                client.write_all(ESTABLISHED)?;
            }
            let early = input.unread();
            (&origin).write_all(early)?;
            let count = early.len();
            record.connection.moved.up.add(count as u64);
            // A relay has buffers of its own.
            input.consume(count);
            input.release();
            return Ok(Ok(Next::Relay(origin)));
        }
    };
    record.path = Some(request.path.clone());
    match forward(server, settings, client, input, &request, &origin, record) {
        Ok(Ok(true)) => Ok(Ok(Next::Request)),
        Ok(Ok(false)) => {
            // The client may be sending right now.
            client.linger();
            Ok(Ok(Next::End))
        }
        Ok(Err(failure)) => Ok(Err(failure)),
        Err(error) => {
            // The client must see that the response is incomplete.
            let _ = client.reset_on_close();
            Err(error)
        }
    }
}

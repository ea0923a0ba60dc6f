//! The part of a connection before its bytes are relayed: the request, the target, and the
//! response.

use std::io::{self, Write};
use uthread::timeout;

use super::Tunnel;
use super::failure::Failure;
use super::record::Record;
use crate::http::request::{self, header_slots};
use crate::http::response::Status;
use crate::input::Input;
use crate::stream::Stream;
use crate::targets::Target;

const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection Established\r\n\r\n";

/// Connects the client to its target. Returns `None` if there is no tunnel, which the client has
/// been told.
///
/// Never inlined: a connection that relays does without the kilobytes of these frames.
#[inline(never)]
pub(super) fn establish(
    server: &Tunnel,
    mut client: &Stream,
    record: &mut Record<'_>,
) -> io::Result<Option<Stream>> {
    let mut input = Input::new();
    let requested = match &server.to {
        Some(target) => Ok(target.clone()),
        None => match timeout(server.header_timeout, || {
            read_request(server, client, &mut input, record)
        }) {
            Ok(Ok(requested)) => requested,
            // The client wants nothing, as those that check whether the proxy is there.
            Ok(Err(error)) if is_end(&error) && input.unread().is_empty() => return Ok(None),
            Ok(Err(error)) if error.kind() != io::ErrorKind::TimedOut => return Err(error),
            Ok(Err(_)) | Err(_) => Err(Failure::Request(Status::RequestTimeout)),
        },
    };
    let connected = requested.and_then(|requested| {
        let connected = server.connector.connect(&requested);
        record.target = Some(requested);
        connected
    });
    match connected {
        Ok((target, address)) => {
            record.address = Some(address);
            target.set_nodelay(true)?;
            if server.to.is_none() {
                record.status = Some(Status::Ok);
                client.write_all(ESTABLISHED)?;
            }
            let early = input.unread();
            (&target).write_all(early)?;
            record.connection.moved.up.add(early.len() as u64);
            Ok(Some(Stream::Tcp(target)))
        }
        Err(failure) => {
            record.fail(&failure);
            if server.to.is_none() {
                // An error means that the client has gone.
                let _ = failure.send(client);
            }
            Ok(None)
        }
    }
}

/// Reads one head, and checks the credentials in it.
fn read_request(
    server: &Tunnel,
    client: &Stream,
    input: &mut Input,
    record: &mut Record<'_>,
) -> io::Result<Result<Target, Failure>> {
    let head_bytes = match input.receive_head(client)? {
        Ok(head_bytes) => head_bytes,
        Err(status) => return Ok(Err(Failure::Request(status))),
    };
    let parsed = parse(server, &input.unread()[..head_bytes], record);
    input.consume(head_bytes);
    Ok(parsed)
}

fn is_end(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
}

fn parse(server: &Tunnel, head: &[u8], record: &mut Record<'_>) -> Result<Target, Failure> {
    let mut slots = header_slots();
    let request = request::parse(head, &mut slots).map_err(Failure::Request)?;
    if let Some(users) = &server.users {
        let authorization = request.single("proxy-authorization");
        let user = authorization.and_then(|value| users.check(value));
        record.user = Some(user.ok_or(Failure::NoUser)?.to_owned());
    }
    if request.method_name != "CONNECT" {
        return Err(Failure::NotConnect);
    }
    if request.body_bytes > 0 {
        return Err(Failure::Request(Status::BadRequest));
    }
    let bad_target = |_| Failure::Request(Status::BadRequest);
    request.target.parse().map_err(bad_target)
}

//! Heads of plain HTTP requests and of their responses, as a proxy passes them on (RFC 9110,
//! section 7.6; RFC 9112, section 3.2).

use std::io::Write;
use std::net::IpAddr;

use httparse::Header;

use super::failure::Failure;
use crate::http::reply::Reply;
use crate::http::request::{Body, Request, Version};
use crate::http::response::Status;
use crate::targets::{Host, Target};

const DEFAULT_PORT: u16 = 80;

/// Fields that are for this proxy or for one connection, and those that it writes itself.
const NOT_PASSED_ON: [&str; 12] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A plain request, ready to be forwarded.
#[derive(Debug)]
pub(super) struct Forward {
    pub(super) target: Target,
    pub(super) path: String,
    /// The head that the origin gets.
    pub(super) head: Vec<u8>,
    pub(super) body: Body,
    /// The version of the client.
    pub(super) version: Version,
    pub(super) is_head: bool,
    /// Whether the client may send another request.
    pub(super) keep_alive: bool,
}

impl Forward {
    pub(super) fn new(request: &Request<'_, '_>) -> Result<Forward, Failure> {
        // Both are for the last server of a chain, which a proxy may be.
        let ends_anywhere = request.values("max-forwards").next().is_some();
        if request.method_name == "TRACE" || (request.method_name == "OPTIONS" && ends_anywhere) {
            return Err(Failure::Request(Status::NotImplemented));
        }
        let (target, path) = split(request.target)?;
        let path = match path {
            "" if request.method_name == "OPTIONS" => "*".to_owned(),
            path if path.starts_with('/') => path.to_owned(),
            path => format!("/{path}"),
        };
        let mut head = Vec::with_capacity(1024);
        let line = write!(
            head,
            "{} {path} HTTP/1.1\r\nHost: {}\r\n",
            request.method_name,
            host(&target)
        );
        line.expect("a vector takes every write");
        push_fields(&mut head, request.headers);
        // A body of no bytes is stated only if the client states it.
        if request.values("content-length").next().is_some() || request.body == Body::Chunked {
            push_length(&mut head, request.body);
        }
        let version = match request.version {
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
        };
        head.extend_from_slice(b"Via: ");
        head.extend_from_slice(version.as_bytes());
        head.extend_from_slice(b" uthread\r\nConnection: close\r\n\r\n");
        Ok(Forward {
            target,
            path,
            head,
            body: request.body,
            version: request.version,
            is_head: request.method_name == "HEAD",
            keep_alive: request.keep_alive,
        })
    }
}

/// Splits the absolute form, as in `http://host:port/path`, at the begin of its path.
fn split(target: &str) -> Result<(Target, &str), Failure> {
    let bad = || Failure::Request(Status::BadRequest);
    let (scheme, rest) = target.split_once("://").ok_or(Failure::NoProxyRequest)?;
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(Failure::NoProxyRequest);
    }
    // No client sends a fragment. A user in front of the host is refused with the host.
    if rest.contains('#') {
        return Err(bad());
    }
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let has_port = authority.rfind(':') > authority.rfind(']');
    let parsed = if has_port {
        authority.parse()
    } else {
        format!("{authority}:{DEFAULT_PORT}").parse()
    };
    Ok((parsed.map_err(|_| bad())?, path))
}

/// Returns the value of `Host`.
fn host(target: &Target) -> String {
    match &target.host {
        Host::Name(name) if target.port == DEFAULT_PORT => name.clone(),
        Host::Address(IpAddr::V4(address)) if target.port == DEFAULT_PORT => address.to_string(),
        Host::Address(IpAddr::V6(address)) if target.port == DEFAULT_PORT => {
            format!("[{address}]")
        }
        _ => target.to_string(),
    }
}

/// What follows the fields of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// No body, with the length that it would have.
    Nothing(Option<Body>),
    Bytes(u64),
    Chunks,
    /// The body lasts to the end of the connection.
    Rest,
}

/// Returns how the client gets the body of a response.
pub(super) fn framing(request: &Forward, reply: &Reply<'_, '_>) -> Framing {
    match reply.length {
        // A response to HEAD and a 304 may state the length of another response.
        length if request.is_head || reply.code == 304 => Framing::Nothing(length),
        _ if reply.is_bodiless() => Framing::Nothing(None),
        Some(Body::Bytes(bytes)) => Framing::Bytes(bytes),
        Some(Body::Chunked) | None if request.version == Version::Http11 => Framing::Chunks,
        Some(Body::Chunked) | None => Framing::Rest,
    }
}

/// Returns the head of a response as the client gets it.
pub(super) fn reply(
    request: &Forward,
    reply: &Reply<'_, '_>,
    framing: Framing,
    keep_alive: bool,
) -> Vec<u8> {
    let mut head = Vec::with_capacity(1024);
    let line = write!(head, "HTTP/1.1 {} {}\r\n", reply.code, reply.reason);
    line.expect("a vector takes every write");
    push_fields(&mut head, reply.headers);
    match framing {
        Framing::Nothing(Some(length)) => push_length(&mut head, length),
        Framing::Bytes(bytes) => push_length(&mut head, Body::Bytes(bytes)),
        Framing::Chunks => push_length(&mut head, Body::Chunked),
        Framing::Nothing(None) | Framing::Rest => {}
    }
    head.extend_from_slice(b"Via: 1.1 uthread\r\n");
    // An interim response says nothing about the connection.
    if reply.code >= 200 {
        let persistence: &[u8] = match (keep_alive, request.version) {
            (false, _) => b"Connection: close\r\n",
            (true, Version::Http10) => b"Connection: keep-alive\r\n",
            (true, Version::Http11) => b"",
        };
        head.extend_from_slice(persistence);
    }
    head.extend_from_slice(b"\r\n");
    head
}

fn push_length(head: &mut Vec<u8>, length: Body) {
    let line = match length {
        Body::Bytes(bytes) => write!(head, "Content-Length: {bytes}\r\n"),
        Body::Chunked => write!(head, "Transfer-Encoding: chunked\r\n"),
    };
    line.expect("a vector takes every write");
}

/// Appends the fields that are passed on: not those that `Connection` names.
fn push_fields(head: &mut Vec<u8>, headers: &[Header<'_>]) {
    let connection = |header: &&Header<'_>| header.name.eq_ignore_ascii_case("connection");
    let named: Vec<_> = headers
        .iter()
        .filter(connection)
        .flat_map(|header| header.value.split(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
        .collect();
    for Header { name, value } in headers {
        let is_named = named
            .iter()
            .any(|named| named.eq_ignore_ascii_case(name.as_bytes()));
        let is_ours = NOT_PASSED_ON
            .iter()
            .any(|ours| ours.eq_ignore_ascii_case(name));
        if !is_named && !is_ours {
            for part in [name.as_bytes(), b": ", value, b"\r\n"] {
                head.extend_from_slice(part);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request::{header_slots, parse};

    /// Returns the target, and the head that the origin gets.
    fn forwarded(head: &str) -> Result<(String, String), u16> {
        let mut slots = header_slots();
        let request = parse(head.as_bytes(), &mut slots).map_err(Status::code)?;
        let forward = Forward::new(&request).map_err(|failure| failure.status().code())?;
        let head = String::from_utf8(forward.head).unwrap();
        Ok((forward.target.to_string(), head))
    }

    #[test]
    fn targets() {
        for (method, url, expected) in [
            (
                "GET",
                "http://A.example/b?c",
                Ok(("a.example:80", "/b?c", "a.example")),
            ),
            ("GET", "HTTP://a:8080", Ok(("a:8080", "/", "a:8080"))),
            ("GET", "http://a:80?q", Ok(("a:80", "/?q", "a"))),
            (
                "GET",
                "http://127.0.0.1/",
                Ok(("127.0.0.1:80", "/", "127.0.0.1")),
            ),
            ("GET", "http://[::1]/a:b", Ok(("[::1]:80", "/a:b", "[::1]"))),
            ("GET", "http://[::1]:81/", Ok(("[::1]:81", "/", "[::1]:81"))),
            (
                "POST",
                "http://a/http://b/",
                Ok(("a:80", "/http://b/", "a")),
            ),
            ("OPTIONS", "http://a", Ok(("a:80", "*", "a"))),
            ("OPTIONS", "http://a/", Ok(("a:80", "/", "a"))),
            ("POST", "http://a/#b", Err(400)),
            ("POST", "http:///a", Err(400)),
            ("POST", "http://u@a/", Err(400)),
            ("POST", "http://a:/", Err(400)),
            ("POST", "http://a:0/", Err(400)),
            ("POST", "http://a b/", Err(400)),
            ("POST", "http://::1/", Err(400)),
            ("POST", "https://a/", Err(400)),
            ("POST", "/", Err(400)),
            ("OPTIONS", "*", Err(400)),
            ("TRACE", "http://a/", Err(501)),
        ] {
            let found = forwarded(&format!("{method} {url} HTTP/1.1\r\nHost: other\r\n\r\n"));
            let expected = expected.map(|(target, path, host)| {
                let fields = "Via: 1.1 uthread\r\nConnection: close\r\n\r\n";
                let line = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{fields}");
                (target.to_owned(), line)
            });
            assert_eq!(found, expected, "{method} {url}");
        }
    }

    /// Checks the fields between `Host` and `Via`.
    fn check_fields(fields: &str, expected: Result<&str, u16>) {
        let head = format!("POST http://a/ HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let found = forwarded(&head).map(|(_, head)| {
            let fields = head.strip_prefix("POST / HTTP/1.1\r\nHost: a\r\n").unwrap();
            let end = "Via: 1.1 uthread\r\nConnection: close\r\n\r\n";
            fields.strip_suffix(end).unwrap().to_owned()
        });
        assert_eq!(
            found.as_deref(),
            expected.as_ref().map(|&text| text),
            "{fields:?}"
        );
    }

    #[test]
    fn fields() {
        check_fields("", Ok(""));
        check_fields("X: a\r\ny:b\r\n", Ok("X: a\r\ny: b\r\n"));
        check_fields("Via: 1.0 a\r\n", Ok("Via: 1.0 a\r\n"));
        check_fields("Content-Length: 005\r\n", Ok("Content-Length: 5\r\n"));
        check_fields("Content-Length: 0\r\n", Ok("Content-Length: 0\r\n"));
        let chunked = "Transfer-Encoding: chunked\r\n";
        check_fields(chunked, Ok(chunked));
        for dropped in [
            "Connection: close\r\n",
            "Proxy-Connection: keep-alive\r\n",
            "Keep-Alive: timeout=5\r\n",
            "Proxy-Authorization: Basic YTpi\r\n",
            "TE: trailers\r\n",
            "Upgrade: websocket\r\nConnection: upgrade\r\n",
            "X: a\r\nConnection: x\r\n",
            "X: a\r\nConnection: close , X\r\nConnection: y\r\ny: b\r\n",
        ] {
            check_fields(dropped, Ok(""));
        }
        // The fields of the length are not the client's to remove.
        let named = "Connection: content-length, host\r\nContent-Length: 3\r\n";
        check_fields(named, Ok("Content-Length: 3\r\n"));
        check_fields(
            "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
            Err(400),
        );
        check_fields("X: a\r\n Content-Length: 3\r\n", Err(400));
        check_fields("Transfer-Encoding: gzip, chunked\r\n", Err(501));
    }
}

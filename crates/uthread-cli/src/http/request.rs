//! Request heads: finds the end of a head, and parses it.
//!
//! `httparse` knows the grammar, but is lenient where two servers in a row could read one byte
//! stream as different requests (smuggling). The strict rules are here: lines end with CRLF only, a
//! body has exactly one length, and ambiguous heads are refused.

use std::mem::MaybeUninit;

use super::response::Status;

/// Maximum length of a request line. Browsers, proxies and other servers stop at about 8 KiB.
pub(crate) const REQUEST_LINE_BYTES_MAX: usize = 8 * 1024;
/// Maximum length of a head: the longest request line, and as much again for the fields (cookies
/// are the largest).
pub(crate) const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of header fields. Browsers send about 20; other servers allow 100.
pub(crate) const HEADERS_MAX: usize = 100;

const LINE_END: &[u8] = b"\r\n";
const HEAD_END: &[u8] = b"\r\n\r\n";

/// Room for the fields of one head; uninitialised, because clearing 3 KiB per request would be the
/// most expensive part of parsing.
pub(crate) type HeaderSlots<'b> = [MaybeUninit<httparse::Header<'b>>; HEADERS_MAX];

pub(crate) const fn header_slots<'b>() -> HeaderSlots<'b> {
    [const { MaybeUninit::uninit() }; HEADERS_MAX]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Head,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Http10,
    Http11,
}

/// The stated length of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Bytes(u64),
    Chunked,
}

/// One unambiguous request head.
#[derive(Debug)]
pub(crate) struct Request<'h, 'b> {
    pub(crate) method: Method,
    pub(crate) method_name: &'b str,
    /// The request target as received, for the log.
    pub(crate) target: &'b str,
    /// The path and query of the target. Begins with a slash; in the absolute form it may also be
    /// empty or only a query.
    pub(crate) path_and_query: &'b str,
    pub(crate) version: Version,
    /// True if the client may send another request on this connection.
    pub(crate) keep_alive: bool,
    /// The body that follows the head.
    pub(crate) body: Body,
    pub(crate) headers: &'h [httparse::Header<'b>],
}

impl<'b> Request<'_, 'b> {
    /// Returns every value of the field `name`, in order.
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'b [u8]> + 'a {
        values(self.headers, name)
    }

    /// Returns the length of the body for a server that takes no chunks.
    pub(crate) fn body_bytes(&self) -> Result<u64, Status> {
        match self.body {
            Body::Bytes(bytes) => Ok(bytes),
            Body::Chunked => Err(Status::LengthRequired),
        }
    }

    /// Returns the value of a field that may occur once; `None` if it occurs twice.
    pub(crate) fn single(&self, name: &str) -> Option<&'b [u8]> {
        let mut values = values(self.headers, name);
        let first = values.next()?;
        values.next().is_none().then_some(first)
    }
}

/// Returns the length of the head at the start of `bytes`, or `None` if more bytes are needed.
///
/// Skips the first `scanned` bytes, which an earlier call has examined.
pub(crate) fn head_length(bytes: &[u8], scanned: usize) -> Result<Option<usize>, Status> {
    let mut found = None;
    for at in scanned..bytes.len() {
        if bytes[at] != b'\n' {
            continue;
        }
        if !bytes[..=at].ends_with(LINE_END) {
            return Err(Status::BadRequest);
        }
        if bytes[..=at] == *LINE_END {
            return Err(Status::BadRequest);
        }
        if bytes[..=at].ends_with(HEAD_END) {
            found = Some(at + 1);
            break;
        }
    }
    let line_bytes_max = REQUEST_LINE_BYTES_MAX + LINE_END.len();
    if bytes.len() > line_bytes_max && !bytes[..line_bytes_max].contains(&b'\n') {
        return Err(Status::UriTooLong);
    }
    if found.unwrap_or(bytes.len() + 1) > HEAD_BYTES_MAX {
        return Err(Status::HeaderFieldsTooLarge);
    }
    Ok(found)
}

/// Parses a whole head, as measured by [`head_length`].
pub(crate) fn parse<'h, 'b>(
    head: &'b [u8],
    slots: &'h mut HeaderSlots<'b>,
) -> Result<Request<'h, 'b>, Status> {
    let mut parsed = httparse::Request::new(&mut []);
    match parsed.parse_with_uninit_headers(head, slots) {
        Ok(httparse::Status::Complete(length)) if length == head.len() => {}
        Ok(_) => return Err(Status::BadRequest),
        Err(httparse::Error::TooManyHeaders) => return Err(Status::HeaderFieldsTooLarge),
        Err(httparse::Error::Version) => return Err(version_refusal(head)),
        Err(_) => return Err(Status::BadRequest),
    }
    let (Some(method_name), Some(target), Some(minor)) =
        (parsed.method, parsed.path, parsed.version)
    else {
        return Err(Status::BadRequest);
    };
    let headers: &'h [httparse::Header<'b>] = parsed.headers;
    let version = match minor {
        0 => Version::Http10,
        _ => Version::Http11,
    };
    let method = match method_name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        _ => Method::Other,
    };
    check_host(headers, version)?;
    Ok(Request {
        method,
        method_name,
        target,
        path_and_query: match method {
            Method::Other => target,
            Method::Get | Method::Head => path_and_query(target)?,
        },
        version,
        keep_alive: keep_alive(headers, version),
        body: body_length(headers, version)?.unwrap_or(Body::Bytes(0)),
        headers,
    })
}

/// Returns 505 for a well-formed version that is not supported, and 400 for anything else in its
/// place.
fn version_refusal(head: &[u8]) -> Status {
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or(head);
    let mut words = line.split(|&byte| byte == b' ').skip(2);
    let (Some(version), None) = (words.next(), words.next()) else {
        return Status::BadRequest;
    };
    match version {
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            Status::VersionNotSupported
        }
        _ => Status::BadRequest,
    }
}

/// Reduces the origin form (`/a?b`) and the absolute form (`http://host/a?b`) to the path and
/// query.
fn path_and_query(target: &str) -> Result<&str, Status> {
    // Clients never send a fragment: this one tries to make this server and a proxy split the
    // target differently.
    if target.contains('#') {
        return Err(Status::BadRequest);
    }
    if target.starts_with('/') {
        return Ok(target);
    }
    let (scheme, rest) = target.split_once("://").ok_or(Status::BadRequest)?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(Status::BadRequest);
    }
    let authority_end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path_and_query) = rest.split_at(authority_end);
    if authority.is_empty() || !is_host(authority.as_bytes()) {
        return Err(Status::BadRequest);
    }
    Ok(path_and_query)
}

fn check_host(headers: &[httparse::Header<'_>], version: Version) -> Result<(), Status> {
    let mut hosts = values(headers, "host");
    match (hosts.next(), hosts.next(), version) {
        (None, None, Version::Http10) => Ok(()),
        (Some(host), None, _) if is_host(host) => Ok(()),
        _ => Err(Status::BadRequest),
    }
}

/// Returns true for the characters of a host and port (RFC 3986). A comma is excluded, because two
/// hosts in a list are ambiguous.
fn is_host(host: &[u8]) -> bool {
    host.iter()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+;=:[]%".contains(byte))
}

/// Returns the stated length of a body. Two statements of the length are an error, even if they
/// agree.
pub(super) fn body_length(
    headers: &[httparse::Header<'_>],
    version: Version,
) -> Result<Option<Body>, Status> {
    let mut lengths = values(headers, "content-length");
    let mut codings = values(headers, "transfer-encoding");
    match (lengths.next(), codings.next()) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(Status::BadRequest),
        (None, Some(_)) if version == Version::Http10 => Err(Status::BadRequest),
        (None, Some(coding)) => match codings.next() {
            None if coding.eq_ignore_ascii_case(b"chunked") => Ok(Some(Body::Chunked)),
            _ => Err(Status::NotImplemented),
        },
        (Some(length), None) => match lengths.next() {
            None => decimal(length)
                .map(|bytes| Some(Body::Bytes(bytes)))
                .ok_or(Status::BadRequest),
            Some(_) => Err(Status::BadRequest),
        },
    }
}

/// Parses digits and nothing else: `str::parse` would accept "+5".
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

fn keep_alive(headers: &[httparse::Header<'_>], version: Version) -> bool {
    let says = |word: &str| {
        values(headers, "connection")
            .flat_map(|value| value.split(|&byte| byte == b','))
            .any(|option| option.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
    };
    match version {
        Version::Http10 => says("keep-alive") && !says("close"),
        Version::Http11 => !says("close"),
    }
}

fn values<'a, 'b>(
    headers: &'a [httparse::Header<'b>],
    name: &'a str,
) -> impl Iterator<Item = &'b [u8]> + 'a {
    headers
        .iter()
        .filter(move |header| header.name.eq_ignore_ascii_case(name))
        .map(|header| header.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Measures a head, and then parses it.
    fn read(head: &[u8]) -> Result<(String, u64, bool), Status> {
        let length = head_length(head, 0)?.ok_or(Status::RequestTimeout)?;
        let mut slots = header_slots();
        let request = parse(&head[..length], &mut slots)?;
        Ok((
            request.path_and_query.to_owned(),
            request.body_bytes()?,
            request.keep_alive,
        ))
    }

    fn check(head: &str, expected: Result<(&str, u64, bool), Status>) {
        let expected = expected.map(|(path, body, keep)| (path.to_owned(), body, keep));
        assert_eq!(read(head.as_bytes()), expected, "{head:?}");
    }

    /// Checks `fields` in an otherwise valid request.
    fn check_fields(fields: &str, expected: Result<(&str, u64, bool), Status>) {
        check(
            &format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"),
            expected,
        );
    }

    const BAD: Result<(&str, u64, bool), Status> = Err(Status::BadRequest);

    #[test]
    fn accepted() {
        check_fields("", Ok(("/", 0, true)));
        check_fields("Connection: close\r\n", Ok(("/", 0, false)));
        check_fields("Connection: x, Close\r\n", Ok(("/", 0, false)));
        check_fields("Content-Length: 5\r\n", Ok(("/", 5, true)));
        check_fields("Content-Length:  5 \r\n", Ok(("/", 5, true)));
        check_fields("X: a\tb \u{e9}\r\n", Ok(("/", 0, true)));
        check(
            "GET /a?b=/../c HTTP/1.1\r\nHost:\r\n\r\n",
            Ok(("/a?b=/../c", 0, true)),
        );
        check("GET / HTTP/1.0\r\n\r\n", Ok(("/", 0, false)));
        check(
            "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
            Ok(("/", 0, true)),
        );
    }

    #[test]
    fn absolute_form() {
        for (target, expected) in [
            ("http://a/b?c", Ok("/b?c")),
            ("HTTPS://a:80/", Ok("/")),
            ("http://a", Ok("")),
            ("http://a?q", Ok("?q")),
            ("http:///b", Err(Status::BadRequest)),
            ("http://u@a/b", Err(Status::BadRequest)),
            ("ftp://a/b", Err(Status::BadRequest)),
            ("a/b", Err(Status::BadRequest)),
            ("*", Err(Status::BadRequest)),
            ("/a#b", Err(Status::BadRequest)),
        ] {
            let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            check(&head, expected.map(|path| (path, 0, true)));
        }
    }

    #[test]
    fn lengths_that_could_be_read_in_two_ways() {
        for length in [
            "+5",
            "-5",
            "5,5",
            "5, 5",
            "",
            "0x5",
            "5 5",
            "5.",
            "99999999999999999999",
        ] {
            check_fields(&format!("Content-Length: {length}\r\n"), BAD);
        }
        check_fields("Content-Length: 5\r\nContent-Length: 5\r\n", BAD);
        check_fields("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", BAD);
        check_fields("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", BAD);
        check_fields(
            "Transfer-Encoding: Chunked\r\n",
            Err(Status::LengthRequired),
        );
        check_fields("Transfer-Encoding: gzip\r\n", Err(Status::NotImplemented));
        check_fields(
            "Transfer-Encoding: gzip, chunked\r\n",
            Err(Status::NotImplemented),
        );
        check_fields(
            "Transfer-Encoding: xchunked\r\n",
            Err(Status::NotImplemented),
        );
        check_fields(
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            Err(Status::NotImplemented),
        );
        check("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", BAD);
    }

    #[test]
    fn line_ends_other_than_crlf() {
        for head in [
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\n",
            "GET / HTTP/1.1\n\nHost: a",
            "GET / HTTP/1.1\r\nHost: a\r\nX: a\nContent-Length: 5\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
            "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ] {
            check(head, BAD);
        }
    }

    #[test]
    fn bytes_that_have_no_place() {
        check_fields("X: a\0b\r\n", BAD);
        check_fields("X: a\u{1}b\r\n", BAD);
        check_fields("X: a\u{7f}b\r\n", BAD);
        check_fields("X : a\r\n", BAD);
        check_fields("X\r\n", BAD);
        check_fields(": a\r\n", BAD);
        check_fields("X: a\r\n b\r\n", BAD);
        check_fields("X: a\r\n\tb\r\n", BAD);
        check("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", BAD);
        check("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", BAD);
        check("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", BAD);
        check("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", BAD);
        check("G(T / HTTP/1.1\r\nHost: a\r\n\r\n", BAD);
        check(" GET / HTTP/1.1\r\nHost: a\r\n\r\n", BAD);
        check("GET / HTTP/1.1\r\n Host: a\r\n\r\n", BAD);
    }

    #[test]
    fn hosts() {
        check("GET / HTTP/1.1\r\n\r\n", BAD);
        check_fields("Host: a\r\n", BAD);
        check("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", BAD);
        for host in ["a b", "a,b", "a/b", "u@a", "a\u{e9}"] {
            check(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), BAD);
        }
        check(
            "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
            Ok(("/", 0, true)),
        );
    }

    #[test]
    fn versions() {
        for version in ["HTTP/2.0", "HTTP/1.2", "HTTP/0.9", "HTTP/9.9"] {
            let head = format!("GET / {version}\r\nHost: a\r\n\r\n");
            check(&head, Err(Status::VersionNotSupported));
        }
        for version in ["HTTP/1", "http/1.1", "HTTP/1.11", "HTTP/a.b", "FTP/1.1"] {
            check(&format!("GET / {version}\r\nHost: a\r\n\r\n"), BAD);
        }
        check("GET /\r\n\r\n", BAD);
    }

    #[test]
    fn sizes() {
        let line = |path_bytes: usize| {
            format!(
                "GET /{} HTTP/1.1\r\nHost: a\r\n\r\n",
                "x".repeat(path_bytes)
            )
        };
        let around = "GET / HTTP/1.1".len();
        assert!(read(line(REQUEST_LINE_BYTES_MAX - around).as_bytes()).is_ok());
        check(
            &line(REQUEST_LINE_BYTES_MAX - around + 1),
            Err(Status::UriTooLong),
        );

        let too_large = Err(Status::HeaderFieldsTooLarge);
        check_fields(&format!("X: {}\r\n", "x".repeat(HEAD_BYTES_MAX)), too_large);
        check_fields(&"X: x\r\n".repeat(HEADERS_MAX), too_large);
        check_fields(&"X: x\r\n".repeat(HEADERS_MAX - 1), Ok(("/", 0, true)));
    }

    /// Generates bytes that resemble a request more often than chance would.
    fn almost_a_head() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            4 => Just(&b"\r\n"[..]), 1 => Just(&b"\n"[..]), 1 => Just(&b"\r"[..]), 1 => Just(&b"\0"[..]),
            2 => Just(&b"GET / HTTP/1.1\r\n"[..]), 2 => Just(&b"Host: a\r\n"[..]), 1 => Just(&b"Host: a"[..]),
            2 => Just(&b"Content-Length: 5\r\n"[..]), 1 => Just(&b"Content-Length:"[..]), 1 => Just(&b"5"[..]),
            2 => Just(&b"Transfer-Encoding: chunked\r\n"[..]), 1 => Just(&b" "[..]), 1 => Just(&b"x: y"[..]),
            2 => Just(&b"\r\n\r\n"[..]), 1 => Just(&b"\xff"[..]), 1 => Just(&b":"[..]),
        ];
        let head = prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat());
        prop_oneof![
            head.clone(),
            head.prop_map(|tail| [b"GET / HTTP/1.1\r\nHost: a\r\n", &tail[..]].concat()),
            prop::collection::vec(any::<u8>(), 0..200),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn accepted_requests_have_one_reading(bytes in almost_a_head()) {
            if let Ok(Some(length)) = head_length(&bytes, 0) {
                let head = &bytes[..length];
                prop_assert!(head.ends_with(HEAD_END));
                prop_assert!(!head[..length - 1].windows(4).any(|window| window == HEAD_END));
                let mut slots = header_slots();
                if let Ok(request) = parse(head, &mut slots) {
                    prop_assert!(!head.contains(&0));
                    for (at, _) in head.iter().enumerate().filter(|&(_, &byte)| byte == b'\n') {
                        prop_assert_eq!(head[at - 1], b'\r');
                    }
                    prop_assert_eq!(head.iter().filter(|&&byte| byte == b'\r').count(),
                        head.iter().filter(|&&byte| byte == b'\n').count());
                    let lengths = request.values("content-length").count();
                    let codings = request.values("transfer-encoding").count();
                    prop_assert!(lengths + codings <= 1);
                    prop_assert_eq!(request.body == Body::Chunked, codings == 1);
                    // The pieces also make a length of 55.
                    let stated = request.single("content-length").map(|value| value.trim_ascii());
                    let stated = stated.map_or("0", |value| std::str::from_utf8(value).unwrap());
                    if let Body::Bytes(bytes) = request.body {
                        prop_assert_eq!(Ok(bytes), stated.parse());
                    }
                }
            }
        }

        #[test]
        fn a_head_in_two_pieces_ends_where_it_ends_in_one(bytes in almost_a_head(), cut in 0..200_usize) {
            let cut = cut.min(bytes.len());
            if let Ok(None) = head_length(&bytes[..cut], 0) {
                prop_assert_eq!(head_length(&bytes, cut), head_length(&bytes, 0));
            }
        }
    }
}

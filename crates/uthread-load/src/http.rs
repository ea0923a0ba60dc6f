//! Heads of HTTP/1.1 responses: the fields that decide whether the response is right and where it
//! ends.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Response, Status};

use crate::chunked::Chunked;
use crate::failure::{Failure, Kind};

/// Maximum size of the head of a response, with those of interim responses before it: curl's limit.
const HEAD_BYTES_MAX: usize = 300 * 1024;
/// Initial room for a head in a connection's buffer, which grows if necessary.
pub(crate) const HEAD_BYTES_USUAL: usize = 512;
/// Fields for which the stack has room: servers send about ten.
const FIELDS_USUAL: usize = 64;
/// Maximum number of fields of a head: curl's limit.
const FIELDS_MAX: usize = 5000;

/// The decision of the server to keep or close the connection after the response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Closes(pub(crate) bool);

#[derive(Debug, PartialEq)]
pub(crate) struct Head {
    pub(crate) bytes: usize,
    pub(crate) body: Body,
    pub(crate) closes: Closes,
}

/// The rest of a body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Body {
    /// Number of bytes.
    Length(u64),
    Chunked(Chunked),
}

impl Body {
    /// Consumes bytes from the start of `received`, and passes the content to `data`. Returns their
    /// number, and `true` at the end of the body.
    pub(crate) fn take(
        &mut self,
        received: &[u8],
        mut data: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(usize, bool), Failure> {
        match self {
            Body::Length(left) => {
                let bytes = received
                    .len()
                    .min(usize::try_from(*left).unwrap_or(usize::MAX));
                data(&received[..bytes])?;
                *left -= bytes as u64;
                Ok((bytes, *left == 0))
            }
            Body::Chunked(chunked) => chunked.take(received, data),
        }
    }
}

/// The responses that a request accepts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Accepted {
    pub(crate) statuses: Vec<u16>,
    /// `true` for `HEAD`, whose responses have no body whatever their fields tell.
    pub(crate) is_head: bool,
}

/// Parses the head at the start of `received`, after those of interim responses (RFC 9110, section
/// 15.2), which it includes; returns `None` if it is incomplete.
pub(crate) fn parse_head(received: &[u8], accepted: &Accepted) -> Result<Option<Head>, Failure> {
    let mut interim_bytes = 0;
    loop {
        let rest = &received[interim_bytes..];
        let mut fields = [const { MaybeUninit::<Header<'_>>::uninit() }; FIELDS_USUAL];
        let mut parsed = parse_one(rest, &mut fields, accepted);
        if let Err(httparse::Error::TooManyHeaders) = parsed {
            parsed = parse_one(rest, &mut vec![MaybeUninit::uninit(); FIELDS_MAX], accepted);
        }
        let too_long = || wrong(format!("the head is longer than {HEAD_BYTES_MAX} bytes"));
        match parsed {
            Ok(One::Partial) if received.len() < HEAD_BYTES_MAX => return Ok(None),
            Ok(One::Partial) => return Err(too_long()),
            Ok(One::Interim(bytes)) => interim_bytes += bytes,
            Ok(One::Final(head)) => {
                let head = head?;
                let bytes = interim_bytes + head.bytes;
                return if bytes <= HEAD_BYTES_MAX {
                    Ok(Some(Head { bytes, ..head }))
                } else {
                    Err(too_long())
                };
            }
            Err(error) => {
                let begin = String::from_utf8_lossy(&rest[..rest.len().min(40)]);
                return Err(wrong(format!(
                    "not an HTTP response: {error}, in {begin:?}"
                )));
            }
        }
    }
}

/// One head of a response.
enum One {
    Partial,
    /// An interim response of this size, such as 100 and 103: another one follows.
    Interim(usize),
    Final(Result<Head, Failure>),
}

fn parse_one<'a>(
    received: &'a [u8],
    fields: &mut [MaybeUninit<Header<'a>>],
    accepted: &Accepted,
) -> Result<One, httparse::Error> {
    let mut response = Response::new(&mut []);
    let parsed =
        ParserConfig::default().parse_response_with_uninit_headers(&mut response, received, fields);
    let Status::Complete(bytes) = parsed? else {
        return Ok(One::Partial);
    };
    let code = response.code.unwrap_or_default();
    // After 101, the connection is one of another protocol.
    if matches!(code, 100 | 102..200) {
        return Ok(One::Interim(bytes));
    }
    if !accepted.statuses.contains(&code) {
        let reason = response.reason.unwrap_or_default();
        let text = format!("status {code} {reason}");
        return Ok(One::Final(Err(Failure::new(Kind::Status, text))));
    }
    let has_body = !accepted.is_head && !matches!(code, 204 | 304);
    let framed = frame(response.headers, response.version == Some(0), has_body);
    Ok(One::Final(framed.map(|(body, closes)| Head {
        bytes,
        body,
        closes: Closes(closes),
    })))
}

/// Returns the framing of the body, and whether the connection ends with it.
fn frame(fields: &[Header<'_>], mut closes: bool, has_body: bool) -> Result<(Body, bool), Failure> {
    let mut body_bytes = None;
    let mut is_chunked = false;
    for field in fields {
        let value = field.value.trim_ascii();
        if field.name.eq_ignore_ascii_case("content-length") {
            let text = str::from_utf8(value).unwrap_or_default();
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse().ok().filter(|_| digits);
            if number.is_none() || body_bytes.is_some() {
                return Err(wrong(
                    "the Content-Length is not a number, or occurs twice".to_owned(),
                ));
            }
            body_bytes = number;
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.eq_ignore_ascii_case(b"chunked") {
                let coding = String::from_utf8_lossy(value);
                return Err(wrong(format!(
                    "the body has the transfer coding {coding:?}, not \"chunked\""
                )));
            }
            is_chunked = true;
        } else if field.name.eq_ignore_ascii_case("connection") {
            closes = match value {
                value if value.eq_ignore_ascii_case(b"close") => true,
                value if value.eq_ignore_ascii_case(b"keep-alive") => false,
                _ => closes,
            };
        }
    }
    let body = match body_bytes {
        _ if !has_body => Body::Length(0),
        _ if is_chunked => Body::Chunked(Chunked::default()),
        Some(bytes) => Body::Length(bytes),
        None => {
            let text =
                "the body ends with the connection: it has neither a Content-Length nor chunks";
            return Err(wrong(text.to_owned()));
        }
    };
    Ok((body, closes))
}

fn wrong(text: String) -> Failure {
    Failure::new(Kind::Wrong, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ok() -> Accepted {
        Accepted {
            statuses: vec![200],
            is_head: false,
        }
    }

    #[test]
    fn a_response_may_have_chunks_or_no_body_at_all() {
        let body = |head: &str, accepted: &Accepted| {
            let head = parse_head(head.as_bytes(), accepted).unwrap().unwrap();
            head.body
        };
        let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n";
        assert_eq!(body(chunks, &ok()), Body::Chunked(Chunked::Size));
        let head = Accepted {
            is_head: true,
            ..ok()
        };
        assert_eq!(body(chunks, &head), Body::Length(0));
        let none = Accepted {
            statuses: vec![204, 404],
            ..ok()
        };
        assert_eq!(body("HTTP/1.1 204 No\r\n\r\n", &none), Body::Length(0));
        let missing = "HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\n";
        assert_eq!(body(missing, &none), Body::Length(9));
    }

    #[test]
    fn a_complete_head_shows_where_the_answer_ends() {
        let check = |head: &str, body_bytes, closes| {
            for end in 0..head.len() {
                assert_eq!(
                    parse_head(&head.as_bytes()[..end], &ok()),
                    Ok(None),
                    "{end} of {head:?}"
                );
            }
            let expected = Head {
                bytes: head.len(),
                body: Body::Length(body_bytes),
                closes: Closes(closes),
            };
            let found = parse_head(format!("{head}body").as_bytes(), &ok());
            assert_eq!(found, Ok(Some(expected)), "{head:?}");
        };
        check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 5, false);
        check(
            "HTTP/1.1 200 OK\r\ncontent-LENGTH:0\r\nConnection: Close\r\n\r\n",
            0,
            true,
        );
        check("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", 5, true);
        check(
            "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n",
            5,
            false,
        );
    }

    #[test]
    fn interim_responses_are_parts_of_the_head() {
        let interim =
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n";
        let whole = format!("{interim}HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
        for end in 0..whole.len() {
            let found = parse_head(&whole.as_bytes()[..end], &ok());
            assert_eq!(found, Ok(None), "{end}");
        }
        let head = parse_head(format!("{whole}hello").as_bytes(), &ok()).unwrap();
        let head = head.unwrap();
        assert_eq!((head.bytes, head.body), (whole.len(), Body::Length(5)));
    }

    #[test]
    fn large_heads_are_parsed_like_curl_does() {
        let check = |fields: String, expected: Result<u64, &str>| {
            let head = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 5\r\n\r\n");
            match (parse_head(head.as_bytes(), &ok()), expected) {
                (Ok(Some(head)), Ok(bytes)) => assert_eq!(head.body, Body::Length(bytes)),
                (Err(failure), Err(words)) => assert!(failure.text.contains(words), "{failure:?}"),
                (found, _) => panic!("{found:?}"),
            }
        };
        check(format!("A: {}\r\n", "x".repeat(20_000)), Ok(5));
        check(format!("A: {}\r\n", "x".repeat(200_000)), Ok(5));
        check("A: b\r\n".repeat(FIELDS_USUAL), Ok(5));
        check("A: b\r\n".repeat(FIELDS_MAX - 1), Ok(5));
        check("A: b\r\n".repeat(FIELDS_MAX), Err("headers"));
        check(
            format!("A: {}\r\n", "x".repeat(HEAD_BYTES_MAX)),
            Err("longer"),
        );
    }

    #[test]
    fn uncheckable_responses_are_errors_with_a_reason() {
        let check = |received: &[u8], kind, reason: &str| {
            let failure = parse_head(received, &ok()).unwrap_err();
            assert_eq!(failure.kind, kind, "{failure:?}");
            assert!(
                failure.text.contains(reason),
                "{failure:?} does not say {reason:?}"
            );
        };
        check(
            b"HTTP/1.1 503 Busy\r\n\r\n",
            Kind::Status,
            "status 503 Busy",
        );
        check(b"SSH-2.0-OpenSSH", Kind::Wrong, "SSH-2.0");
        check(
            b"HTTP/1.1 200 OK\r\n\r\n",
            Kind::Wrong,
            "ends with the connection",
        );
        check(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            Kind::Wrong,
            "gzip",
        );
        for length in [
            "+5",
            "",
            "x",
            "18446744073709551616",
            "5\r\nContent-Length: 5",
        ] {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            check(head.as_bytes(), Kind::Wrong, "Content-Length");
        }
        let switch = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n";
        check(switch, Kind::Status, "101");
        let interim = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(HEAD_BYTES_MAX / 25 + 1);
        check(&interim, Kind::Wrong, "longer");
        let endless = [
            b"HTTP/1.1 200 OK\r\nA: ".as_slice(),
            &[b'x'; HEAD_BYTES_MAX],
        ]
        .concat();
        check(&endless, Kind::Wrong, "longer");
    }
}

//! Heads of HTTP/1.1 responses: the fields that decide whether the response is right and where it
//! ends.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Response, Status};

use crate::chunked::Chunked;
use crate::failure::{Failure, Kind};

/// Servers send a quarter of this; nginx accepts no longer head from an upstream server.
pub(crate) const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Initial room for a head in a connection's buffer, which grows if necessary.
pub(crate) const HEAD_BYTES_USUAL: usize = 512;
/// Servers send about ten; four times the most that was seen.
const FIELDS_MAX: usize = 64;

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

/// Parses the head at the start of `received`; returns `None` if it is incomplete.
pub(crate) fn parse_head(received: &[u8], accepted: &Accepted) -> Result<Option<Head>, Failure> {
    let mut fields = [const { MaybeUninit::<Header<'_>>::uninit() }; FIELDS_MAX];
    let mut response = Response::new(&mut []);
    let parsed = ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        received,
        &mut fields,
    );
    let bytes = match parsed {
        Ok(Status::Complete(bytes)) if bytes <= HEAD_BYTES_MAX => bytes,
        Ok(Status::Partial) if received.len() < HEAD_BYTES_MAX => return Ok(None),
        Ok(_) => {
            return Err(wrong(format!(
                "the head is longer than {HEAD_BYTES_MAX} bytes"
            )));
        }
        Err(error) => {
            let begin = String::from_utf8_lossy(&received[..received.len().min(40)]);
            return Err(wrong(format!(
                "not an HTTP response: {error}, in {begin:?}"
            )));
        }
    };
    let code = response.code.unwrap_or_default();
    if !accepted.statuses.contains(&code) {
        let reason = response.reason.unwrap_or_default();
        return Err(Failure::new(
            Kind::Status,
            format!("status {code} {reason}"),
        ));
    }
    let has_body = !accepted.is_head && !matches!(code, 100..200 | 204 | 304);
    let (body, closes) = frame(response.headers, response.version == Some(0), has_body)?;
    Ok(Some(Head {
        bytes,
        body,
        closes: Closes(closes),
    }))
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
        let endless = [
            b"HTTP/1.1 200 OK\r\nA: ".as_slice(),
            &[b'x'; HEAD_BYTES_MAX],
        ]
        .concat();
        check(&endless, Kind::Wrong, "longer");
    }
}

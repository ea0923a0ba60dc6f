//! Heads of HTTP/1.1 responses: the fields that decide whether the response is right and where it ends.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Response, Status};

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
    pub(crate) body_bytes: u64,
    pub(crate) closes: Closes,
}

pub(crate) fn request(host: &str, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: uthread-load\r\n\r\n").into_bytes()
}

/// Parses the head at the start of `received`; returns `None` if it is incomplete.
pub(crate) fn parse_head(received: &[u8]) -> Result<Option<Head>, Failure> {
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
    if response.code != Some(200) {
        let code = response.code.unwrap_or_default();
        let reason = response.reason.unwrap_or_default();
        return Err(Failure::new(
            Kind::Status,
            format!("status {code} {reason}"),
        ));
    }
    let (body_bytes, closes) = frame(response.headers, response.version == Some(0))?;
    Ok(Some(Head {
        bytes,
        body_bytes,
        closes: Closes(closes),
    }))
}

/// Returns the length of the body, and whether the connection ends with it.
fn frame(fields: &[Header<'_>], mut closes: bool) -> Result<(u64, bool), Failure> {
    let mut body_bytes = None;
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
            let coding = String::from_utf8_lossy(value);
            return Err(wrong(format!(
                "the body has the transfer coding {coding:?}: only a body with a Content-Length can be checked"
            )));
        } else if field.name.eq_ignore_ascii_case("connection") {
            closes = match value {
                value if value.eq_ignore_ascii_case(b"close") => true,
                value if value.eq_ignore_ascii_case(b"keep-alive") => false,
                _ => closes,
            };
        }
    }
    match body_bytes {
        Some(body_bytes) => Ok((body_bytes, closes)),
        None => Err(wrong(
            "the body ends with the connection: only a body with a Content-Length can be checked"
                .to_owned(),
        )),
    }
}

fn wrong(text: String) -> Failure {
    Failure::new(Kind::Wrong, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complete_head_tells_where_the_answer_ends() {
        let check = |head: &str, body_bytes, closes| {
            for end in 0..head.len() {
                assert_eq!(
                    parse_head(&head.as_bytes()[..end]),
                    Ok(None),
                    "{end} of {head:?}"
                );
            }
            let expected = Head {
                bytes: head.len(),
                body_bytes,
                closes: Closes(closes),
            };
            let found = parse_head(format!("{head}body").as_bytes());
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
    fn what_cannot_be_checked_is_an_error_that_says_why() {
        let check = |received: &[u8], kind, reason: &str| {
            let failure = parse_head(received).unwrap_err();
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
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            Kind::Wrong,
            "chunked",
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

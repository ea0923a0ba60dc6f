//! A small HTTP/1.1 client on a plain socket: one request at a time on a keep-alive connection, `Content-Length` only.
//!
//! It is deliberately strict and shares no code with the server, because it judges what the server sends.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// The servers measured here answer with under 300 bytes of header; 16 KiB is what browsers allow.
const HEADER_BYTES_MAX: usize = 16 * 1024;
/// One read's worth of a body: large enough that a 1 MiB file takes few calls.
const READ_BYTES: usize = 64 * 1024;
/// A server that keeps an ordinary client waiting this long has failed it.
const ANSWER_MAX: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) body_bytes: u64,
    /// The server will close this connection after the body.
    pub(crate) closes: bool,
}

pub(crate) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Result<Connection> {
        let stream = TcpStream::connect_timeout(&address, ANSWER_MAX)
            .with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.set_write_timeout(Some(ANSWER_MAX))?;
        Ok(Connection {
            stream,
            received: Vec::new(),
        })
    }

    /// Requests `path` (already percent-encoded) and hands the body to `consume` piece by piece.
    pub(crate) fn get(
        &mut self,
        path: &str,
        mut consume: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<Head> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        self.stream
            .write_all(request.as_bytes())
            .with_context(|| format!("request {path}"))?;
        let head = self
            .read_head()
            .with_context(|| format!("header of {path}"))?;
        let at_hand = self
            .received
            .len()
            .min(usize::try_from(head.body_bytes).unwrap_or(usize::MAX));
        consume(&self.received[..at_hand])?;
        self.received.drain(..at_hand);
        let mut left = head.body_bytes - at_hand as u64;
        let mut piece = vec![0; READ_BYTES.min(usize::try_from(left).unwrap_or(READ_BYTES))];
        while left > 0 {
            let wanted = piece.len().min(usize::try_from(left).unwrap_or(READ_BYTES));
            let count = self
                .read_some(&mut piece[..wanted])
                .with_context(|| format!("body of {path}"))?;
            consume(&piece[..count])?;
            left -= count as u64;
        }
        ensure!(
            self.received.is_empty(),
            "{path}: {} bytes after the body",
            self.received.len()
        );
        Ok(head)
    }

    /// Whether the server still holds this connection open. Nothing may be in flight.
    pub(crate) fn is_open(&self) -> Result<bool> {
        self.stream.set_nonblocking(true)?;
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false)?;
        Ok(matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock))
    }

    fn read_head(&mut self) -> Result<Head> {
        let mut piece = [0; 4096];
        loop {
            if let Some((head, head_bytes)) = parse_head(&self.received)? {
                self.received.drain(..head_bytes);
                return Ok(head);
            }
            let count = self.read_some(&mut piece)?;
            self.received.extend_from_slice(&piece[..count]);
        }
    }

    fn read_some(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => bail!("the server closed the connection in the middle of a response"),
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    bail!("no answer for {ANSWER_MAX:?}")
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The head of a response and its length, or `None` while it is incomplete.
fn parse_head(received: &[u8]) -> Result<Option<(Head, usize)>> {
    let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") else {
        ensure!(
            received.len() <= HEADER_BYTES_MAX,
            "the header is longer than {HEADER_BYTES_MAX} bytes"
        );
        return Ok(None);
    };
    let text = std::str::from_utf8(&received[..end]).context("the header is not text")?;
    let mut lines = text.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let status = status_line
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3)?.parse().ok());
    let status = status.with_context(|| format!("not a status line: {status_line:?}"))?;
    let mut body_bytes: Option<u64> = None;
    let mut closes = false;
    for line in lines {
        let (name, value) = line
            .split_once(':')
            .with_context(|| format!("not a header field: {line:?}"))?;
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => {
                ensure!(body_bytes.is_none(), "two Content-Length fields");
                let all_digits =
                    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
                ensure!(all_digits, "Content-Length is {value:?}");
                body_bytes = Some(
                    value
                        .parse()
                        .with_context(|| format!("Content-Length is {value:?}"))?,
                );
            }
            "transfer-encoding" => {
                bail!("Transfer-Encoding {value:?} where a Content-Length was expected")
            }
            "connection" => closes |= value.eq_ignore_ascii_case("close"),
            _ => {}
        }
    }
    let body_bytes = body_bytes.context("no Content-Length")?;
    Ok(Some((
        Head {
            status,
            body_bytes,
            closes,
        },
        end + 4,
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complete_head_is_read_and_measured() {
        let check = |received: &str, status, body_bytes, closes, after: &str| {
            let (head, head_bytes) = parse_head(received.as_bytes()).unwrap().unwrap();
            assert_eq!(
                head,
                Head {
                    status,
                    body_bytes,
                    closes
                },
                "{received:?}"
            );
            assert_eq!(&received[head_bytes..], after, "{received:?}");
        };
        check(
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            200,
            5,
            false,
            "hello",
        );
        check(
            "HTTP/1.1 200 OK\r\ncontent-LENGTH:5\r\n\r\n",
            200,
            5,
            false,
            "",
        );
        check(
            "HTTP/1.1 404 Not Found\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n",
            404,
            0,
            true,
            "",
        );
        check(
            "HTTP/1.1 200\r\nA: b:c\r\nContent-Length: 18446744073709551615\r\n\r\n",
            200,
            u64::MAX,
            false,
            "",
        );
    }

    #[test]
    fn an_incomplete_head_is_none() {
        for received in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r",
        ] {
            assert!(
                parse_head(received.as_bytes()).unwrap().is_none(),
                "{received:?}"
            );
        }
    }

    #[test]
    fn a_wrong_head_is_an_error() {
        let check = |received: &[u8], reason: &str| {
            let error = parse_head(received).unwrap_err().to_string();
            assert!(error.contains(reason), "{error:?} does not say {reason:?}");
        };
        check(
            b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n",
            "status line",
        );
        check(b"HTTP/1.1 OK\r\n\r\n", "status line");
        check(b"HTTP/1.1 200 OK\r\n\r\n", "no Content-Length");
        check(
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
            "two",
        );
        check(b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n", "+5");
        check(
            b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n",
            "18446744073709551616",
        );
        check(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "Transfer-Encoding",
        );
        check(b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "header field");
        check(b"HTTP/1.1 200 OK\r\nA: \xff\r\n\r\n", "not text");
        check(&[b'x'; HEADER_BYTES_MAX + 1], "longer");
    }
}

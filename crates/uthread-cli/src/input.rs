//! The receive buffer of a connection.
//!
//! An idle connection has no buffer. The buffer grows while a head needs it, and is freed when it
//! has grown and all of it is consumed.

use std::io::{self, Read};

use crate::http::request::{self, HEAD_BYTES_MAX};
use crate::http::response::Status;

/// Initial size: fits a browser's head of about 700 bytes. glibc's `malloc` keeps free memory of up to
/// 1,032 bytes for each thread, so the next buffer is the last one, which is in the cache.
const INITIAL_BYTES: usize = 1024;

#[derive(Debug)]
pub(crate) struct Input {
    /// All initialised; `start..end` holds received bytes that are not consumed yet.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    pub(crate) fn new() -> Input {
        Input {
            bytes: Vec::new(),
            start: 0,
            end: 0,
        }
    }

    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(crate) fn consume(&mut self, count: usize) {
        assert!(count <= self.unread().len(), "consumed more than there is");
        self.start += count;
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            if self.bytes.len() > INITIAL_BYTES {
                self.release();
            }
        }
    }

    /// Frees the buffer, which must be empty.
    pub(crate) fn release(&mut self) {
        assert!(self.unread().is_empty(), "released unread bytes");
        self.bytes = Vec::new();
    }

    /// Receives once. The buffer must have room: a head of the largest size is either complete or
    /// refused.
    pub(crate) fn receive(&mut self, mut stream: impl Read) -> io::Result<usize> {
        self.make_room();
        let count = stream.read(&mut self.bytes[self.end..])?;
        self.end += count;
        Ok(count)
    }

    /// Receives once, with as much room as a body is worth if there are no unread bytes.
    pub(crate) fn receive_body(&mut self, stream: impl Read) -> io::Result<usize> {
        if self.unread().is_empty() {
            self.bytes.resize(HEAD_BYTES_MAX, 0);
        }
        self.receive(stream)
    }

    /// Consumes an empty line before a request, and returns true if there was one. RFC 9112,
    /// section 2.2, asks servers to ignore it: old clients send it after a body.
    pub(crate) fn skip_empty_line(&mut self) -> bool {
        let found = self.unread().starts_with(b"\r\n");
        if found {
            self.consume(2);
        }
        found
    }

    /// Receives until a head is complete, and returns its length. Ignores one empty line before it.
    ///
    /// # Errors
    ///
    /// A status for a head that is refused, within the result. `UnexpectedEof` if the peer ends
    /// within a head, or before its first byte; any other error of a receive.
    pub(crate) fn receive_head(
        &mut self,
        mut stream: impl Read,
    ) -> io::Result<Result<usize, Status>> {
        let mut scanned = 0;
        let mut empty_line_skipped = false;
        loop {
            if !empty_line_skipped && self.skip_empty_line() {
                empty_line_skipped = true;
                scanned = 0;
            }
            match request::head_length(self.unread(), scanned) {
                Ok(Some(head_bytes)) => return Ok(Ok(head_bytes)),
                Ok(None) => scanned = self.unread().len(),
                Err(status) => return Ok(Err(status)),
            }
            if self.receive(&mut stream)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn make_room(&mut self) {
        if self.end < self.bytes.len() {
            return;
        }
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            return;
        }
        assert!(self.end < HEAD_BYTES_MAX, "a full head was not refused");
        let doubled = self.bytes.len() * 2;
        self.bytes.resize(doubled.max(INITIAL_BYTES), 0);
    }
}

// Doubling the idle size reaches exactly the limit.
const _: () = assert!(HEAD_BYTES_MAX.is_power_of_two() && INITIAL_BYTES.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use uthread::net::{TcpListener, TcpStream};

    #[test]
    fn grows_to_the_limit_and_shrinks_when_consumed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        client.write_all(&[7; HEAD_BYTES_MAX]).unwrap();

        let mut input = Input::new();
        while input.unread().len() < HEAD_BYTES_MAX {
            assert!(input.receive(&server).unwrap() > 0);
        }
        assert_eq!(input.unread(), [7; HEAD_BYTES_MAX]);
        assert_eq!(input.bytes.len(), HEAD_BYTES_MAX);

        input.consume(HEAD_BYTES_MAX - 1);
        client.write_all(b"x").unwrap();
        input.receive(&server).unwrap();
        assert_eq!(input.unread(), [7, b'x']);

        input.consume(2);
        assert_eq!(input.bytes.capacity(), 0);

        client.write_all(b"y").unwrap();
        input.receive(&server).unwrap();
        assert_eq!(
            (input.unread(), input.bytes.len()),
            (&b"y"[..], INITIAL_BYTES)
        );
    }
}

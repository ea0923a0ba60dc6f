//! Streams the body of a message from one connection to another.
//!
//! Chunks are read strictly and written anew, without their extensions and trailers: the receiver
//! sees only what this proxy has understood.

use std::io::{self, Write};

use super::relay::{Pace, one_way};
use crate::counters::Counter;
use crate::http::request::{Body, HEADERS_MAX};
use crate::input::Input;
use crate::stream::Stream;

/// Longest line of a chunk's size with its extensions, or of a trailer: both are short in practice,
/// and dropped.
const LINE_BYTES_MAX: usize = 4096;
/// Digits of the size of a chunk, so that it fits 64 bits.
const SIZE_DIGITS_MAX: usize = 15;

/// The receiver of a body.
pub(super) struct Sink<'a> {
    pub(super) to: &'a Stream,
    pub(super) is_chunked: bool,
    pub(super) moved: &'a Counter,
    pub(super) pace: Pace,
}

impl Sink<'_> {
    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_chunked {
            let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
            chunk.extend_from_slice(bytes);
            chunk.extend_from_slice(b"\r\n");
            self.send(&chunk)?;
        } else {
            self.send(bytes)?;
        }
        self.moved.add(bytes.len() as u64);
        self.pace.spend(bytes.len() as u64);
        Ok(())
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut to = self.to;
        to.write_all(bytes)
    }
}

/// Copies a body, of which `input` has the begin; without a length, to the end of the stream.
///
/// # Errors
///
/// `UnexpectedEof` if the stream ends before the body; `InvalidData` for malformed chunks; any
/// other error of either stream.
pub(super) fn copy(
    from: &Stream,
    input: &mut Input,
    length: Option<Body>,
    sink: &mut Sink<'_>,
) -> io::Result<()> {
    match length {
        Some(Body::Bytes(bytes)) => copy_bytes(from, input, bytes, sink)?,
        Some(Body::Chunked) => copy_chunks(from, input, sink)?,
        None => copy_rest(from, input, sink)?,
    }
    if sink.is_chunked {
        sink.send(b"0\r\n\r\n")?;
    }
    Ok(())
}

/// Copies a body of known length, most of it inside the kernel.
fn copy_bytes(from: &Stream, input: &mut Input, bytes: u64, sink: &mut Sink<'_>) -> io::Result<()> {
    let early = (input.unread().len() as u64).min(bytes);
    if early > 0 {
        sink.put(&input.unread()[..early as usize])?;
        input.consume(early as usize);
    }
    let rest = bytes - early;
    if one_way(from, sink.to, sink.moved, &mut sink.pace, rest)? < rest {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

fn copy_chunks(from: &Stream, input: &mut Input, sink: &mut Sink<'_>) -> io::Result<()> {
    loop {
        let mut left = chunk_size(&take_line(from, input)?).ok_or(io::ErrorKind::InvalidData)?;
        if left == 0 {
            break;
        }
        while left > 0 {
            if input.unread().is_empty() && input.receive_body(from)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let count = left.min(input.unread().len() as u64);
            sink.put(&input.unread()[..count as usize])?;
            input.consume(count as usize);
            left -= count;
        }
        if !take_line(from, input)?.is_empty() {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    for _ in 0..=HEADERS_MAX {
        if take_line(from, input)?.is_empty() {
            return Ok(());
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

fn copy_rest(from: &Stream, input: &mut Input, sink: &mut Sink<'_>) -> io::Result<()> {
    loop {
        let count = input.unread().len();
        if count > 0 {
            sink.put(input.unread())?;
            input.consume(count);
        }
        if input.receive_body(from)? == 0 {
            return Ok(());
        }
    }
}

/// Returns the next line, without its end.
fn take_line(from: &Stream, input: &mut Input) -> io::Result<Vec<u8>> {
    loop {
        let unread = input.unread();
        let end = unread.iter().position(|&byte| byte == b'\n');
        if end.unwrap_or(unread.len()) > LINE_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if let Some(end) = end {
            let line = unread[..end].strip_suffix(b"\r");
            let line = line.filter(|line| !line.contains(&b'\r'));
            let line = line.ok_or(io::ErrorKind::InvalidData)?.to_vec();
            input.consume(end + 1);
            return Ok(line);
        }
        if input.receive(from)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Parses the size of a chunk, which extensions may follow.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|&byte| byte == b';').next()?;
    // `from_str_radix` would accept "+5".
    if digits.len() > SIZE_DIGITS_MAX || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_sizes() {
        for (line, expected) in [
            ("0", Some(0)),
            ("000", Some(0)),
            ("5", Some(5)),
            ("aF", Some(0xaf)),
            ("5;name=\"value\"", Some(5)),
            ("fffffffffffffff", Some(0xfff_ffff_ffff_ffff)),
            ("1000000000000000", None),
            ("", None),
            (";a", None),
            ("+5", None),
            ("-5", None),
            (" 5", None),
            ("5 ", None),
            ("5 ;a", None),
            ("0x5", None),
            ("5_0", None),
            ("g", None),
        ] {
            assert_eq!(chunk_size(line.as_bytes()), expected, "{line:?}");
        }
    }
}

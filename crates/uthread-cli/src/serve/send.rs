//! Moves a response to its client: small ones in one write, large ones piece by piece.

use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use uthread::fs::File;
use uthread::net::TcpStream;

use super::respond::{Body, Response};
use super::scratch::Piece;
use crate::http::range::Span;

/// Largest span that is read behind the head, so that head and body leave in one write. Beyond it the cost of copying
/// outgrows that of another system call.
const INLINE_BYTES_MAX: u64 = 64 * 1024;

/// Sends the head in `out` and the body behind it. After an error the connection is of no use: its framing is broken.
pub(crate) fn send(stream: &TcpStream, out: &mut Vec<u8>, response: &Response) -> io::Result<()> {
    match &response.body {
        Body::Buffered => write(stream, out),
        Body::Span(file, span) if span.bytes <= INLINE_BYTES_MAX => {
            send_at_once(stream, out, file, *span)
        }
        Body::Span(file, span) => {
            write(stream, out)?;
            send_file(stream, file, *span)
        }
        Body::Parts(file, parts) => {
            for part in parts {
                out.extend_from_slice(part.head.as_bytes());
                if let Some(span) = part.span {
                    send_part(stream, out, file, span)?;
                }
            }
            write(stream, out)
        }
    }
}

/// Sends a head and a small span in one write.
fn send_at_once(stream: &TcpStream, head: &[u8], file: &File, span: Span) -> io::Result<()> {
    let mut piece = Piece::take(head.len() + span.bytes as usize);
    let (start, body) = piece.split_at_mut(head.len());
    start.copy_from_slice(head);
    read_exact_at(file, body, span.offset)?;
    write(stream, &piece)
}

/// Adds a small span to `out`; sends `out` and a large span, and leaves `out` empty.
fn send_part(stream: &TcpStream, out: &mut Vec<u8>, file: &File, span: Span) -> io::Result<()> {
    // Several small parts may add up: each is let in only while the buffer is small.
    if span.bytes <= INLINE_BYTES_MAX && (out.len() as u64) < INLINE_BYTES_MAX {
        let start = out.len();
        out.resize(start + span.bytes as usize, 0);
        return read_exact_at(file, &mut out[start..], span.offset);
    }
    write(stream, out)?;
    out.clear();
    send_file(stream, file, span)
}

fn write(mut stream: &TcpStream, out: &[u8]) -> io::Result<()> {
    if out.is_empty() {
        return Ok(());
    }
    stream.write_all(out)
}

/// Sends a span of the file; fails when it has become shorter.
fn send_file(stream: &TcpStream, file: &File, span: Span) -> io::Result<()> {
    if stream.send_file(file, span.offset, span.bytes)? == span.bytes {
        Ok(())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// Fills `buffer` from the file; an end before that means that the file was truncated since its size was announced.
fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

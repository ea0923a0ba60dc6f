//! Sends a response to the client: small ones in one write, large ones piece by piece.

use std::io::{self, Write};
use uthread::fs::File;

use super::cache::CachedFile;
use super::respond::{Body, Response};
use super::root::{Content, read_exact_at};
use super::scratch::Piece;
use crate::http::range::Span;
use crate::stream::Stream;

/// Largest range that is read after the head, so that both are sent in one write. Beyond it,
/// copying costs more than another system call.
const INLINE_BYTES_MAX: u64 = 64 * 1024;

/// Sends the head in `out` and then the body. After an error the connection is unusable: its
/// framing is broken.
pub(crate) fn send(stream: &Stream, out: &mut Vec<u8>, response: &Response) -> io::Result<()> {
    match &response.body {
        Body::Buffered => write(stream, out),
        Body::Image(image) => write(stream, image.response()),
        Body::Span(content, span) => send_span(stream, out, content, *span),
        Body::Parts(content, parts) => {
            for part in parts {
                out.extend_from_slice(part.head.as_bytes());
                if let Some(span) = part.span {
                    send_part(stream, out, content, span)?;
                }
            }
            write(stream, out)
        }
    }
}

/// Sends a head and a range.
fn send_span(stream: &Stream, out: &mut Vec<u8>, content: &Content, span: Span) -> io::Result<()> {
    match content {
        Content::Cached(kept) => {
            append_kept(out, kept, span);
            write(stream, out)
        }
        Content::File(file) if span.bytes <= INLINE_BYTES_MAX => {
            send_at_once(stream, out, file, span)
        }
        Content::File(file) => {
            write(stream, out)?;
            send_file(stream, file, span)
        }
    }
}

/// Sends a head and a small range in one write.
fn send_at_once(stream: &Stream, head: &[u8], file: &File, span: Span) -> io::Result<()> {
    let mut piece = Piece::take(head.len() + span.bytes as usize);
    let (start, body) = piece.split_at_mut(head.len());
    start.copy_from_slice(head);
    read_exact_at(file, body, span.offset)?;
    write(stream, &piece)
}

/// Appends a small range to `out`; for a large range, sends `out` and the range, and empties `out`.
fn send_part(stream: &Stream, out: &mut Vec<u8>, content: &Content, span: Span) -> io::Result<()> {
    let file = match content {
        Content::File(file) => file,
        Content::Cached(kept) => {
            append_kept(out, kept, span);
            return if out.len() as u64 >= INLINE_BYTES_MAX {
                write(stream, out).map(|()| out.clear())
            } else {
                Ok(())
            };
        }
    };
    // Several small parts can add up: append only while the buffer is small.
    if span.bytes <= INLINE_BYTES_MAX && (out.len() as u64) < INLINE_BYTES_MAX {
        let start = out.len();
        out.resize(start + span.bytes as usize, 0);
        return read_exact_at(file, &mut out[start..], span.offset);
    }
    write(stream, out)?;
    out.clear();
    send_file(stream, file, span)
}

fn append_kept(out: &mut Vec<u8>, kept: &CachedFile, span: Span) {
    let start = span.offset as usize;
    out.extend_from_slice(&kept.image().content()[start..][..span.bytes as usize]);
}

fn write(mut stream: &Stream, out: &[u8]) -> io::Result<()> {
    if out.is_empty() {
        return Ok(());
    }
    stream.write_all(out)
}

/// Sends a range of the file; fails if the file has become shorter.
fn send_file(stream: &Stream, file: &File, span: Span) -> io::Result<()> {
    if stream.send_file(file, span.offset, span.bytes)? == span.bytes {
        Ok(())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

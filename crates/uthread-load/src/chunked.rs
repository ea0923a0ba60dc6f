//! The transfer coding `chunked` (RFC 9112, section 7.1), piece by piece.

use httparse::Status;

use crate::failure::{Failure, Kind};

/// A line with the size of a chunk, its extensions included, or of a trailer. Servers send a few
/// bytes.
const LINE_BYTES_MAX: usize = 4096;

/// The place in a chunked body.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Chunked {
    #[default]
    Size,
    /// Number of bytes that are left of the chunk.
    Data(u64),
    DataEnd,
    Trailer,
}

impl Chunked {
    /// Consumes bytes from the start of `received`, and passes data to `data`. Returns their
    /// number, and `true` at the end of the body.
    pub(crate) fn take(
        &mut self,
        received: &[u8],
        mut data: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(usize, bool), Failure> {
        let mut taken = 0;
        loop {
            let rest = &received[taken..];
            match self {
                Chunked::Size => match httparse::parse_chunk_size(rest) {
                    Ok(Status::Complete((bytes, 0))) => {
                        taken += bytes;
                        *self = Chunked::Trailer;
                    }
                    Ok(Status::Complete((bytes, size))) => {
                        taken += bytes;
                        *self = Chunked::Data(size);
                    }
                    Ok(Status::Partial) if rest.len() < LINE_BYTES_MAX => {
                        return Ok((taken, false));
                    }
                    _ => return Err(wrong("a chunk has no valid size")),
                },
                Chunked::Data(left) => {
                    let bytes = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    if bytes == 0 {
                        return Ok((taken, false));
                    }
                    data(&rest[..bytes])?;
                    taken += bytes;
                    *left -= bytes as u64;
                    if *left == 0 {
                        *self = Chunked::DataEnd;
                    }
                }
                Chunked::DataEnd => match rest {
                    [b'\r', b'\n', ..] => {
                        taken += 2;
                        *self = Chunked::Size;
                    }
                    [] | [b'\r'] => return Ok((taken, false)),
                    _ => return Err(wrong("a chunk is longer than its size")),
                },
                Chunked::Trailer => match rest.windows(2).position(|end| end == b"\r\n") {
                    Some(0) => {
                        *self = Chunked::Size;
                        return Ok((taken + 2, true));
                    }
                    Some(line) => taken += line + 2,
                    None if rest.len() < LINE_BYTES_MAX => return Ok((taken, false)),
                    None => return Err(wrong("a trailer is too long")),
                },
            }
        }
    }
}

fn wrong(text: &str) -> Failure {
    Failure::new(Kind::Wrong, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes the bytes in pieces of this size. Returns the body, and the number of bytes up to
    /// its end.
    fn decode(bytes: &[u8], piece: usize) -> Result<(Vec<u8>, usize), Failure> {
        let (mut state, mut waiting, mut body, mut all) =
            (Chunked::default(), Vec::new(), Vec::new(), 0);
        for piece in bytes.chunks(piece) {
            waiting.extend_from_slice(piece);
            let (taken, is_end) = state.take(&waiting, |data| {
                body.extend_from_slice(data);
                Ok(())
            })?;
            all += taken;
            waiting.drain(..taken);
            if is_end {
                return Ok((body, all));
            }
        }
        panic!("no end: {state:?}")
    }

    #[test]
    fn a_body_is_whole_in_any_pieces() {
        let bytes =
            b"5;a=b\r\nhello\r\n1\r\n \r\n005\r\nworld\r\n0\r\nExpires: never\r\n\r\nHTTP/1.1 200";
        let end = bytes.len() - "HTTP/1.1 200".len();
        for piece in 1..bytes.len() {
            let decoded = decode(bytes, piece).unwrap();
            assert_eq!(decoded, (b"hello world".to_vec(), end), "{piece}");
        }
    }

    #[test]
    fn invalid_chunks_are_errors() {
        let endless = [b"1;a=".as_slice(), &[b'x'; LINE_BYTES_MAX]].concat();
        for bytes in [&b"x\r\n"[..], b"5\r\nhello!\r\n", &endless] {
            let failure = decode(bytes, bytes.len()).unwrap_err();
            assert_eq!(failure.kind, Kind::Wrong, "{failure:?}");
        }
    }
}

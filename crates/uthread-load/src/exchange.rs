//! Requests and their expected responses: every byte of every response is compared.
//!
//! Responses are compared as they arrive, piece by piece, so a large body needs no buffer of its
//! size.

use crate::failure::{Failure, Kind};
use crate::http;

/// Size of a block, which has the number of its message and that of the connection. So no two
/// messages in flight are equal, and a shifted message differs, too.
const BLOCK_BYTES: usize = 16;

/// Initial room for a body that is not checked.
const BODY_BYTES_USUAL: usize = 4096;

pub(crate) enum Exchange {
    /// Messages of this size that the server sends back.
    Echo { bytes: usize },
    /// A request over HTTP, on a persistent connection.
    Http {
        request: Vec<u8>,
        accepted: http::Accepted,
        /// The body of each response, unless that is not checked.
        body: Option<Vec<u8>>,
    },
}

/// Progress through the current response.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Bytes received of the message or the body.
    done: usize,
    /// Set when the head of an HTTP response is complete: the rest of the body, and whether the
    /// server will close the connection.
    head: Option<(http::Body, http::Closes)>,
}

/// A complete response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Answer {
    /// True if the server announced that it closes the connection.
    pub(crate) closes: bool,
}

impl Exchange {
    pub(crate) fn message_bytes(&self) -> usize {
        match self {
            Exchange::Echo { bytes } => *bytes,
            Exchange::Http { request, .. } => request.len(),
        }
    }

    pub(crate) fn answer_bytes(&self) -> usize {
        match self {
            Exchange::Echo { bytes } => *bytes,
            Exchange::Http { body, .. } => {
                http::HEAD_BYTES_USUAL + body.as_ref().map_or(BODY_BYTES_USUAL, Vec::len)
            }
        }
    }

    /// Appends the message that a connection sends as its `number`th.
    pub(crate) fn push_message(&self, connection: u64, number: u64, out: &mut Vec<u8>) {
        match self {
            Exchange::Echo { bytes } => {
                let block = block(connection, number);
                let end = out.len() + bytes;
                while out.len() < end {
                    let rest = BLOCK_BYTES.min(end - out.len());
                    out.extend_from_slice(&block[..rest]);
                }
            }
            Exchange::Http { request, .. } => out.extend_from_slice(request),
        }
    }

    /// Consumes bytes of the `number`th response from the start of `received`. Returns their
    /// number, and the response when it is complete.
    pub(crate) fn take(
        &self,
        connection: u64,
        number: u64,
        progress: &mut Progress,
        received: &[u8],
    ) -> Result<(usize, Option<Answer>), Failure> {
        match self {
            Exchange::Echo { bytes } => {
                let rest = (bytes - progress.done).min(received.len());
                check_echo(&block(connection, number), progress.done, &received[..rest])?;
                Ok((rest, progress.advance(rest, *bytes)))
            }
            Exchange::Http { accepted, body, .. } => {
                take_response(accepted, body.as_deref(), progress, received)
            }
        }
    }
}

impl Progress {
    /// Returns true if a part of a response has arrived.
    pub(crate) fn has_begun(&self) -> bool {
        self.done > 0 || self.head.is_some()
    }

    /// Advances by `bytes` of `all`.
    fn advance(&mut self, bytes: usize, all: usize) -> Option<Answer> {
        self.done += bytes;
        let whole = self.done == all;
        if whole {
            *self = Progress::default();
        }
        whole.then_some(Answer { closes: false })
    }
}

fn take_response(
    accepted: &http::Accepted,
    expected: Option<&[u8]>,
    progress: &mut Progress,
    received: &[u8],
) -> Result<(usize, Option<Answer>), Failure> {
    let mut taken = 0;
    let (mut body, closes) = match progress.head {
        Some(head) => head,
        None => {
            let Some(head) = http::parse_head(received, accepted)? else {
                return Ok((0, None));
            };
            if let (http::Body::Length(bytes), Some(expected)) = (head.body, expected)
                && bytes != expected.len() as u64
            {
                return Err(other_length(bytes, expected));
            }
            taken = head.bytes;
            (head.body, head.closes)
        }
    };
    let done = &mut progress.done;
    let check = |data: &[u8]| {
        let place = *done..*done + data.len();
        *done = place.end;
        match expected {
            Some(expected) if expected.get(place.clone()) != Some(data) => {
                Err(if place.end > expected.len() {
                    other_length(place.end as u64, expected)
                } else {
                    Failure::new(
                        Kind::Wrong,
                        "the body differs from that of the first response",
                    )
                })
            }
            _ => Ok(()),
        }
    };
    let (bytes, is_whole) = body.take(&received[taken..], check)?;
    progress.head = Some((body, closes));
    if !is_whole {
        return Ok((taken + bytes, None));
    }
    match expected {
        Some(expected) if progress.done < expected.len() => {
            Err(other_length(progress.done as u64, expected))
        }
        _ => {
            *progress = Progress::default();
            let answer = Answer { closes: closes.0 };
            Ok((taken + bytes, Some(answer)))
        }
    }
}

fn other_length(bytes: u64, expected: &[u8]) -> Failure {
    let text = format!(
        "the response has {bytes} bytes, but the first one had {}",
        expected.len()
    );
    Failure::new(Kind::Wrong, text)
}

fn block(connection: u64, number: u64) -> [u8; BLOCK_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    // The number comes first: in a short message it distinguishes most.
    block[..8].copy_from_slice(&number.to_le_bytes());
    block[8..].copy_from_slice(&connection.to_le_bytes());
    block
}

/// Compares a piece of a message that begins at offset `from`.
fn check_echo(block: &[u8; BLOCK_BYTES], from: usize, piece: &[u8]) -> Result<(), Failure> {
    let is_same = match piece.first_chunk() {
        Some(whole) if from == 0 && piece.len() == BLOCK_BYTES => whole == block,
        _ => piece
            .iter()
            .enumerate()
            .all(|(at, byte)| *byte == block[(from + at) % BLOCK_BYTES]),
    };
    if is_same {
        Ok(())
    } else {
        Err(Failure::new(
            Kind::Wrong,
            "the response differs from the message",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes the bytes in pieces of this size; returns the number of responses, or the first
    /// failure.
    fn take_all(exchange: &Exchange, bytes: &[u8], piece: usize) -> Result<Vec<Answer>, Failure> {
        let mut progress = Progress::default();
        let mut answers = Vec::new();
        let mut waiting: Vec<u8> = Vec::new();
        for piece in bytes.chunks(piece) {
            waiting.extend_from_slice(piece);
            while !waiting.is_empty() {
                let number = answers.len() as u64;
                let (count, answer) = exchange.take(3, number, &mut progress, &waiting)?;
                waiting.drain(..count);
                answers.extend(answer);
                if answer.is_none() {
                    break;
                }
            }
        }
        assert!(waiting.is_empty() && !progress.has_begun());
        Ok(answers)
    }

    #[test]
    fn messages_of_any_size_come_back_in_any_pieces() {
        for bytes in [1, 7, 16, 40, 100] {
            let exchange = Exchange::Echo { bytes };
            let mut sent = Vec::new();
            (0..3).for_each(|number| exchange.push_message(3, number, &mut sent));
            assert_eq!(sent.len(), 3 * bytes);
            for piece in [1, 3, 16, 1000] {
                let answers = take_all(&exchange, &sent, piece).unwrap();
                assert_eq!(answers, [Answer { closes: false }; 3], "{bytes} by {piece}");
                for at in 0..sent.len() {
                    let mut wrong = sent.clone();
                    wrong[at] ^= 1;
                    let failure = take_all(&exchange, &wrong, piece).unwrap_err();
                    assert_eq!(failure.kind, Kind::Wrong, "byte {at} of {bytes} by {piece}");
                }
            }
        }
    }

    #[test]
    fn the_answer_to_another_message_is_wrong() {
        let exchange = Exchange::Echo { bytes: 16 };
        for (connection, number) in [(3, 1), (4, 0)] {
            let mut sent = Vec::new();
            exchange.push_message(connection, number, &mut sent);
            assert!(take_all(&exchange, &sent, 16).is_err());
        }
    }

    fn http(body: Option<&[u8]>) -> Exchange {
        Exchange::Http {
            request: Vec::new(),
            accepted: http::Accepted {
                statuses: vec![200],
                is_head: false,
            },
            body: body.map(<[u8]>::to_vec),
        }
    }

    #[test]
    fn a_chunked_body_is_compared_and_a_changing_one_only_counted() {
        let chunked = |body: &str| {
            let (first, second) = body.split_at(2);
            let (one, two) = (first.len(), second.len());
            format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{one:x}\r\n{first}\r\n{two:x}\r\n{second}\r\n0\r\n\r\n"
            )
        };
        let same = [chunked("hello"), chunked("hello")].concat();
        for piece in 1..same.len() {
            let answers = take_all(&http(Some(b"hello")), same.as_bytes(), piece).unwrap();
            assert_eq!(answers.len(), 2, "{piece}");
        }
        for (other, reason) in [
            ("hallo", "differs"),
            ("hell", "4 bytes"),
            ("hello!", "6 bytes"),
        ] {
            let bytes = chunked(other);
            let failure = take_all(&http(Some(b"hello")), bytes.as_bytes(), 7).unwrap_err();
            assert!(failure.text.contains(reason), "{failure:?}");
            assert_eq!(take_all(&http(None), bytes.as_bytes(), 7).unwrap().len(), 1);
        }
    }

    #[test]
    fn a_response_is_complete_with_its_body() {
        let exchange = http(Some(b"hello"));
        let response = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        let last = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
        let bytes = [response, response, last].concat();
        for piece in 1..bytes.len() {
            let answers = take_all(&exchange, bytes.as_bytes(), piece).unwrap();
            assert_eq!(
                answers
                    .iter()
                    .map(|answer| answer.closes)
                    .collect::<Vec<_>>(),
                [false, false, true]
            );
        }
        let check = |bytes: &str, reason: &str| {
            let failure = take_all(&exchange, bytes.as_bytes(), 10).unwrap_err();
            assert_eq!(failure.kind, Kind::Wrong);
            assert!(failure.text.contains(reason), "{failure:?}");
        };
        check(&response.replace("hello", "hallo"), "differs");
        check(&response.replace(": 5", ": 6"), "has 6 bytes");
    }
}

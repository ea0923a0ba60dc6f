//! What is sent on a connection, and what has to come back.

use anyhow::{Result, ensure};

const MESSAGE_BYTES: usize = 16;
/// Servers here send under 300 bytes; a head that does not end is no answer.
const HEAD_BYTES_MAX: usize = 4 * 1024;

pub(super) type Message = [u8; MESSAGE_BYTES];

pub(crate) enum Exchange {
    /// A message of 16 bytes that comes back as it is.
    Echo,
    /// A file over HTTP, on a connection that stays open.
    Get { request: Vec<u8>, body: Vec<u8> },
}

impl Exchange {
    /// The file `name`, which holds `body`.
    pub(crate) fn get(name: &str, body: Vec<u8>) -> Exchange {
        let request = format!("GET /{name} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        Exchange::Get {
            request: request.into_bytes(),
            body,
        }
    }

    /// What a connection sends for the `number`th time; `room` is for what differs each time.
    pub(super) fn message<'a>(
        &'a self,
        connection: u64,
        number: u64,
        room: &'a mut Message,
    ) -> &'a [u8] {
        match self {
            Exchange::Echo => {
                *room = numbered(connection, number);
                room
            }
            Exchange::Get { request, .. } => request,
        }
    }

    /// The length of the answer that `received` begins with, if it is complete; an error where that is not the answer.
    pub(super) fn answer_bytes(
        &self,
        connection: u64,
        number: u64,
        received: &[u8],
    ) -> Result<Option<usize>> {
        match self {
            Exchange::Echo => {
                let Some(answer) = received.first_chunk() else {
                    return Ok(None);
                };
                ensure!(
                    *answer == numbered(connection, number),
                    "the answer differs from its message"
                );
                Ok(Some(MESSAGE_BYTES))
            }
            Exchange::Get { body, .. } => response_bytes(received, body),
        }
    }
}

/// No two are the same, so that no answer passes for another's.
fn numbered(connection: u64, number: u64) -> Message {
    let mut message = [0; MESSAGE_BYTES];
    message[..8].copy_from_slice(&connection.to_le_bytes());
    message[8..].copy_from_slice(&number.to_le_bytes());
    message
}

/// The head is only looked through for its end, as this is done for every answer: whether it is right was checked
/// before the load, and with another length the body would not stand where it does.
fn response_bytes(received: &[u8], body: &[u8]) -> Result<Option<usize>> {
    const OK: &[u8] = b"HTTP/1.1 200 ";
    let begin = received.len().min(OK.len());
    ensure!(
        received[..begin] == OK[..begin],
        "the answer begins with {:?}",
        String::from_utf8_lossy(&received[..received.len().min(40)])
    );
    let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") else {
        ensure!(received.len() < HEAD_BYTES_MAX, "the head does not end");
        return Ok(None);
    };
    let all = end + 4 + body.len();
    let Some(response) = received.get(..all) else {
        return Ok(None);
    };
    ensure!(response.ends_with(body), "the body differs from the file");
    Ok(Some(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_complete_with_its_body() {
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        let all = response.len();
        for end in 0..all {
            assert_eq!(
                response_bytes(&response[..end], b"hello").unwrap(),
                None,
                "{end}"
            );
        }
        assert_eq!(response_bytes(response, b"hello").unwrap(), Some(all));
        let two = response.repeat(2);
        assert_eq!(response_bytes(&two, b"hello").unwrap(), Some(all));
    }

    #[test]
    fn what_is_not_the_response_is_an_error() {
        let check = |received: &[u8], reason: &str| {
            let error = response_bytes(received, b"hello").unwrap_err().to_string();
            assert!(error.contains(reason), "{error:?} does not say {reason:?}");
        };
        check(b"HTTP/1.1 503 Service Unavailable\r\n\r\n", "503");
        check(b"hello", "begins with");
        check(b"HTTP/1.1 200 OK\r\n\r\nhallo", "differs");
        let endless = [b"HTTP/1.1 200 ".as_slice(), &[b'x'; HEAD_BYTES_MAX]].concat();
        check(&endless, "does not end");
    }
}

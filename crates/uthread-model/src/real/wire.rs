//! The messages between clients, service and dependencies: a few bytes each, of fixed size.

use std::io::{self, Read, Write};

use crate::tally::Failure;

/// A request to the service: the number of the attempt, and that of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) attempt: u64,
    pub(super) client: u64,
}

/// The number of an attempt, its result, and the nanoseconds that it waited to be accepted, in
/// times of the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) attempt: u64,
    pub(super) result: Result<u64, Failure>,
}

/// A call of a dependency, which answers after a real time, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// Nanoseconds until the answer; `None` if there is none.
    pub(super) latency: Option<u64>,
    pub(super) fails: bool,
}

/// The failures that the service reports, by their codes; 0 is success.
const FAILURES: [Failure; 4] = [
    Failure::Call,
    Failure::Breaker,
    Failure::Refused,
    Failure::Shed,
];

impl Request {
    pub(super) fn write(self, mut to: impl Write) -> io::Result<()> {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.attempt.to_le_bytes());
        bytes[8..].copy_from_slice(&self.client.to_le_bytes());
        to.write_all(&bytes)
    }

    pub(super) fn read(mut from: impl Read) -> io::Result<Request> {
        let mut bytes = [0; 16];
        from.read_exact(&mut bytes)?;
        let [attempt, client] = [&bytes[..8], &bytes[8..]].map(number);
        Ok(Request { attempt, client })
    }
}

impl Response {
    pub(super) fn write(self, mut to: impl Write) -> io::Result<()> {
        let code = |failure| FAILURES.iter().position(|known| *known == failure);
        let (code, waited) = match self.result {
            Ok(waited) => (0, waited),
            Err(failure) => (code(failure).map_or(u8::MAX, |code| code as u8 + 1), 0),
        };
        let mut bytes = [0; 17];
        bytes[..8].copy_from_slice(&self.attempt.to_le_bytes());
        bytes[8] = code;
        bytes[9..].copy_from_slice(&waited.to_le_bytes());
        to.write_all(&bytes)
    }

    /// Reads a response.
    ///
    /// # Errors
    ///
    /// `InvalidData` if the code of a failure is unknown; the errors of reading.
    pub(super) fn read(mut from: impl Read) -> io::Result<Response> {
        let mut bytes = [0; 17];
        from.read_exact(&mut bytes)?;
        let [attempt, waited] = [&bytes[..8], &bytes[9..]].map(number);
        let result = match bytes[8] {
            0 => Ok(waited),
            code => match FAILURES.get(usize::from(code) - 1) {
                Some(&failure) => Err(failure),
                None => return Err(io::ErrorKind::InvalidData.into()),
            },
        };
        Ok(Response { attempt, result })
    }
}

impl Order {
    pub(super) fn write(self, mut to: impl Write) -> io::Result<()> {
        let mut bytes = [0; 9];
        bytes[..8].copy_from_slice(&self.latency.unwrap_or(u64::MAX).to_le_bytes());
        bytes[8] = u8::from(self.fails);
        to.write_all(&bytes)
    }

    pub(super) fn read(mut from: impl Read) -> io::Result<Order> {
        let mut bytes = [0; 9];
        from.read_exact(&mut bytes)?;
        let latency = Some(number(&bytes[..8])).filter(|&latency| latency != u64::MAX);
        let fails = bytes[8] != 0;
        Ok(Order { latency, fails })
    }
}

/// Decodes a number of 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("a number has 8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let request = Request {
            attempt: 7,
            client: 1 << 40,
        };
        let mut bytes = Vec::new();
        request.write(&mut bytes).unwrap();
        assert_eq!(Request::read(&*bytes).unwrap(), request);
        let results = FAILURES.map(Err).into_iter().chain([Ok(0), Ok(1 << 40)]);
        for (attempt, result) in (7..).zip(results) {
            let mut bytes = Vec::new();
            let response = Response { attempt, result };
            response.write(&mut bytes).unwrap();
            assert_eq!(Response::read(&*bytes).unwrap(), response);
            bytes[8] = 9;
            let error = Response::read(&*bytes).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
        for (latency, fails) in [(Some(5), false), (Some(0), true), (None, true)] {
            let mut bytes = Vec::new();
            let order = Order { latency, fails };
            order.write(&mut bytes).unwrap();
            assert_eq!(Order::read(&*bytes).unwrap(), order);
        }
    }
}

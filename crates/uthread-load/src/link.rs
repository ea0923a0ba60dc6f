//! One connection: the messages sent on it, and the check of the responses.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use uthread::net::{TcpSocket, TcpStream};

use crate::exchange::{Answer, Exchange, Progress};
use crate::failure::{Failure, Kind};

/// Maximum size of a read: about as much as a socket holds while nobody reads.
const READ_BYTES_MAX: usize = 64 * 1024;
/// Any socket accepts this much immediately (the minimum that `net.ipv4.tcp_wmem` sets). Such a
/// send needs no timer, which costs a tenth of a microsecond and cold memory.
const SEND_BYTES_SURE: usize = 4096;
/// Minimum size of a read, above that of a small response: a read that leaves room tells the driver
/// that the socket is empty.
const READ_BYTES_MIN: usize = 512;
/// Further source addresses on the loopback, each with all ports; no process may have as many files
/// open.
const SOURCES: std::ops::RangeInclusive<u8> = 2..=9;
/// The kernel first searches one half of its 28,232 ports, one after the other: with few of them
/// left, this takes longer than everything else.
const CONNECTIONS_PER_SOURCE: u64 = 10_000;

pub(crate) struct Link {
    pub(crate) stream: Arc<TcpStream>,
    pub(crate) inbound: Inbound,
    pub(crate) flight: Flight,
    out: Vec<u8>,
}

impl Link {
    /// Opens the connection with this index; at most `in_flight_bytes` will be in flight on it.
    pub(crate) fn open(
        address: SocketAddr,
        exchange: &Arc<Exchange>,
        index: u64,
        in_flight_bytes: usize,
        timeout: Duration,
    ) -> Result<Link, Failure> {
        let write_timeout = (in_flight_bytes > SEND_BYTES_SURE).then_some(timeout);
        let stream =
            connect(address, index, timeout).map_err(|error| Failure::of("connect", &error))?;
        let set_up = || {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(timeout))?;
            stream.set_write_timeout(write_timeout)?;
            // The connection ends with a reset: an orderly end would occupy its port for a minute.
            stream.set_linger(Some(Duration::ZERO))
        };
        set_up().map_err(|error| Failure::of("set up the connection", &error))?;
        Ok(Link {
            stream: Arc::new(stream),
            inbound: Inbound::new(Arc::clone(exchange), index),
            flight: Flight::default(),
            out: Vec::new(),
        })
    }

    /// Sends messages until `depth` are in flight.
    pub(crate) fn fill(&mut self, depth: usize, due: Instant) -> Result<(), Failure> {
        self.out.clear();
        while self.flight.dues.len() < depth {
            let number = self.flight.begin(due);
            self.inbound
                .exchange
                .push_message(self.inbound.index, number, &mut self.out);
        }
        send(&self.stream, &self.out)
    }

    pub(crate) fn receive(&mut self) -> Result<(), Failure> {
        self.inbound.receive(&self.stream)
    }

    /// Takes one response from the received bytes, and returns when its message was due.
    pub(crate) fn take_answer(&mut self) -> Result<Option<(Instant, Answer)>, Failure> {
        let answer = self.inbound.take_answer(self.flight.is_empty())?;
        Ok(answer.and_then(|answer| Some((self.flight.end()?, answer))))
    }

    /// Exchanges one message. Returns the connection, unless the server closes it afterwards.
    pub(crate) fn greet(mut self, timeout: Duration) -> Result<Option<Link>, Failure> {
        self.fill(1, Instant::now())?;
        let mut closes = false;
        while !self.flight.is_empty() {
            self.flight.check_oldest(Instant::now(), timeout)?;
            self.receive()?;
            if let Some((_, answer)) = self.take_answer()? {
                closes = answer.closes;
            }
        }
        Ok((!closes).then_some(self))
    }
}

pub(crate) fn send(mut stream: &TcpStream, messages: &[u8]) -> Result<(), Failure> {
    stream
        .write_all(messages)
        .map_err(|error| Failure::of("send", &error))
}

/// The messages sent and not answered.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    sent: u64,
    /// When each message was due, the oldest first. No longer than the pipeline is deep, or than
    /// the messages due within the timeout.
    dues: VecDeque<Instant>,
}

impl Flight {
    pub(crate) fn is_empty(&self) -> bool {
        self.dues.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.dues.len()
    }

    /// Returns the number of the next message, which is about to be sent.
    pub(crate) fn begin(&mut self, due: Instant) -> u64 {
        self.dues.push_back(due);
        self.sent += 1;
        self.sent - 1
    }

    /// Removes the oldest message, which has been answered.
    pub(crate) fn end(&mut self) -> Option<Instant> {
        self.dues.pop_front()
    }

    /// Returns how long the oldest message may still wait; `None` if it has timed out.
    pub(crate) fn patience(&self, now: Instant, timeout: Duration) -> Option<Duration> {
        let Some(&oldest) = self.dues.front() else {
            return Some(timeout);
        };
        let rest = (oldest + timeout).saturating_duration_since(now);
        (!rest.is_zero()).then_some(rest)
    }

    /// Fails if the oldest message has timed out.
    pub(crate) fn check_oldest(&self, now: Instant, timeout: Duration) -> Result<(), Failure> {
        self.patience(now, timeout)
            .map(drop)
            .ok_or_else(|| unanswered(timeout))
    }
}

pub(crate) fn unanswered(timeout: Duration) -> Failure {
    Failure::new(Kind::TimedOut, format!("no response for {timeout:?}"))
}

/// The receiving half: the received bytes, and how many of them have been checked.
pub(crate) struct Inbound {
    exchange: Arc<Exchange>,
    index: u64,
    answered: u64,
    progress: Progress,
    /// `buffer[begin..end]` was received and not yet consumed. It grows only for a head, which is
    /// bounded.
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
}

impl Inbound {
    fn new(exchange: Arc<Exchange>, index: u64) -> Inbound {
        let bytes = exchange
            .answer_bytes()
            .clamp(READ_BYTES_MIN, READ_BYTES_MAX);
        Inbound {
            index,
            answered: 0,
            progress: Progress::default(),
            buffer: vec![0; bytes],
            begin: 0,
            end: 0,
            exchange,
        }
    }

    pub(crate) fn receive(&mut self, mut stream: &TcpStream) -> Result<(), Failure> {
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
            if self.end == self.buffer.len() {
                self.buffer.resize(2 * self.end, 0);
            }
        }
        match stream.read(&mut self.buffer[self.end..]) {
            Ok(0) => {
                let text = if self.begin < self.end || self.progress.has_begun() {
                    "the server closed the connection within a response"
                } else {
                    "the server closed the connection"
                };
                Err(Failure::new(Kind::Closed, text))
            }
            Ok(count) => {
                self.end += count;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(Failure::new(Kind::TimedOut, "no response in time"))
            }
            Err(error) => Err(Failure::of("receive", &error)),
        }
    }

    /// Takes one response from the received bytes; fails if there is one and `none_due`.
    pub(crate) fn take_answer(&mut self, none_due: bool) -> Result<Option<Answer>, Failure> {
        let received = &self.buffer[self.begin..self.end];
        if received.is_empty() {
            return Ok(None);
        }
        if none_due {
            return Err(Failure::new(Kind::Wrong, "a response without a request"));
        }
        let (count, answer) =
            self.exchange
                .take(self.index, self.answered, &mut self.progress, received)?;
        self.begin += count;
        self.answered += u64::from(answer.is_some());
        Ok(answer)
    }
}

/// Connects from another source address if there are very many connections, or all ports of the
/// default one are in use. Only the loopback has others.
fn connect(address: SocketAddr, index: u64, timeout: Duration) -> io::Result<TcpStream> {
    let has_sources = address.ip().is_loopback() && address.is_ipv4();
    let result = match source(index).filter(|_| has_sources) {
        Some(source) => connect_from(source, address, timeout),
        None => TcpStream::connect_timeout(&address, timeout),
    };
    match result {
        Err(error) if is_without_port(&error) && has_sources => SOURCES
            .map(|last| connect_from(Ipv4Addr::new(127, 0, 0, last), address, timeout))
            .find(|result| !matches!(result, Err(error) if is_without_port(error)))
            .unwrap_or(Err(error)),
        result => result,
    }
}

/// Returns the source address; `None` for the default one.
fn source(index: u64) -> Option<Ipv4Addr> {
    let further = usize::try_from(index / CONNECTIONS_PER_SOURCE).ok()?;
    let last = SOURCES
        .clone()
        .nth(further.checked_sub(1)? % SOURCES.count())?;
    Some(Ipv4Addr::new(127, 0, 0, last))
}

fn connect_from(source: Ipv4Addr, address: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(IpAddr::V4(source), 0))?;
    socket.connect_timeout(address, timeout)
}

fn is_without_port(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::ADDRNOTAVAIL | Errno::ADDRINUSE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    const TIMEOUT: Duration = Duration::from_secs(20);
    const MESSAGE_BYTES: usize = 16;

    /// Sends three messages, builds the responses with `answer`, and takes those; returns the
    /// failure, if any.
    fn exchange(answer: fn(Vec<u8>) -> Vec<u8>) -> Result<(), Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut messages = vec![0; 3 * MESSAGE_BYTES];
            stream.read_exact(&mut messages).unwrap();
            stream.write_all(&answer(messages)).unwrap();
        });
        let echo = Exchange::Echo {
            bytes: MESSAGE_BYTES,
        };
        let mut link = Link::open(address, &Arc::new(echo), 7, 3 * MESSAGE_BYTES, TIMEOUT)?;
        let due = Instant::now();
        (1..=3).try_for_each(|depth| link.fill(depth, due + Duration::from_secs(depth as u64)))?;
        let mut dues = Vec::new();
        while !link.flight.is_empty() {
            link.receive()?;
            while let Some((due, _)) = link.take_answer()? {
                dues.push(due);
            }
        }
        assert_eq!(
            dues,
            [1, 2, 3].map(|second| due + Duration::from_secs(second))
        );
        server.join().unwrap();
        Ok(())
    }

    #[test]
    fn every_answer_belongs_to_the_oldest_message() {
        exchange(|messages| messages).unwrap();
    }

    #[test]
    fn other_bytes_than_the_message_are_a_failure() {
        let check = |answer, kind, reason: &str| {
            let failure = exchange(answer).unwrap_err();
            assert_eq!(failure.kind, kind, "{failure:?}");
            assert!(failure.text.contains(reason), "{failure:?}");
        };
        check(
            |messages| messages[..20].to_vec(),
            Kind::Closed,
            "within a response",
        );
        check(
            |messages| messages[..32].to_vec(),
            Kind::Closed,
            "closed the connection",
        );
        check(|messages| messages[16..].to_vec(), Kind::Wrong, "differs");
        check(
            |messages| [messages.clone(), messages].concat(),
            Kind::Wrong,
            "without a request",
        );
    }

    #[test]
    fn the_oldest_message_waits_no_longer_than_the_timeout() {
        let now = Instant::now();
        let mut flight = Flight::default();
        assert_eq!(flight.patience(now, TIMEOUT), Some(TIMEOUT));
        flight.begin(now);
        flight.begin(now + TIMEOUT);
        assert_eq!(
            flight.patience(now + TIMEOUT / 2, TIMEOUT),
            Some(TIMEOUT / 2)
        );
        assert!(flight.check_oldest(now + TIMEOUT, TIMEOUT).is_err());
        flight.end();
        assert!(flight.check_oldest(now + TIMEOUT, TIMEOUT).is_ok());
    }

    #[test]
    fn very_many_connections_are_of_several_sources() {
        let check = |index, expected: Option<u8>| {
            let last = source(index).map(|source| source.octets()[3]);
            assert_eq!(last, expected, "{index}");
        };
        check(0, None);
        check(9_999, None);
        check(10_000, Some(2));
        check(29_999, Some(3));
        check(89_999, Some(9));
        check(90_000, Some(2));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        for (index, expected) in [(9_999, 1), (10_000, 2)] {
            let stream = connect(address, index, TIMEOUT).unwrap();
            let local = stream.local_addr().unwrap().ip();
            assert_eq!(local, Ipv4Addr::new(127, 0, 0, expected));
        }
    }

    #[test]
    fn a_source_of_its_own_reaches_a_server_on_the_loopback() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = connect_from(
            Ipv4Addr::new(127, 0, 0, 2),
            listener.local_addr().unwrap(),
            TIMEOUT,
        )
        .unwrap();
        assert_eq!(
            stream.local_addr().unwrap().ip(),
            Ipv4Addr::new(127, 0, 0, 2)
        );
    }
}

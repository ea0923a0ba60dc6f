//! One connection: what was sent, and whether it comes back.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::net::sockopt::set_socket_linger;

use super::ANSWER_MAX;
use super::exchange::{Exchange, Message};

/// A closed loop receives one answer at a time, at most a small file; more only come after a stall.
const READ_BYTES: usize = 2 * 1024;

pub(super) struct Connection {
    stream: TcpStream,
    index: u64,
    sent: u64,
    answered: u64,
    /// When each unanswered message was due, the oldest first. No longer than what falls due in [`ANSWER_MAX`].
    waiting: VecDeque<Instant>,
    /// Received and not yet taken.
    received: Vec<u8>,
}

impl Connection {
    pub(super) fn open(address: SocketAddr, index: u64) -> Result<Connection> {
        let stream = TcpStream::connect_timeout(&address, ANSWER_MAX)
            .with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        // It ends by a reset: an orderly end would keep its port taken for a minute.
        set_socket_linger(&stream, Some(Duration::ZERO))?;
        Ok(Connection {
            stream,
            index,
            sent: 0,
            answered: 0,
            waiting: VecDeque::new(),
            received: Vec::new(),
        })
    }

    pub(super) fn send(&mut self, exchange: &Exchange, due: Instant) -> Result<()> {
        ensure!(
            self.waiting
                .front()
                .is_none_or(|&oldest| due - oldest < ANSWER_MAX),
            "a message has been unanswered for {ANSWER_MAX:?}"
        );
        let mut room = Message::default();
        let message = exchange.message(self.index, self.sent, &mut room);
        // Less than all fits only where the server has not read for thousands of messages.
        let count = self.stream.write(message).context("send")?;
        ensure!(count == message.len(), "the server has stopped reading");
        self.sent += 1;
        self.waiting.push_back(due);
        Ok(())
    }

    /// Receives what there is.
    pub(super) fn receive(&mut self) -> Result<()> {
        let mut piece = [0; READ_BYTES];
        match self.stream.read(&mut piece) {
            Ok(0) => bail!("the server has closed a connection"),
            Ok(count) => self.received.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error).context("receive"),
        }
        Ok(())
    }

    /// Takes one answer out of what was received, and returns when its message was due.
    pub(super) fn take_answer(&mut self, exchange: &Exchange) -> Result<Option<Instant>> {
        if self.received.is_empty() {
            return Ok(None);
        }
        let due = self.waiting.front().context("an answer to no message")?;
        let answer = exchange.answer_bytes(self.index, self.answered, &self.received)?;
        let Some(count) = answer else {
            return Ok(None);
        };
        let due = *due;
        self.waiting.pop_front();
        self.received.drain(..count);
        self.answered += 1;
        Ok(Some(due))
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const MESSAGE_BYTES: usize = size_of::<Message>();

    /// Sends three messages, has `answer` make the answers out of them, and takes those; tells the error, if any.
    fn exchange(answer: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Result<Vec<Instant>> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut connection = Connection::open(listener.local_addr()?, 7)?;
        let start = Instant::now();
        for index in 0..3 {
            connection.send(&Exchange::Echo, start + Duration::from_secs(index))?;
        }
        let (mut server, _) = listener.accept()?;
        let mut messages = vec![0; 3 * MESSAGE_BYTES];
        server.read_exact(&mut messages)?;
        server.write_all(&answer(messages))?;
        drop(server);
        connection.stream.set_nonblocking(false)?;
        let mut dues = Vec::new();
        while !connection.waiting.is_empty() {
            connection.receive()?;
            while let Some(due) = connection.take_answer(&Exchange::Echo)? {
                dues.push(due);
            }
        }
        assert_eq!(
            dues,
            [0, 1, 2].map(|index| start + Duration::from_secs(index))
        );
        Ok(dues)
    }

    #[test]
    fn every_answer_belongs_to_the_oldest_message() {
        exchange(|messages| messages).unwrap();
    }

    #[test]
    fn what_is_not_the_message_is_an_error() {
        let check = |answer: fn(Vec<u8>) -> Vec<u8>, reason: &str| {
            let error = exchange(answer).unwrap_err().to_string();
            assert!(error.contains(reason), "{error:?} does not say {reason:?}");
        };
        check(|messages| messages[..20].to_vec(), "closed");
        check(|messages| messages[16..].to_vec(), "differs");
        check(
            |messages| messages.iter().map(|byte| byte ^ 1).collect(),
            "differs",
        );
    }

    #[test]
    fn an_answer_to_nothing_and_a_silent_server_are_errors() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut connection = Connection::open(listener.local_addr().unwrap(), 0).unwrap();
        connection.received = vec![0; MESSAGE_BYTES];
        assert!(connection.take_answer(&Exchange::Echo).is_err());
        let start = Instant::now();
        connection.send(&Exchange::Echo, start).unwrap();
        let late = connection.send(&Exchange::Echo, start + ANSWER_MAX);
        assert!(late.is_err());
    }
}

//! All connections to one server: one epoll instance tells which of them have something to receive.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use super::ANSWER_MAX;
use super::connection::Connection;
use super::exchange::Exchange;

/// Few, so that a message that falls due meanwhile does not wait long for its turn.
const EVENTS_MAX: usize = 64;
/// Connections opened before the server has to have answered on each: far fewer than wait in the queue of a listener, as
/// one beyond that is only tried again after a second.
const GREETED_AT_ONCE: usize = 128;

pub(crate) struct Crowd {
    exchange: Exchange,
    epoll: OwnedFd,
    connections: Vec<Connection>,
    /// Messages that have been sent, and not been answered.
    unanswered: u64,
}

impl Crowd {
    pub(crate) fn new(exchange: Exchange) -> Result<Crowd> {
        Ok(Crowd {
            exchange,
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            connections: Vec::new(),
            unanswered: 0,
        })
    }

    /// Opens so many more.
    pub(super) fn connect(&mut self, address: SocketAddr, count: usize) -> Result<()> {
        for index in self.len()..self.len() + count {
            let connection = Connection::open(address, index as u64)?;
            let data = EventData::new_u64(index as u64);
            epoll::add(&self.epoll, &connection, data, EventFlags::IN)?;
            self.connections.push(connection);
        }
        Ok(())
    }

    /// Opens connections until there are so many, and has the server answer once on each: it has accepted them all when
    /// this returns.
    pub(crate) fn greet(&mut self, address: SocketAddr, count: usize) -> Result<()> {
        while self.len() < count {
            let first = self.len();
            self.connect(address, GREETED_AT_ONCE.min(count - first))?;
            self.exchange_once(first)
                .with_context(|| format!("{first} connections are open"))?;
        }
        Ok(())
    }

    /// A message, and its answer, on each connection from the `first` on.
    fn exchange_once(&mut self, first: usize) -> Result<()> {
        let deadline = Instant::now() + ANSWER_MAX;
        for index in first..self.len() {
            self.send(index, Instant::now())?;
        }
        let mut events = Crowd::no_events();
        while self.is_waiting() {
            ensure_before(deadline)?;
            self.wait(deadline, true, &mut events)?;
            for event in events.drain(..) {
                let index = event.data.u64() as usize;
                self.receive(index)?;
                while self.take_answer(index)?.is_some() {}
            }
        }
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.unanswered > 0
    }

    pub(super) fn send(&mut self, index: usize, due: Instant) -> Result<()> {
        self.connections[index].send(&self.exchange, due)?;
        self.unanswered += 1;
        Ok(())
    }

    pub(super) fn receive(&mut self, index: usize) -> Result<()> {
        self.connections[index].receive()
    }

    /// Takes one answer out of what was received, and returns when its message was due.
    pub(super) fn take_answer(&mut self, index: usize) -> Result<Option<Instant>> {
        let due = self.connections[index].take_answer(&self.exchange)?;
        self.unanswered -= u64::from(due.is_some());
        Ok(due)
    }

    /// What [`Crowd::wait`] fills.
    pub(super) fn no_events() -> Vec<Event> {
        Vec::with_capacity(EVENTS_MAX)
    }

    /// Adds an event for some of the connections on which there is something to receive, with the connection's index. If
    /// there is none, it sleeps until one comes or the time has, or returns at once.
    pub(super) fn wait(&self, until: Instant, sleeps: bool, events: &mut Vec<Event>) -> Result<()> {
        let timeout = match sleeps {
            true => until.saturating_duration_since(Instant::now()),
            false => Duration::ZERO,
        };
        let timeout = Timespec::try_from(timeout)?;
        epoll::wait(&self.epoll, spare_capacity(events), Some(&timeout))?;
        Ok(())
    }
}

/// Fails from when on the server has had its time for the last answer.
pub(super) fn ensure_before(deadline: Instant) -> Result<()> {
    ensure!(
        Instant::now() < deadline,
        "a message has been unanswered for {ANSWER_MAX:?}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    /// More than are opened at a time.
    const CONNECTIONS: usize = GREETED_AT_ONCE + 2;

    /// Greets a server that answers so many connections, each once, and closes the next one.
    fn greet(answered: usize) -> Result<Vec<TcpStream>> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let server = thread::spawn(move || {
            let mut streams = Vec::new();
            while streams.len() < answered {
                let (mut stream, _) = listener.accept().unwrap();
                let mut message = [0; 16];
                stream.read_exact(&mut message).unwrap();
                stream.write_all(&message).unwrap();
                streams.push(stream);
            }
            streams
        });
        let mut crowd = Crowd::new(Exchange::Echo)?;
        crowd.greet(address, CONNECTIONS)?;
        assert_eq!((crowd.len(), crowd.is_waiting()), (CONNECTIONS, false));
        Ok(server.join().unwrap())
    }

    #[test]
    fn all_connections_have_been_answered_once() {
        assert_eq!(greet(CONNECTIONS).unwrap().len(), CONNECTIONS);
    }

    #[test]
    fn a_server_that_answers_too_few_is_an_error() {
        let error = format!("{:#}", greet(GREETED_AT_ONCE + 1).unwrap_err());
        let reason = format!("{GREETED_AT_ONCE} connections are open: ");
        assert!(error.starts_with(&reason), "{error}");
    }
}

//! All connections to one server: one epoll instance tells which of them have something to receive.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use super::ANSWER_MAX;
use super::connection::Connection;

/// Few, so that a message that falls due meanwhile does not wait long for its turn.
const EVENTS_MAX: usize = 64;

pub(super) struct Crowd {
    epoll: OwnedFd,
    connections: Vec<Connection>,
    /// Messages that have been sent, and not been answered.
    unanswered: u64,
}

impl Crowd {
    pub(super) fn new() -> Result<Crowd> {
        Ok(Crowd {
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

    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.unanswered > 0
    }

    pub(super) fn send(&mut self, index: usize, due: Instant) -> Result<()> {
        self.connections[index].send(due)?;
        self.unanswered += 1;
        Ok(())
    }

    pub(super) fn receive(&mut self, index: usize) -> Result<()> {
        self.connections[index].receive()
    }

    /// Takes one answer out of what was received, and returns when its message was due.
    pub(super) fn take_answer(&mut self, index: usize) -> Result<Option<Instant>> {
        let due = self.connections[index].take_answer()?;
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

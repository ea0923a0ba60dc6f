//! The loop that sends what is due, and takes what has been answered.

use std::iter::Peekable;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::thread::set_current_timer_slack;

use super::connection::Connection;
use super::schedule::Schedule;
use super::tally::Tally;
use super::{ANSWER_MAX, Load, Report};
use crate::paced::TIMER_SLACK_NS;

/// Few, so that a message that falls due meanwhile does not wait long for its turn.
const EVENTS_MAX: usize = 64;

pub(super) fn run(address: SocketAddr, load: &Load) -> Result<Report> {
    set_current_timer_slack(Some(TIMER_SLACK_NS))?;
    let mut generator = Generator::connect(address, load)?;
    generator.run()?;
    Ok(generator.tally.report())
}

struct Generator {
    epoll: OwnedFd,
    connections: Vec<Connection>,
    start: Instant,
    /// Nothing is due from here on; what is unanswered is waited for.
    end: Instant,
    /// Of an open loop.
    schedule: Option<Peekable<Schedule>>,
    /// The connection that sends next in an open loop.
    turn: usize,
    sleeps: bool,
    tally: Tally,
}

impl Generator {
    fn connect(address: SocketAddr, load: &Load) -> Result<Generator> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut connections = Vec::new();
        for index in 0..u64::from(load.connections) {
            let connection = Connection::open(address, index)?;
            epoll::add(
                &epoll,
                &connection,
                EventData::new_u64(index),
                EventFlags::IN,
            )?;
            connections.push(connection);
        }
        let start = Instant::now();
        let begin = start + Duration::from_secs(load.warm_up_seconds);
        let end = begin + Duration::from_secs(load.seconds);
        Ok(Generator {
            tally: Tally::new(begin..end, connections.len())?,
            epoll,
            connections,
            start,
            end,
            schedule: load.rate.map(|rate| Schedule::new(start, rate).peekable()),
            turn: 0,
            sleeps: !load.spin,
        })
    }

    fn run(&mut self) -> Result<()> {
        if self.schedule.is_none() {
            for connection in &mut self.connections {
                connection.send(self.start)?;
            }
        }
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            let now = Instant::now();
            let next_due = self.send_due(now)?;
            if next_due.is_none() && !self.connections.iter().any(Connection::is_waiting) {
                return Ok(());
            }
            // Where nothing falls due by itself, there are only answers to wait for.
            let until = next_due.unwrap_or(self.end + ANSWER_MAX);
            ensure!(
                now < until,
                "a message has been unanswered for {ANSWER_MAX:?}"
            );
            self.wait(until - now, &mut events)?;
            for event in events.drain(..) {
                self.take_answers(event.data.u64() as usize)?;
            }
        }
    }

    /// Sends all that an open loop should have sent by now, each on the next connection. Returns when it goes on.
    fn send_due(&mut self, now: Instant) -> Result<Option<Instant>> {
        let Some(schedule) = &mut self.schedule else {
            return Ok(None);
        };
        while let Some(due) = schedule.next_if(|&due| due <= now && due < self.end) {
            self.connections[self.turn].send(due)?;
            self.turn = (self.turn + 1) % self.connections.len();
        }
        Ok(schedule.peek().copied().filter(|&due| due < self.end))
    }

    fn wait(&self, timeout: Duration, events: &mut Vec<Event>) -> Result<()> {
        let timeout = Timespec::try_from(if self.sleeps { timeout } else { Duration::ZERO })?;
        epoll::wait(&self.epoll, spare_capacity(events), Some(&timeout))?;
        Ok(())
    }

    fn take_answers(&mut self, index: usize) -> Result<()> {
        let connection = &mut self.connections[index];
        connection.receive()?;
        let now = Instant::now();
        while let Some(due) = connection.take_answer()? {
            self.tally.count(index, due, now);
            if self.schedule.is_none() && now < self.end {
                connection.send(now)?;
            }
        }
        Ok(())
    }
}

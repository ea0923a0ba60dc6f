//! The loop that sends what is due, and takes what has been answered.

use std::iter::Peekable;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::thread::set_current_timer_slack;

use super::crowd::{Crowd, ensure_before};
use super::schedule::Schedule;
use super::tally::Tally;
use super::{ANSWER_MAX, Load, Report};
use crate::paced::TIMER_SLACK_NS;

/// Loads the server over these connections. None of its messages is unanswered when this returns.
pub(crate) fn run(crowd: &mut Crowd, load: &Load) -> Result<Report> {
    set_current_timer_slack(Some(TIMER_SLACK_NS))?;
    let mut generator = Generator::new(crowd, load)?;
    generator.run()?;
    Ok(generator.tally.report())
}

struct Generator<'a> {
    crowd: &'a mut Crowd,
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

impl Generator<'_> {
    fn new<'a>(crowd: &'a mut Crowd, load: &Load) -> Result<Generator<'a>> {
        let start = Instant::now();
        let begin = start + Duration::from_secs(load.warm_up_seconds);
        let end = begin + Duration::from_secs(load.seconds);
        Ok(Generator {
            tally: Tally::new(begin..end, crowd.len())?,
            crowd,
            start,
            end,
            schedule: load.rate.map(|rate| Schedule::new(start, rate).peekable()),
            turn: 0,
            sleeps: !load.spin,
        })
    }

    fn run(&mut self) -> Result<()> {
        if self.schedule.is_none() {
            for index in 0..self.crowd.len() {
                self.crowd.send(index, self.start)?;
            }
        }
        let mut events = Crowd::no_events();
        loop {
            let next_due = self.send_due(Instant::now())?;
            if next_due.is_none() && !self.crowd.is_waiting() {
                return Ok(());
            }
            // Where nothing falls due by itself, there are only answers to wait for.
            let last_answer = self.end + ANSWER_MAX;
            ensure_before(last_answer)?;
            let until = next_due.unwrap_or(last_answer);
            self.crowd.wait(until, self.sleeps, &mut events)?;
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
            self.crowd.send(self.turn, due)?;
            self.turn = (self.turn + 1) % self.crowd.len();
        }
        Ok(schedule.peek().copied().filter(|&due| due < self.end))
    }

    fn take_answers(&mut self, index: usize) -> Result<()> {
        self.crowd.receive(index)?;
        let now = Instant::now();
        while let Some(due) = self.crowd.take_answer(index)? {
            self.tally.count(index, due, now);
            if self.schedule.is_none() && now < self.end {
                self.crowd.send(index, now)?;
            }
        }
        Ok(())
    }
}

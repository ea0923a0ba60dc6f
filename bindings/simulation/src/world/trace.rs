//! What has happened in a world.

use std::collections::VecDeque;
use std::time::Duration;

use super::links::Pair;
use crate::faults::Set;

/// Number of events that are kept: some 10 MB.
const EVENTS_MAX: usize = 100_000;

#[derive(Debug)]
pub(super) enum Event {
    /// Done by the test, or by a host.
    Done(String),
    /// To this port.
    Connects(Pair, u16),
    /// So many bytes begin to travel.
    Sent(Pair, usize),
    /// The end of a stream does.
    Ended(Pair),
    Arrived(Pair, usize),
    Lost(Pair, usize),
    /// TCP sends a segment again.
    Resent(Pair),
}

/// An event with its time, and its number if it is a fault.
type Noted = (Duration, Event, Option<u64>);

#[derive(Debug, Default)]
pub(super) struct Trace {
    events: VecDeque<Noted>,
    /// The time of the first.
    start: Option<Duration>,
    /// Number of faults so far, with those that were left out.
    faults: u64,
    /// Those that may happen; `None` for all.
    chosen: Option<Set>,
}

impl Trace {
    pub(super) fn new(chosen: Option<Set>) -> Trace {
        Trace {
            chosen,
            ..Trace::default()
        }
    }

    /// Returns the number of the next fault, unless that is left out.
    pub(super) fn fault(&mut self) -> Option<u64> {
        self.faults += 1;
        let happens = self
            .chosen
            .as_ref()
            .is_none_or(|chosen| chosen.has(self.faults));
        happens.then_some(self.faults)
    }

    /// Returns the number of faults so far.
    pub(super) fn faults(&self) -> u64 {
        self.faults
    }

    pub(super) fn add(&mut self, now: Duration, event: Event) {
        self.add_with(now, event, None);
    }

    /// Adds an event that may be this fault.
    pub(super) fn add_with(&mut self, now: Duration, event: Event, fault: Option<u64>) {
        let start = *self.start.get_or_insert(now);
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        let time = now.saturating_sub(start);
        self.events.push_back((time, event, fault));
    }

    /// Returns the events, a line each. `name` returns the names of hosts.
    pub(super) fn text<'a>(&self, name: impl Fn(u32) -> &'a str) -> String {
        self.events.iter().map(|noted| line(noted, &name)).collect()
    }

    /// Returns what a failed test shows: at most so many of the last events, and of the faults before them.
    pub(super) fn summary<'a>(&self, lines_max: usize, name: impl Fn(u32) -> &'a str) -> String {
        let early = self.events.len().saturating_sub(lines_max);
        let faults = self.events.iter().take(early);
        let faults = faults.filter(|(.., fault)| fault.is_some());
        let skipped = faults.clone().count().saturating_sub(lines_max);
        let shown = faults.skip(skipped).chain(self.events.iter().skip(early));
        shown.map(|noted| line(noted, &name)).collect()
    }
}

fn line<'a>((time, event, fault): &Noted, name: impl Fn(u32) -> &'a str) -> String {
    let names = |pair: &Pair| names(*pair, &name);
    let event = match event {
        Event::Done(what) => what.clone(),
        Event::Connects(pair, port) => format!("{}: connects to port {port}", names(pair)),
        Event::Sent(pair, bytes) => format!("{}: {bytes} B", names(pair)),
        Event::Ended(pair) => format!("{}: the end of a stream", names(pair)),
        Event::Arrived(pair, bytes) => format!("{}: {bytes} B arrive", names(pair)),
        Event::Lost(pair, bytes) => format!("{}: {bytes} B are lost", names(pair)),
        Event::Resent(pair) => format!("{}: a segment is sent again", names(pair)),
    };
    let fault = fault.map_or_else(String::new, |fault| format!(" (fault {fault})"));
    format!("{:12.6} {event}{fault}\n", time.as_secs_f64())
}

/// Returns the names of the hosts of a link.
pub(super) fn names<'a>(pair: Pair, name: impl Fn(u32) -> &'a str) -> String {
    format!("{} -> {}", name(pair.0), name(pair.1))
}

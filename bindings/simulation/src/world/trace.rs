//! What has happened in a world.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Duration;

use super::links::Pair;

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
}

#[derive(Debug, Default)]
pub(super) struct Trace {
    events: VecDeque<(Duration, Event)>,
    /// The time of the first.
    start: Option<Duration>,
}

impl Trace {
    pub(super) fn add(&mut self, now: Duration, event: Event) {
        let start = *self.start.get_or_insert(now);
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back((now.saturating_sub(start), event));
    }

    /// Returns at most so many of the last events, a line each. `name` returns the names of hosts.
    pub(super) fn text<'a>(&self, lines_max: usize, name: impl Fn(u32) -> &'a str) -> String {
        let mut text = String::new();
        let skipped = self.events.len().saturating_sub(lines_max);
        for (time, event) in self.events.iter().skip(skipped) {
            let names = |pair: &Pair| names(*pair, &name);
            let event = match event {
                Event::Done(what) => what.clone(),
                Event::Connects(pair, port) => format!("{}: connects to port {port}", names(pair)),
                Event::Sent(pair, bytes) => format!("{}: {bytes} B", names(pair)),
                Event::Ended(pair) => format!("{}: the end of a stream", names(pair)),
                Event::Arrived(pair, bytes) => format!("{}: {bytes} B arrive", names(pair)),
                Event::Lost(pair, bytes) => format!("{}: {bytes} B are lost", names(pair)),
            };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{:12.6} {event}", time.as_secs_f64());
        }
        text
    }
}

/// Returns the names of the hosts of a link.
pub(super) fn names<'a>(pair: Pair, name: impl Fn(u32) -> &'a str) -> String {
    format!("{} -> {}", name(pair.0), name(pair.1))
}

//! What has happened in a world.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use super::links::Pair;
use crate::faults::Set;

/// Number of events that are kept: some 10 MB.
const EVENTS_MAX: usize = 100_000;

#[derive(Debug)]
pub(super) enum Event {
    /// Done by the test, or by a host.
    Done(String),
    /// Of the host with this number.
    Host(u32, OfHost),
    /// Of these links, or of all.
    Links(Option<Vec<Pair>>, OfLinks),
    /// To this port.
    Connects(Pair, u16),
    /// So many bytes begin to travel, in the message with this number.
    Sent(Pair, usize, u64),
    /// The end of a stream does.
    Ended(Pair),
    Arrived(Pair, usize, u64),
    /// Without a number if it was never sent.
    Lost(Pair, usize, Option<u64>),
    /// TCP sends a segment again: that of the next message.
    Resent(Pair),
}

/// What happens to a host.
#[derive(Debug)]
pub(super) enum OfHost {
    Starts,
    /// Its program returns.
    Ends,
    /// Its program returns this error.
    Fails(String),
    /// Its program panics.
    Panics,
    Crashes,
    Pauses,
    Resumes,
    Other(String),
}

/// What happens to links.
#[derive(Debug)]
pub(super) enum OfLinks {
    Cut,
    Healed,
    Reset,
    Other(String),
}

/// An event with its time, and its number if it is a fault.
pub(super) type Noted = (Duration, Event, Option<u64>);

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

    /// Returns the events from the oldest on.
    pub(super) fn events(&self) -> impl ExactSizeIterator<Item = &Noted> + DoubleEndedIterator {
        self.events.iter()
    }

    /// Returns the time since the first event.
    pub(super) fn elapsed(&self, now: Duration) -> Duration {
        now.saturating_sub(self.start.unwrap_or(now))
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
        Event::Host(host, what) => format!("{}: {what}", name(*host)),
        Event::Links(pairs, what) => format!("{}: {what}", names_of(pairs.as_deref(), &name)),
        Event::Connects(pair, port) => format!("{}: connects to port {port}", names(pair)),
        Event::Sent(pair, bytes, _) => format!("{}: {bytes} B", names(pair)),
        Event::Ended(pair) => format!("{}: the end of a stream", names(pair)),
        Event::Arrived(pair, bytes, _) => format!("{}: {bytes} B arrive", names(pair)),
        Event::Lost(pair, bytes, _) => format!("{}: {bytes} B are lost", names(pair)),
        Event::Resent(pair) => format!("{}: a segment is sent again", names(pair)),
    };
    let fault = fault.map_or_else(String::new, |fault| format!(" (fault {fault})"));
    format!("{:12.6} {event}{fault}\n", time.as_secs_f64())
}

impl fmt::Display for OfHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            OfHost::Starts => "starts",
            OfHost::Ends => "ends",
            OfHost::Fails(error) => return write!(formatter, "fails: {error}"),
            OfHost::Panics => "panics",
            OfHost::Crashes => "crashes",
            OfHost::Pauses => "pauses",
            OfHost::Resumes => "resumes",
            OfHost::Other(what) => what,
        })
    }
}

impl fmt::Display for OfLinks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            OfLinks::Cut => "cut",
            OfLinks::Healed => "healed",
            OfLinks::Reset => "reset",
            OfLinks::Other(what) => what,
        })
    }
}

fn names_of<'a>(pairs: Option<&[Pair]>, name: impl Fn(u32) -> &'a str) -> String {
    let Some(pairs) = pairs else {
        return "all links".to_owned();
    };
    let each = pairs.iter().map(|pair| names(*pair, &name));
    each.collect::<Vec<_>>().join(", ")
}

/// Returns the names of the hosts of a link.
fn names<'a>(pair: Pair, name: impl Fn(u32) -> &'a str) -> String {
    format!("{} -> {}", name(pair.0), name(pair.1))
}

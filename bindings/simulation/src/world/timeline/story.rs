//! What the events of a trace mean together: messages with their ends, and how long hosts are down or links cut.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::Duration;

use crate::world::links::Pair;
use crate::world::trace::{Event, Noted, OfHost, OfLinks, Trace};

/// The last events of a trace.
#[derive(Debug)]
pub(super) struct Story {
    /// The time of the first one, and the end.
    pub(super) from: Duration,
    pub(super) end: Duration,
    /// Number of events here, and in the trace.
    pub(super) shown: usize,
    pub(super) count: usize,
    /// Those that take part, by their numbers.
    pub(super) hosts: BTreeSet<u32>,
    pub(super) messages: Vec<Message>,
    /// Connections: from and to these hosts.
    pub(super) connects: Vec<(Duration, Pair, u16)>,
    /// The ends of streams.
    pub(super) stream_ends: Vec<(Duration, Pair)>,
    pub(super) spans: Vec<Span>,
    pub(super) cuts: Vec<Cut>,
    pub(super) notes: Vec<Note>,
    /// The times of all of these.
    pub(super) times: Vec<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) pair: Pair,
    pub(super) bytes: usize,
    /// `None` if it is not known any more.
    pub(super) sent: Option<Duration>,
    pub(super) fate: Fate,
    /// The faults that made it late, or lost.
    pub(super) faults: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Arrives(Duration),
    Lost(Duration),
    /// It has neither arrived nor is it known to be lost.
    Travels,
}

/// How long a host is in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) host: u32,
    pub(super) state: HostState,
    pub(super) from: Duration,
    pub(super) to: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostState {
    Up,
    Paused,
    Crashed,
    /// Its program has ended.
    Ended,
}

/// How long links are cut; `None` are all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) pairs: Option<Vec<Pair>>,
    pub(super) fault: Option<u64>,
    pub(super) from: Duration,
    pub(super) to: Duration,
}

/// Something that is said in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) time: Duration,
    pub(super) host: Option<u32>,
    /// Links, or all if there are none.
    pub(super) pairs: Option<Vec<Pair>>,
    pub(super) text: String,
    pub(super) fault: Option<u64>,
    pub(super) is_panic: bool,
}

/// What has begun and not ended.
#[derive(Default)]
struct Open {
    messages: BTreeMap<u64, Message>,
    hosts: BTreeMap<u32, (HostState, Duration)>,
    cuts: Vec<Cut>,
    /// The faults of the next message of a link, at this time.
    late: BTreeMap<Pair, (Duration, Vec<u64>)>,
}

impl Story {
    /// Tells of at most so many of the last events.
    pub(super) fn new(trace: &Trace, events_max: usize, end: Duration) -> Story {
        let count = trace.events().len();
        let early = count.saturating_sub(events_max);
        let from = trace.events().nth(early).map_or(end, |(time, ..)| *time);
        let mut story = Story {
            from,
            end,
            shown: count - early,
            count,
            hosts: BTreeSet::new(),
            messages: Vec::new(),
            connects: Vec::new(),
            stream_ends: Vec::new(),
            spans: Vec::new(),
            cuts: Vec::new(),
            notes: Vec::new(),
            times: vec![from, end],
        };
        let mut open = Open::default();
        for (index, noted) in trace.events().enumerate() {
            story.add(&mut open, noted, index >= early);
        }
        story.finish(open);
        story
    }

    fn add(&mut self, open: &mut Open, (time, event, fault): &Noted, is_shown: bool) {
        if is_shown {
            self.times.push(*time);
        }
        let note = Note {
            time: *time,
            host: None,
            pairs: None,
            text: String::new(),
            fault: *fault,
            is_panic: false,
        };
        match event {
            Event::Host(host, what) => {
                if is_shown {
                    self.hosts.insert(*host);
                    self.notes.push(Note {
                        host: Some(*host),
                        text: what.to_string(),
                        is_panic: matches!(what, OfHost::Panics),
                        ..note
                    });
                }
                if let Some(state) = state_after(what) {
                    self.change(open, *host, state, *time);
                }
            }
            Event::Links(pairs, what) => {
                self.change_links(open, pairs.as_deref(), what, &note);
                if is_shown && !matches!(what, OfLinks::Cut) {
                    let (pairs, text) = (pairs.clone(), what.to_string());
                    let pairs = Some(pairs.unwrap_or_default());
                    self.notes.push(Note {
                        pairs,
                        text,
                        ..note
                    });
                }
            }
            Event::Done(text) if is_shown => {
                let text = text.clone();
                self.notes.push(Note { text, ..note });
            }
            Event::Connects(pair, port) if is_shown => {
                self.hosts.extend([pair.0, pair.1]);
                self.connects.push((*time, *pair, *port));
            }
            Event::Ended(pair) if is_shown => {
                self.hosts.extend([pair.0, pair.1]);
                self.stream_ends.push((*time, *pair));
            }
            Event::Done(_) | Event::Connects(..) | Event::Ended(_) => {}
            Event::Sent(..) | Event::Arrived(..) | Event::Lost(..) | Event::Resent(_) => {
                self.add_message(open, (*time, event, *fault), is_shown);
            }
        }
    }

    fn add_message(
        &mut self,
        open: &mut Open,
        (time, event, fault): (Duration, &Event, Option<u64>),
        is_shown: bool,
    ) {
        match *event {
            Event::Resent(pair) => {
                let late = open.late.entry(pair).or_default();
                if late.0 != time {
                    *late = (time, Vec::new());
                }
                late.1.extend(fault);
            }
            Event::Sent(pair, bytes, number) => {
                let late = open.late.remove(&pair).filter(|late| late.0 == time);
                let message = Message {
                    pair,
                    bytes,
                    sent: Some(time),
                    fate: Fate::Travels,
                    faults: late.map_or_else(Vec::new, |late| late.1),
                };
                open.messages.insert(number, message);
            }
            Event::Arrived(pair, bytes, number) => {
                let found = open.messages.remove(&number);
                self.end_message(found, (pair, bytes), Fate::Arrives(time), None, is_shown);
            }
            Event::Lost(pair, bytes, number) => {
                let found = number.and_then(|number| open.messages.remove(&number));
                let found = found.or(number.is_none().then_some(Message {
                    pair,
                    bytes,
                    sent: Some(time),
                    fate: Fate::Travels,
                    faults: Vec::new(),
                }));
                self.end_message(found, (pair, bytes), Fate::Lost(time), fault, is_shown);
            }
            _ => {}
        }
    }

    fn end_message(
        &mut self,
        found: Option<Message>,
        (pair, bytes): (Pair, usize),
        fate: Fate,
        fault: Option<u64>,
        is_shown: bool,
    ) {
        if !is_shown {
            return;
        }
        // The rest of a message that the receiver had no room for arrives on its own.
        let mut message = found.unwrap_or(Message {
            pair,
            bytes,
            sent: None,
            fate,
            faults: Vec::new(),
        });
        message.fate = fate;
        message.faults.extend(fault);
        self.hosts.extend([pair.0, pair.1]);
        self.messages.push(message);
    }

    fn change(&mut self, open: &mut Open, host: u32, state: HostState, time: Duration) {
        let before = open.hosts.insert(host, (state, time));
        self.add_span(host, before, time);
    }

    fn add_span(&mut self, host: u32, before: Option<(HostState, Duration)>, to: Duration) {
        if let Some((state, from)) = before
            && to >= self.from
        {
            let from = from.max(self.from);
            self.spans.push(Span {
                host,
                state,
                from,
                to,
            });
        }
    }

    fn change_links(
        &mut self,
        open: &mut Open,
        pairs: Option<&[Pair]>,
        what: &OfLinks,
        note: &Note,
    ) {
        match what {
            OfLinks::Cut => open.cuts.push(Cut {
                pairs: pairs.map(<[Pair]>::to_vec),
                fault: note.fault,
                from: note.time,
                to: note.time,
            }),
            OfLinks::Healed => {
                for mut cut in mem::take(&mut open.cuts) {
                    let left = cut.pairs.as_ref().filter(|_| pairs.is_some());
                    let left = left.map(|all| {
                        let is_left = |pair: &&Pair| !pairs.unwrap_or_default().contains(pair);
                        all.iter().filter(is_left).copied().collect::<Vec<_>>()
                    });
                    match left {
                        // Others of them stay cut. All links with those that are added later cannot be listed.
                        Some(left) if !left.is_empty() => {
                            cut.pairs = Some(left);
                            open.cuts.push(cut);
                        }
                        None if pairs.is_some() => open.cuts.push(cut),
                        Some(_) | None => self.add_cut(cut, note.time),
                    }
                }
            }
            OfLinks::Reset | OfLinks::Other(_) => {}
        }
    }

    fn add_cut(&mut self, mut cut: Cut, to: Duration) {
        if to >= self.from {
            cut.to = to;
            cut.from = cut.from.max(self.from);
            let pairs = cut.pairs.iter().flatten();
            self.hosts.extend(pairs.flat_map(|pair| [pair.0, pair.1]));
            self.cuts.push(cut);
        }
    }

    /// Ends what has not ended.
    fn finish(&mut self, open: Open) {
        for message in open.messages.into_values() {
            if message.sent.is_some_and(|sent| sent >= self.from) {
                self.hosts.extend([message.pair.0, message.pair.1]);
                self.messages.push(message);
            }
        }
        for (host, state) in open.hosts {
            self.add_span(host, Some(state), self.end);
        }
        for cut in open.cuts {
            self.add_cut(cut, self.end);
        }
        self.cuts.sort_by_key(|cut| cut.from);
        let hosts = &self.hosts;
        self.spans.retain(|span| hosts.contains(&span.host));
    }
}

fn state_after(what: &OfHost) -> Option<HostState> {
    match what {
        OfHost::Starts | OfHost::Resumes => Some(HostState::Up),
        OfHost::Pauses => Some(HostState::Paused),
        OfHost::Crashes => Some(HostState::Crashed),
        OfHost::Ends | OfHost::Fails(_) | OfHost::Panics => Some(HostState::Ended),
        OfHost::Other(_) => None,
    }
}

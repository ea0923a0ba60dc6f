//! The shapes of a picture, in SVG without styles or scripts.
//!
//! ```text
//!   notes                   b: crashes (6)
//!   a lane for each host    a ------\-----------/---
//!                           b -------\--|======/====
//!   links that are cut             [ a - b ]
//!   times                   1.250    1.300     1.350
//! ```

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::Duration;

use super::Outcome;
use super::scale::Scale;
use super::story::{Cut, Fate, HostState, Message, Note, Span, Story};
use super::words::{Escaped, arrow, links_text, note_text};
use crate::world::links::Pair;

/// The least place of the first event, to the right of the names.
const LEFT_MIN: f64 = 60.0;
const HEADING: f64 = 22.0;
const ROW: f64 = 15.0;
const LANE: f64 = 58.0;
/// The width of a letter, nearly.
const LETTER: f64 = 6.1;
/// The distance of the times that are written below.
const TIMES: f64 = 90.0;
/// Number of rows of notes: more would hide the lanes.
const NOTE_ROWS_MAX: usize = 16;

const INK: &str = "#1b1d20";
const GREY: &str = "#888";
const BLUE: &str = "#0b5fa5";
const ORANGE: &str = "#c77800";
const RED: &str = "#b3261e";
const PURPLE: &str = "#8e44ad";

/// Draws a story. `name` returns the names of hosts.
pub(super) fn draw<'a>(story: &Story, name: impl Fn(u32) -> &'a str, outcome: Outcome) -> String {
    let mut times = story.times.clone();
    times.extend(story.messages.iter().filter_map(|message| message.sent));
    times.retain(|time| *time >= story.from);
    let names = story.hosts.iter().map(|host| name(*host).len());
    let left = (LETTER * 1.2 * names.max().unwrap_or(0) as f64 + 20.0).max(LEFT_MIN);
    let scale = Scale::new(times, left);
    let mut labels = Rows::default();
    let notes = story.notes.iter().map(|note| {
        let text = note_text(note, &name);
        let place = scale.place(note.time);
        let row = labels.add(place, place + LETTER * text.len() as f64 + 10.0);
        (note, text, row.min(NOTE_ROWS_MAX))
    });
    let notes: Vec<_> = notes.collect();
    let rows = labels.0.len().min(NOTE_ROWS_MAX + 1) as f64;
    let top = HEADING + 16.0 + ROW * rows + LANE / 2.0;
    let lanes = story.hosts.iter().enumerate();
    let lanes = lanes.map(|(index, host)| (*host, top + LANE * index as f64));
    let mut picture = Picture {
        shapes: String::new(),
        scale,
        lanes: lanes.collect(),
        left,
        bottom: top + LANE * (story.hosts.len() as f64 - 0.5),
        right: 0.0,
    };
    picture.right = picture.scale.right();
    picture.draw_grid();
    story.spans.iter().for_each(|span| picture.draw_span(span));
    picture.draw_names(&name);
    for (time, pair, port) in &story.connects {
        picture.draw_connect(*time, *pair, *port, &name);
    }
    for (time, pair) in &story.stream_ends {
        picture.draw_stream_end(*time, *pair, &name);
    }
    for message in &story.messages {
        picture.draw_message(message, &name);
    }
    for (note, text, row) in &notes {
        picture.draw_note(note, text, HEADING + 16.0 + ROW * (*row as f64 + 0.7));
    }
    picture.draw_cuts(&story.cuts, &name);
    picture.draw_times();
    if outcome == Outcome::Fails {
        picture.draw_failure();
    }
    picture.draw_legend();
    picture.finish(story)
}

struct Picture {
    shapes: String,
    scale: Scale,
    /// The heights of hosts.
    lanes: BTreeMap<u32, f64>,
    left: f64,
    /// How far it goes so far.
    bottom: f64,
    right: f64,
}

/// Places for texts that do not cover each other, by how far each row is taken.
#[derive(Debug, Default)]
struct Rows(Vec<f64>);

impl Rows {
    fn add(&mut self, from: f64, to: f64) -> usize {
        let free = self.0.iter().position(|taken| *taken <= from);
        let row = free.unwrap_or(self.0.len());
        self.0.resize(self.0.len().max(row + 1), 0.0);
        self.0[row] = to;
        row
    }
}

impl Picture {
    fn add(&mut self, shape: fmt::Arguments<'_>) {
        self.shapes.write_fmt(shape).expect("a string takes all");
        self.shapes.push('\n');
    }

    fn lane(&self, host: u32) -> f64 {
        self.lanes.get(&host).copied().unwrap_or(self.bottom)
    }

    /// Marks times that are written below, and those that are cut short.
    fn draw_grid(&mut self) {
        let bottom = self.bottom;
        for (_, x) in self.written_times() {
            self.add(format_args!(
                r##"<path d="M{x:.1} {HEADING}V{bottom:.1}" stroke="#eee"/>"##
            ));
        }
        for (from, to, gap) in self.scale.cuts.clone() {
            let (at, gap) = (
                (from + to) / 2.0,
                Escaped(&format!("+{gap:.1?}")).to_string(),
            );
            self.add(format_args!(
                r##"<path d="M{at:.1} {HEADING}V{bottom:.1}" stroke="#ddd" stroke-width="12"/><text x="{at:.1}" y="{:.1}" text-anchor="middle" fill="{GREY}">{gap}</text>"##,
                bottom + 12.0
            ));
        }
    }

    fn draw_span(&mut self, span: &Span) {
        let (from, to) = (self.scale.place(span.from), self.scale.place(span.to));
        let y = self.lane(span.host);
        let width = (to - from).max(1.0);
        match span.state {
            HostState::Up => self.add(format_args!(
                r#"<path d="M{from:.1} {y:.1}H{to:.1}" stroke="{INK}"/>"#
            )),
            HostState::Ended => self.add(format_args!(
                r#"<path d="M{from:.1} {y:.1}H{to:.1}" stroke="{GREY}" stroke-dasharray="2 4"/>"#
            )),
            HostState::Paused | HostState::Crashed => {
                let is_paused = span.state == HostState::Paused;
                let (colour, what) = if is_paused {
                    (ORANGE, "paused")
                } else {
                    (RED, "down")
                };
                let time = span.to - span.from;
                self.add(format_args!(
                    r#"<rect x="{from:.1}" y="{:.1}" width="{width:.1}" height="16" fill="{colour}" fill-opacity="0.3"><title>{what} for {time:.3?}</title></rect>"#,
                    y - 8.0
                ));
            }
        }
    }

    fn draw_names<'a>(&mut self, name: &impl Fn(u32) -> &'a str) {
        for (host, y) in self.lanes.clone() {
            self.add(format_args!(
                r#"<text x="{:.1}" y="{:.1}" text-anchor="end" font-weight="bold">{}</text>"#,
                self.left - 10.0,
                y + 4.0,
                Escaped(name(host))
            ));
        }
    }

    fn draw_connect<'a>(
        &mut self,
        time: Duration,
        pair: Pair,
        port: u16,
        name: &impl Fn(u32) -> &'a str,
    ) {
        let (x, from, to) = (self.scale.place(time), self.lane(pair.0), self.lane(pair.1));
        self.add(format_args!(
            r##"<g><title>{:.6} {}: connects to port {port}</title><path d="M{x:.1} {from:.1}V{to:.1}" stroke="{GREY}" stroke-dasharray="1 4"/><circle cx="{x:.1}" cy="{from:.1}" r="2.5" fill="#fff" stroke="{GREY}"/></g>"##,
            time.as_secs_f64(),
            arrow(pair, name),
        ));
    }

    fn draw_stream_end<'a>(&mut self, time: Duration, pair: Pair, name: &impl Fn(u32) -> &'a str) {
        let (x, y) = (self.scale.place(time), self.lane(pair.0));
        self.add(format_args!(
            r#"<rect x="{:.1}" y="{:.1}" width="5" height="5" fill="{GREY}"><title>{:.6} {}: the end of a stream</title></rect>"#,
            x - 2.5,
            y - 2.5,
            time.as_secs_f64(),
            arrow(pair, name),
        ));
    }

    fn draw_message<'a>(&mut self, message: &Message, name: &impl Fn(u32) -> &'a str) {
        let (from, to) = (self.lane(message.pair.0), self.lane(message.pair.1));
        let end = match message.fate {
            Fate::Arrives(time) | Fate::Lost(time) => Some(self.scale.place(time)),
            Fate::Travels => None,
        };
        let sent = message.sent.map(|sent| self.scale.place(sent));
        let start = (sent.or(end).unwrap_or(self.left), from);
        let (colour, end, what) = match (message.fate, end) {
            (Fate::Arrives(_), Some(end)) if message.faults.is_empty() => {
                (BLUE, (end, to), "arrives")
            }
            (Fate::Arrives(_), Some(end)) => (ORANGE, (end, to), "arrives late"),
            (Fate::Lost(_), Some(end)) => {
                let lost = (end.max(start.0 + 8.0), from + 0.6 * (to - from));
                (RED, lost, "is lost")
            }
            _ => (
                GREY,
                (start.0 + 10.0, from + 0.3 * (to - from)),
                "has not arrived",
            ),
        };
        let faults: String = message
            .faults
            .iter()
            .map(|fault| format!(" (fault {fault})"))
            .collect();
        let times = match (message.sent, message.fate) {
            (Some(sent), Fate::Arrives(time) | Fate::Lost(time)) => {
                format!("{:.6} to {:.6}", sent.as_secs_f64(), time.as_secs_f64())
            }
            (Some(sent), Fate::Travels) => format!("{:.6}", sent.as_secs_f64()),
            (None, Fate::Arrives(time) | Fate::Lost(time)) => {
                format!("to {:.6}", time.as_secs_f64())
            }
            (None, Fate::Travels) => String::new(),
        };
        let head = match message.fate {
            Fate::Arrives(_) => head(start, end),
            Fate::Lost(_) => cross(end),
            Fate::Travels => String::new(),
        };
        let is_late = colour == ORANGE;
        let dashes = if is_late {
            r#" stroke-dasharray="6 3""#
        } else {
            ""
        };
        self.add(format_args!(
            r#"<g stroke="{colour}" fill="none"><title>{times} {}: {} B, {what}{faults}</title><path d="M{:.1} {:.1}L{:.1} {:.1}"{dashes}/><path d="{head}" stroke-width="1.6"/></g>"#,
            arrow(message.pair, name),
            message.bytes,
            start.0,
            start.1,
            end.0,
            end.1,
        ));
    }

    fn draw_note(&mut self, note: &Note, text: &str, y: f64) {
        let x = self.scale.place(note.time);
        let colour = if note.is_panic || note.fault.is_some() {
            RED
        } else {
            INK
        };
        let end = note.host.map_or(self.bottom, |host| self.lane(host));
        self.add(format_args!(
            r#"<path d="M{x:.1} {:.1}V{end:.1}" stroke="{colour}" stroke-opacity="0.35"/><text x="{:.1}" y="{y:.1}" fill="{colour}">{}</text>"#,
            y - 9.0,
            x + 3.0,
            Escaped(text),
        ));
        if note.is_panic {
            self.add(format_args!(
                r#"<path d="{}" stroke="{RED}" stroke-width="3"/>"#,
                cross((x, end))
            ));
        } else if note.host.is_some() {
            self.add(format_args!(
                r#"<circle cx="{x:.1}" cy="{end:.1}" r="3" fill="{colour}"/>"#
            ));
        }
        self.right = self.right.max(x + LETTER * text.len() as f64);
    }

    fn draw_cuts<'a>(&mut self, cuts: &[Cut], name: &impl Fn(u32) -> &'a str) {
        let top = self.bottom + 22.0;
        let mut rows = Rows::default();
        for cut in cuts {
            let fault = cut
                .fault
                .map_or_else(String::new, |fault| format!(" ({fault})"));
            let text = format!("{}: cut{fault}", links_text(cut.pairs.as_deref(), name));
            let (from, to) = (self.scale.place(cut.from), self.scale.place(cut.to));
            let end = to.max(from + LETTER * text.len() as f64 + 8.0);
            let y = top + 19.0 * rows.add(from, end + 4.0) as f64;
            self.add(format_args!(
                r#"<rect x="{from:.1}" y="{y:.1}" width="{:.1}" height="16" fill="{PURPLE}" fill-opacity="0.22"><title>for {:.3?}</title></rect><text x="{:.1}" y="{:.1}" fill="{PURPLE}">{}</text>"#,
                (to - from).max(1.0),
                cut.to - cut.from,
                from + 4.0,
                y + 12.0,
                Escaped(&text),
            ));
            self.right = self.right.max(end);
        }
        self.bottom = top + 19.0 * rows.0.len() as f64;
    }

    fn draw_times(&mut self) {
        let y = self.bottom + 14.0;
        for (time, x) in self.written_times() {
            let time = time.as_secs_f64();
            self.add(format_args!(
                r#"<text x="{x:.1}" y="{y:.1}" fill="{GREY}">{time:.4}</text>"#
            ));
        }
        self.bottom = y;
    }

    /// Returns times far enough from each other to be written, with their places.
    fn written_times(&self) -> Vec<(Duration, f64)> {
        let mut times: Vec<(Duration, f64)> = Vec::new();
        for point in self.scale.points() {
            if times.last().is_none_or(|last| point.1 >= last.1 + TIMES) {
                times.push(*point);
            }
        }
        times
    }

    fn draw_failure(&mut self) {
        let (x, bottom) = (self.scale.right(), self.bottom);
        self.add(format_args!(
            r#"<path d="M{x:.1} {HEADING}V{bottom:.1}" stroke="{RED}" stroke-width="3"/><text x="{:.1}" y="{:.1}" fill="{RED}" font-weight="bold">fails</text>"#,
            x + 6.0,
            HEADING + 10.0,
        ));
        self.right = self.right.max(x + 40.0);
    }

    fn draw_legend(&mut self) {
        self.bottom += 26.0;
        let (mut x, y) = (self.left, self.bottom);
        let lines = [
            (BLUE, "a message"),
            (ORANGE, "late"),
            (RED, "lost"),
            (GREY, "not arrived, or a connection"),
        ];
        for (colour, text) in lines {
            self.add(format_args!(
                r#"<path d="M{x:.1} {:.1}h22" stroke="{colour}" stroke-width="2"/><text x="{:.1}" y="{y:.1}">{text}</text>"#,
                y - 4.0,
                x + 27.0
            ));
            x += 50.0 + LETTER * text.len() as f64;
        }
        for (colour, text) in [(RED, "down"), (ORANGE, "paused"), (PURPLE, "cut")] {
            self.add(format_args!(
                r#"<rect x="{x:.1}" y="{:.1}" width="22" height="12" fill="{colour}" fill-opacity="0.3"/><text x="{:.1}" y="{y:.1}">{text}</text>"#,
                y - 10.0,
                x + 27.0
            ));
            x += 50.0 + LETTER * text.len() as f64;
        }
        let text = "numbers in brackets: faults";
        self.add(format_args!(r#"<text x="{x:.1}" y="{y:.1}">{text}</text>"#));
        self.right = self.right.max(x + LETTER * text.len() as f64);
    }

    fn finish(self, story: &Story) -> String {
        let (width, height) = (self.right + 30.0, self.bottom + 16.0);
        let title = format!(
            "{} of {} events of the world, from {:.6} s to {:.6} s",
            story.shown,
            story.count,
            story.from.as_secs_f64(),
            story.end.as_secs_f64()
        );
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"11\" fill=\"{INK}\">\n\
             <title>{title}</title>\n<rect width=\"{width:.0}\" height=\"{height:.0}\" fill=\"#fff\"/>\n\
             <text x=\"10\" y=\"15\" font-size=\"13\">{title}</text>\n{}</svg>\n",
            self.shapes
        )
    }
}

/// Returns the head of an arrow, two strokes.
fn head(start: (f64, f64), end: (f64, f64)) -> String {
    let angle = (end.1 - start.1).atan2(end.0 - start.0);
    let side = |turn: f64| {
        let angle = angle + turn;
        (end.0 - 6.0 * angle.cos(), end.1 - 6.0 * angle.sin())
    };
    let (left, right) = (side(0.45), side(-0.45));
    format!(
        "M{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}",
        left.0, left.1, end.0, end.1, right.0, right.1
    )
}

/// Returns two strokes across each other.
fn cross((x, y): (f64, f64)) -> String {
    format!("M{:.1} {:.1}l8 8m0 -8l-8 8", x - 4.0, y - 4.0)
}

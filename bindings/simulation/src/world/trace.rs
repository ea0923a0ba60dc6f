//! What has happened in a world.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Duration;

/// Number of events that are kept: some 10 MB.
const EVENTS_MAX: usize = 100_000;

#[derive(Debug, Default)]
pub(super) struct Trace {
    events: VecDeque<(Duration, String)>,
    /// The time of the first.
    start: Option<Duration>,
}

impl Trace {
    pub(super) fn add(&mut self, now: Duration, event: String) {
        let start = *self.start.get_or_insert(now);
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back((now.saturating_sub(start), event));
    }

    /// Returns at most so many of the last events, a line each.
    pub(super) fn text(&self, lines_max: usize) -> String {
        let mut text = String::new();
        let skipped = self.events.len().saturating_sub(lines_max);
        for (time, event) in self.events.iter().skip(skipped) {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{:12.6} {event}", time.as_secs_f64());
        }
        text
    }
}

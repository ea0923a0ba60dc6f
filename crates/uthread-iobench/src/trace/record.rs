//! The kernel's record of a batch, line by line: system calls that submit, entries taken, entries
//! completed.

use super::tag::Tag;

/// Text in the line of a system call that submits.
const CALL: &str = "io_uring_enter(";
/// Text in the line of an entry that the kernel takes, and in that of one that it completes.
const USER_DATA: &str = "user_data 0x";
/// Text in the line of an entry that the kernel completes, and in no other.
const RESULT: &str = "result ";

/// The record of a batch until now.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// The entries of each system call, in the order in which the kernel took them.
    calls: Vec<Vec<Entry>>,
    /// Number of entries whose tag is known.
    tagged: usize,
}

#[derive(Debug)]
struct Entry {
    user_data: u64,
    /// When it was taken, in microseconds of the trace's clock.
    at_us: f64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Taken,
    Tagged(Tag),
    /// Completed with another result: the worker's own request.
    Other,
}

impl Record {
    /// Adds a line.
    pub(super) fn add(&mut self, line: &str) {
        if line.contains(CALL) {
            self.calls.push(Vec::new());
            return;
        }
        let Some(user_data) = hexadecimal(line) else {
            return;
        };
        match result(line) {
            None => {
                let state = State::Taken;
                let at_us = time(line).unwrap_or(f64::NAN);
                let entry = Entry {
                    user_data,
                    at_us,
                    state,
                };
                match self.calls.last_mut() {
                    Some(call) => call.push(entry),
                    // The call began before the record.
                    None => self.calls.push(vec![entry]),
                }
            }
            Some(result) => self.complete(user_data, result),
        }
    }

    fn complete(&mut self, user_data: u64, result: i64) {
        let mut entries = self.calls.iter_mut().flatten();
        let is_it =
            |entry: &&mut Entry| entry.user_data == user_data && entry.state == State::Taken;
        if let Some(entry) = entries.find(is_it) {
            let tag = Tag::of(result);
            entry.state = tag.map_or(State::Other, State::Tagged);
            self.tagged += usize::from(tag.is_some());
        }
    }

    /// Returns the number of entries that were taken and completed.
    pub(super) fn len(&self) -> usize {
        self.tagged
    }

    /// Returns the entries in the order in which the kernel took them, with the time since the
    /// first in microseconds.
    pub(super) fn timeline(&self) -> Vec<(Tag, f64)> {
        let entries = || self.calls.iter().flatten();
        let tagged = || {
            entries().filter_map(|entry| match entry.state {
                State::Tagged(tag) => Some((tag, entry.at_us)),
                State::Taken | State::Other => None,
            })
        };
        let first = tagged().next().map_or(0.0, |(_, at)| at);
        tagged().map(|(tag, at)| (tag, at - first)).collect()
    }

    /// Returns the entries of each system call that submitted some, in the order in which the
    /// kernel took them.
    pub(super) fn flushes(&self) -> Vec<Vec<Tag>> {
        let tag = |entry: &Entry| match entry.state {
            State::Tagged(tag) => Some(tag),
            State::Taken | State::Other => None,
        };
        let tags = self.calls.iter().map(|call| call.iter().filter_map(tag));
        let tags = tags.map(Iterator::collect::<Vec<Tag>>);
        tags.filter(|tags| !tags.is_empty()).collect()
    }
}

/// Returns the time at the head of a line, in microseconds.
fn time(line: &str) -> Option<f64> {
    let (head, _) = line.split_once(": ")?;
    let seconds: f64 = head.split_whitespace().next_back()?.parse().ok()?;
    Some(seconds * 1e6)
}

/// Returns `user_data` of a line.
fn hexadecimal(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once(USER_DATA)?;
    let end = rest.find(|letter: char| !letter.is_ascii_hexdigit());
    u64::from_str_radix(&rest[..end.unwrap_or(rest.len())], 16).ok()
}

/// Returns the result in the line of an entry that was completed.
fn result(line: &str) -> Option<i64> {
    let (_, rest) = line.split_once(RESULT)?;
    rest.split([',', ' ']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::tag::Class;
    use super::*;

    #[test]
    fn entries_are_known_by_their_results() {
        let urgent = Tag {
            class: Class::Urgent,
            sequence: 1,
        };
        let normal = Tag {
            class: Class::Normal,
            sequence: 0,
        };
        let call =
            "sys_io_uring_enter(fd: 4, to_submit: 2, min_complete: 0, flags: 1, argp: 0, argsz: 8)";
        let taken = |user_data: u64| {
            format!(
                "io_uring_submit_req: ring 00d1, req 0042, user_data {user_data:#x}, opcode READ, flags 0x0, sq_thread 0"
            )
        };
        let completed = |user_data: u64, result: i64| {
            format!(
                "io_uring_complete: ring 00d1, req 0042, user_data {user_data:#x}, result {result}, cflags 0x0 extra1 0 extra2 0 "
            )
        };
        let of = |tag: Tag| i64::from(tag.length());
        let mut record = Record::default();
        let lines = [
            call.to_owned(),
            taken(7),
            taken(0xff),
            taken(9),
            // The wake-up of the worker.
            completed(9, 8),
            completed(0xff, of(normal)),
            completed(7, of(urgent)),
            "CPU:1 [LOST 7 EVENTS]".to_owned(),
            call.to_owned(),
            call.to_owned(),
            // Used again.
            taken(7),
            completed(7, of(urgent)),
            completed(5, of(urgent)),
        ];
        for (line, number) in lines.into_iter().zip(0..) {
            record.add(&format!("  uthread-17 [001] ..... 5.{number:06}: {line}"));
        }
        assert_eq!(record.len(), 3);
        assert_eq!(record.flushes(), [vec![urgent, normal], vec![urgent]]);
        let timeline = record.timeline().into_iter();
        let timeline: Vec<(Tag, f64)> = timeline.map(|(tag, at)| (tag, at.round())).collect();
        assert_eq!(timeline, [(urgent, 0.0), (normal, 1.0), (urgent, 9.0)]);
    }
}

//! The output on stdout and stderr: results in whole files, or as they are found in a pipe;
//! messages in whole lines.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::mem;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use uthread::sync::{Condvar, Mutex, MutexGuard};

use crate::plan::Print;

/// Erases the line of the cursor.
const ERASE: &[u8] = b"\r\x1b[K";

/// Size of the text that may wait to be written. Readers that have more wait until less is left.
const UNWRITTEN_MAX: usize = 1024 * 1024;
/// Size of the results that may wait for the end of one that is printed in parts.
const BEHIND_MAX: usize = 8 * 1024 * 1024;

/// Stdout and stderr, shared by all readers.
///
/// One reader at a time writes to stdout. It also writes what others print in the meantime, so that
/// they go on searching.
pub(crate) struct Output {
    state: Mutex<State>,
    changed: Condvar,
    separator: Option<Vec<u8>>,
    messages: bool,
    has_failed: AtomicBool,
    is_closed: AtomicBool,
    is_interrupted: AtomicBool,
    /// `true` after either of these. Each write looks at it.
    is_ending: AtomicBool,
    /// Number of readers that may have found what is not printed.
    unprinted: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// `true` once a result has been printed, so that the next one follows a separator.
    has_printed: bool,
    /// Text in the order in which it is printed.
    unwritten: Vec<u8>,
    /// `true` while a reader writes, without the lock.
    is_writing: bool,
    /// The file whose result is being printed in parts.
    held_by: Option<u64>,
    /// Results of other files that are printed after it.
    behind: Vec<Vec<u8>>,
    /// Size of these results.
    behind_bytes: usize,
    /// The reader of the stream whose lines have been printed last.
    last_stream: Option<u64>,
    /// Results of files after one that is still searched, by their positions in the order.
    early: BTreeMap<u64, Vec<u8>>,
    /// The position of the next file in the order.
    next: u64,
    /// `true` once the search has ended early: nothing more is printed, as the results before may
    /// never come.
    is_stopped: bool,
    shows_progress: bool,
}

/// Where the result of a file goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    /// Anywhere. The number is of the reader.
    Any(u64),
    /// At this position of the order.
    Ordered(u64),
}

impl Output {
    pub(crate) fn new(print: &Print) -> Output {
        Output {
            state: Mutex::default(),
            changed: Condvar::new(),
            separator: print.separator.clone(),
            messages: print.messages,
            has_failed: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            is_interrupted: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            unprinted: AtomicUsize::new(0),
        }
    }

    /// Returns `true` if something could not be read or written.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Returns `true` if nobody reads what is printed, or if it cannot be written.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Returns `true` if a signal ends the process once what was found has been printed.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.is_interrupted.load(Ordering::Relaxed)
    }

    /// Returns `true` if nothing more has to be searched.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Ends the search of a file if that of all ends.
    ///
    /// # Errors
    ///
    /// `BrokenPipe` if nothing more has to be searched.
    pub(crate) fn unless_ending(&self) -> io::Result<()> {
        if self.is_ending() {
            Err(ErrorKind::BrokenPipe.into())
        } else {
            Ok(())
        }
    }

    /// Adds a reader that may find something.
    pub(crate) fn join(&self) {
        self.unprinted.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a reader that has printed what it has found.
    pub(crate) fn leave(&self) {
        // Pairs with the load in `has_unprinted`.
        self.unprinted.fetch_sub(1, Ordering::Release);
    }

    /// Returns `true` if a reader may have found what is not printed.
    pub(crate) fn has_unprinted(&self) -> bool {
        // Pairs with the decrement in `leave`.
        self.unprinted.load(Ordering::Acquire) > 0
    }

    /// Ends the search of all files. What was found so far no longer waits for its turn.
    pub(crate) fn interrupt(&self) {
        self.is_interrupted.store(true, Ordering::Relaxed);
        self.is_ending.store(true, Ordering::Relaxed);
        // Waits until those that have seen the old value wait, too.
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Prints the results that wait for others, which do not come any more.
    pub(crate) fn print_waiting(&self) {
        let mut state = self.lock();
        self.add_behind(&mut state);
        for result in mem::take(&mut state.early).into_values() {
            self.add_result(&mut state, &result);
        }
        self.write(state);
        let is_writing = |state: &mut State| state.is_writing;
        drop(self.changed.wait_while(self.lock(), is_writing));
    }

    /// Prints the complete result of a file, which may be empty. Takes a result that waits for
    /// others.
    pub(crate) fn print(&self, destination: Destination, result: &mut Vec<u8>) {
        let mut state = self.lock();
        match destination {
            Destination::Any(_) => {
                state = self.wait_while(state, |state| state.behind_bytes >= BEHIND_MAX);
                if state.held_by.is_some() && self.is_running(&state) {
                    state.behind_bytes += result.len();
                    state.behind.push(mem::take(result));
                    return;
                }
                self.add_result(&mut state, result);
            }
            Destination::Ordered(position) => {
                state.early.insert(position, mem::take(result));
                self.add_early(&mut state);
                self.changed.notify_all();
            }
        }
        self.write(state);
    }

    /// Prints a part of a result that is too large to be kept, once it is its turn. No other result
    /// is printed until [`end`](Output::end).
    pub(crate) fn print_part(&self, destination: Destination, part: &[u8]) {
        let mut state = self.lock();
        let holder = match destination {
            Destination::Any(reader) => reader,
            Destination::Ordered(position) => position,
        };
        if state.held_by == Some(holder) {
            state.unwritten.extend_from_slice(part);
            return self.write(state);
        }
        state = self.wait_while(state, |state| match destination {
            Destination::Ordered(position) => state.held_by.is_some() || state.next != position,
            Destination::Any(_) => state.held_by.is_some(),
        });
        state.held_by = Some(holder);
        self.add_result(&mut state, part);
        self.write(state);
    }

    /// Prints lines of a stream, which may never end, so that others do not wait for its end.
    /// Theirs may have been printed since the last lines; then `heading` is repeated.
    pub(crate) fn print_lines(&self, reader: u64, heading: &[u8], lines: &[u8]) {
        let mut state = self.wait_while(self.lock(), |state| state.held_by.is_some());
        let separator = self.separator.as_deref();
        let separator = separator.filter(|separator| !separator.is_empty());
        // Such lines have a separator of their own.
        let is_separate =
            separator.is_some_and(|separator| lines.starts_with(&[separator, b"\n"].concat()));
        if state.last_stream == Some(reader) || is_separate {
            state.unwritten.extend_from_slice(lines);
        } else {
            self.add_result(&mut state, &[heading, lines].concat());
        }
        state.last_stream = Some(reader);
        self.write(state);
    }

    /// Prints text that is no result, after all results.
    pub(crate) fn print_as_is(&self, text: &[u8]) {
        let mut state = self.lock();
        state.unwritten.extend_from_slice(text);
        self.write(state);
    }

    /// Ends a result that was printed in parts.
    pub(crate) fn end(&self, destination: Destination) {
        let mut state = self.lock();
        state.held_by = None;
        self.add_behind(&mut state);
        if let Destination::Ordered(_) = destination {
            state.next += 1;
            self.add_early(&mut state);
        }
        self.changed.notify_all();
        self.write(state);
    }

    /// Waits until the file at this position is among the next `ahead` ones to be printed.
    pub(crate) fn wait_for_room(&self, position: u64, ahead: u64) {
        let is_far = |state: &mut State| position >= state.next + ahead && !state.is_stopped;
        drop(self.changed.wait_while(self.lock(), is_far));
    }

    /// Ends all waiting, as the search ends early.
    pub(crate) fn stop(&self) {
        self.lock().is_stopped = true;
        self.changed.notify_all();
    }

    /// Reports what could not be read.
    pub(crate) fn fail(&self, message: impl Display) {
        self.has_failed.store(true, Ordering::Relaxed);
        self.tell(message);
    }

    /// Prints a message, unless the user wants none.
    pub(crate) fn tell(&self, message: impl Display) {
        if self.messages {
            let mut state = self.lock();
            erase_progress(&mut state);
            // A closed stderr does not end the search.
            let _ = writeln!(io::stderr(), "uthread: {message}");
        }
    }

    /// Shows a line that the next output replaces; an empty one erases it.
    pub(crate) fn show_progress(&self, line: &str) {
        let mut state = self.lock();
        erase_progress(&mut state);
        if !line.is_empty() && state.held_by.is_none() && !state.is_writing {
            let _ = io::stderr().write_all(line.as_bytes());
            state.shows_progress = true;
        }
    }

    fn add_early(&self, state: &mut State) {
        while state.held_by.is_none()
            && let Some(result) = state.early.remove(&state.next)
        {
            self.add_result(state, &result);
            state.next += 1;
        }
    }

    fn add_behind(&self, state: &mut State) {
        state.behind_bytes = 0;
        for result in mem::take(&mut state.behind) {
            self.add_result(state, &result);
        }
    }

    fn add_result(&self, state: &mut State, result: &[u8]) {
        if result.is_empty() {
            return;
        }
        if let Some(separator) = &self.separator
            && state.has_printed
        {
            state.unwritten.extend_from_slice(separator);
            state.unwritten.push(b'\n');
        }
        state.has_printed = true;
        state.last_stream = None;
        state.unwritten.extend_from_slice(result);
    }

    /// Writes what is to be printed, or leaves it to the reader that writes.
    fn write(&self, state: MutexGuard<'_, State>) {
        let is_full = |state: &State| state.is_writing && state.unwritten.len() > UNWRITTEN_MAX;
        let mut state = self.wait_while(state, is_full);
        if state.is_writing || state.unwritten.is_empty() {
            return;
        }
        let mut text = Vec::new();
        while !state.unwritten.is_empty() {
            if self.is_closed() || state.is_stopped {
                state.unwritten.clear();
                break;
            }
            erase_progress(&mut state);
            text.clear();
            mem::swap(&mut text, &mut state.unwritten);
            state.is_writing = true;
            drop(state);
            self.changed.notify_all();
            let mut stdout = uthread::io::stdout().lock();
            let result = stdout.write_all(&text).and_then(|()| stdout.flush());
            drop(stdout);
            if let Err(error) = result {
                self.fail_to_write(&error);
            }
            state = self.lock();
            state.is_writing = false;
        }
        // Keeps the memory for the next results.
        if state.unwritten.capacity() == 0 {
            text.clear();
            text.shrink_to(UNWRITTEN_MAX);
            state.unwritten = text;
        }
        drop(state);
        self.changed.notify_all();
    }

    fn fail_to_write(&self, error: &io::Error) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.is_ending.store(true, Ordering::Relaxed);
        // `BrokenPipe`: the reader of the output has closed it, which is no failure.
        if error.kind() != ErrorKind::BrokenPipe {
            self.has_failed.store(true, Ordering::Relaxed);
            let _ = writeln!(io::stderr(), "uthread: cannot write to stdout: {error}");
        }
    }

    /// Returns `true` unless the search ends early, so that nobody waits.
    fn is_running(&self, state: &State) -> bool {
        !state.is_stopped && !self.is_interrupted()
    }

    /// Waits while the condition holds, unless the search ends.
    fn wait_while<'a>(
        &self,
        state: MutexGuard<'a, State>,
        condition: impl Fn(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        let waits = |state: &mut State| condition(state) && self.is_running(state);
        let waited = self.changed.wait_while(state, waits);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn erase_progress(state: &mut State) {
    if mem::take(&mut state.shows_progress) {
        let _ = io::stderr().write_all(ERASE);
    }
}

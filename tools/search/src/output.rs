//! The output on stdout and stderr: results in whole files, or as they are found in a pipe; messages in whole lines.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use uthread::sync::{Condvar, Mutex, MutexGuard};

use crate::plan::Print;

/// Erases the line of the cursor.
const ERASE: &[u8] = b"\r\x1b[K";

/// Stdout and stderr, shared by all readers.
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
    /// The file whose result is being printed in parts.
    held_by: Option<u64>,
    /// The reader of the stream whose lines have been printed last.
    last_stream: Option<u64>,
    /// Results of files behind one that is still searched, by their positions in the order.
    early: BTreeMap<u64, Vec<u8>>,
    /// The position of the next file in the order.
    next: u64,
    /// `true` once the search has ended early: nothing more is printed, as the results before may never come.
    is_stopped: bool,
    shows_progress: bool,
}

/// Where the result of a file goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
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
        match self.is_ending() {
            true => Err(ErrorKind::BrokenPipe.into()),
            false => Ok(()),
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

    /// Prints the results that wait for earlier ones, which do not come any more.
    pub(crate) fn print_early(&self) {
        let mut state = self.lock();
        for result in std::mem::take(&mut state.early).into_values() {
            self.write_result(&mut state, &result);
        }
    }

    /// Prints the complete result of a file, which may be empty. Takes a result that waits for its turn.
    pub(crate) fn print(&self, place: Place, result: &mut Vec<u8>) {
        let mut state = self.lock();
        match place {
            Place::Any(_) => {
                state = self.wait_until_free(state);
                self.write_result(&mut state, result);
            }
            Place::Ordered(position) => {
                state.early.insert(position, std::mem::take(result));
                self.write_early(&mut state);
                drop(state);
                self.changed.notify_all();
            }
        }
    }

    /// Prints a part of a result that is too large to be kept, once it is its turn. No other result is printed until
    /// [`end`](Output::end).
    pub(crate) fn print_part(&self, place: Place, part: &[u8]) {
        let mut state = self.lock();
        let holder = match place {
            Place::Any(reader) => reader,
            Place::Ordered(position) => position,
        };
        if state.held_by == Some(holder) {
            return self.write(&mut state, part);
        }
        loop {
            state = self.wait_until_free(state);
            match place {
                _ if state.is_stopped => return,
                Place::Ordered(position) if state.next != position && !self.is_interrupted() => {
                    state = self.wait(state);
                }
                _ => break,
            }
        }
        state.held_by = Some(holder);
        self.write_result(&mut state, part);
    }

    /// Prints lines of a stream, which may never end, so that others do not wait for its end. Theirs may have been printed since the
    /// last lines; then `heading` is repeated.
    pub(crate) fn print_lines(&self, reader: u64, heading: &[u8], lines: &[u8]) {
        let mut state = self.wait_until_free(self.lock());
        let separator = self.separator.as_deref();
        let separator = separator.filter(|separator| !separator.is_empty());
        // Such lines have a separator of their own.
        let is_separate =
            separator.is_some_and(|separator| lines.starts_with(&[separator, b"\n"].concat()));
        if state.last_stream == Some(reader) || is_separate {
            self.write(&mut state, lines);
        } else {
            self.write_result(&mut state, &[heading, lines].concat());
        }
        state.last_stream = Some(reader);
    }

    /// Prints text that is no result, after all results.
    pub(crate) fn print_as_is(&self, text: &[u8]) {
        let mut state = self.lock();
        self.write(&mut state, text);
    }

    /// Ends a result that was printed in parts.
    pub(crate) fn end(&self, place: Place) {
        let mut state = self.lock();
        state.held_by = None;
        if let Place::Ordered(_) = place {
            state.next += 1;
            self.write_early(&mut state);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until the file at this position is among the next `ahead` ones to be printed.
    pub(crate) fn wait_for_room(&self, position: u64, ahead: u64) {
        let mut state = self.lock();
        while position >= state.next + ahead && !state.is_stopped {
            state = self.wait(state);
        }
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
        if !line.is_empty() && state.held_by.is_none() {
            let _ = io::stderr().write_all(line.as_bytes());
            state.shows_progress = true;
        }
    }

    fn write_early(&self, state: &mut State) {
        while state.held_by.is_none()
            && let Some(result) = state.early.remove(&state.next)
        {
            self.write_result(state, &result);
            state.next += 1;
        }
    }

    fn write_result(&self, state: &mut State, result: &[u8]) {
        if result.is_empty() {
            return;
        }
        if let Some(separator) = &self.separator
            && state.has_printed
        {
            self.write(state, &[separator, &b"\n"[..]].concat());
        }
        state.has_printed = true;
        state.last_stream = None;
        self.write(state, result);
    }

    fn write(&self, state: &mut State, bytes: &[u8]) {
        if self.is_closed() || state.is_stopped {
            return;
        }
        erase_progress(state);
        let mut stdout = uthread::io::stdout().lock();
        let Err(error) = stdout.write_all(bytes).and_then(|()| stdout.flush()) else {
            return;
        };
        self.is_closed.store(true, Ordering::Relaxed);
        self.is_ending.store(true, Ordering::Relaxed);
        // Whoever reads the output has enough.
        if error.kind() != ErrorKind::BrokenPipe {
            self.has_failed.store(true, Ordering::Relaxed);
            let _ = writeln!(io::stderr(), "uthread: cannot write to stdout: {error}");
        }
    }

    fn wait_until_free<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while state.held_by.is_some() && !state.is_stopped && !self.is_interrupted() {
            state = self.wait(state);
        }
        state
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let woken = self.changed.wait(state);
        woken.unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn erase_progress(state: &mut State) {
    if std::mem::take(&mut state.shows_progress) {
        let _ = io::stderr().write_all(ERASE);
    }
}

//! Counting lines in a large file: all idle workers search parts of it.
//!
//! A part begins and ends with lines. It has the lines that begin after its own position in the
//! file, up to the position of the next part, and those of the first part begin at once. So each
//! line belongs to one part, and a worker needs no other part to find its lines.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use grep_printer::SummaryKind;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, SearcherBuilder, Sink, SinkMatch};
use memchr::memchr;
use uthread::fs::{AlignedBuffer, File};
use uthread::thread::Scope;

use crate::search::Search;

/// The distance of the parts: what a worker reads stays in the cache of its CPU until it is
/// searched.
const PART_BYTES: usize = 256 * 1024;
/// Read after a part, for the end of its last line.
const TAIL_BYTES: usize = 4 * 1024;
/// Maximum length of the last line of a part after the part.
const TAIL_BYTES_MAX: usize = 64 * 1024;
/// Minimum size of a file that is searched in parts. One worker has searched a smaller one before
/// another has woken up.
const FILE_BYTES_MIN: u64 = 4 << 20;
/// How far behind a match a stream may have read: a buffer that the longest line of a part has made
/// grow.
const BEHIND_MATCH_BYTES: u64 = 3 * PART_BYTES as u64;

/// Counts the matching lines of a large file, which several workers search. Returns `None` if it is
/// to be searched as a stream.
pub(crate) fn count_lines(
    search: &Search<'_>,
    matcher: &RegexMatcher,
    kind: SummaryKind,
    file: &File,
    binary: Option<u8>,
) -> io::Result<Option<u64>> {
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() < FILE_BYTES_MIN {
        return Ok(None);
    }
    let parts = Parts {
        search,
        file,
        matcher,
        binary,
        any: kind != SummaryKind::Count,
    };
    parts.count_lines(metadata.len())
}

/// A large file, and the search for its matching lines.
struct Parts<'a> {
    search: &'a Search<'a>,
    file: &'a File,
    matcher: &'a RegexMatcher,
    /// The byte that makes the file binary.
    binary: Option<u8>,
    /// `true` if it does not matter how many lines match.
    any: bool,
}

/// The progress of a search, shared by the fibers that search parts.
struct State {
    searcher: SearcherBuilder,
    /// The position of the next part.
    next: AtomicU64,
    /// Parts from this position on are not searched.
    end: AtomicU64,
    lines: AtomicU64,
    is_stream: AtomicBool,
    error: Mutex<Option<io::Error>>,
    /// The workers that search parts, each by one fiber.
    workers: Mutex<Vec<ThreadId>>,
}

impl Parts<'_> {
    /// Returns the number of lines that match in a file of this size, or some of them if any is
    /// enough. Returns `None` if the file is to be searched as a stream instead: it is binary,
    /// begins with a byte order mark, or has a very long line.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    fn count_lines(&self, size: u64) -> io::Result<Option<u64>> {
        let mut searcher = self.search.plan.searcher.clone();
        searcher
            .bom_sniffing(false)
            .line_number(false)
            .before_context(0)
            .after_context(0);
        let state = State {
            searcher,
            next: AtomicU64::new(0),
            end: AtomicU64::new(size),
            lines: AtomicU64::new(0),
            is_stream: AtomicBool::new(false),
            error: Mutex::new(None),
            workers: Mutex::default(),
        };
        uthread::scope(|scope| self.run(scope, &state));
        let error = state.error.into_inner();
        if let Some(error) = error.unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        Ok((!state.is_stream.into_inner()).then_some(state.lines.into_inner()))
    }

    /// Searches parts until none is left, unless a fiber of this worker does.
    fn run<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, state: &'scope State) {
        if !state.join() {
            return;
        }
        if let Err(error) = self.try_run(scope, state) {
            state.stop_at(0);
            let mut first = state.error.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(error);
        }
    }

    fn try_run<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        state: &'scope State,
    ) -> io::Result<()> {
        let mut buffer = AlignedBuffer::of_pages(PART_BYTES + TAIL_BYTES_MAX)?;
        let mut searcher = state.searcher.build();
        loop {
            let position = state.next.fetch_add(PART_BYTES as u64, Ordering::Relaxed);
            if position >= state.end.load(Ordering::Relaxed) || self.search.is_over() {
                return Ok(());
            }
            let Some(lines) = self.read_lines(&mut buffer, position)? else {
                state.is_stream.store(true, Ordering::Relaxed);
                state.stop_at(0);
                return Ok(());
            };
            // Nobody knows whether another worker is idle. If one is, it steals the fiber during
            // the search.
            if state.workers().len() < self.search.workers {
                scope.spawn(move || self.run(scope, state));
            }
            let bytes = lines.len() as u64;
            self.search.bytes.fetch_add(bytes, Ordering::Relaxed);
            let mut counter = Counter {
                lines: 0,
                any: self.any,
            };
            searcher.search_slice(self.matcher, &buffer[lines], &mut counter)?;
            state.lines.fetch_add(counter.lines, Ordering::Relaxed);
            if self.any && counter.lines > 0 {
                // A stream finds no match where it has read the byte of a binary file after it.
                state.stop_at(match self.binary {
                    Some(_) => position + BEHIND_MATCH_BYTES,
                    None => 0,
                });
            }
        }
    }

    /// Reads the lines of a part. Returns where they are in the buffer, or `None` if the file is to
    /// be searched as a stream.
    fn read_lines(&self, buffer: &mut [u8], position: u64) -> io::Result<Option<Range<usize>>> {
        let is_first = position == 0;
        let tail = PART_BYTES + TAIL_BYTES;
        let mut count = self.read(&mut buffer[..tail], position)?;
        let is_binary = |text| self.binary.is_some_and(|byte| memchr(byte, text).is_some());
        let text = &buffer[..count];
        if is_first && has_byte_order_mark(text) || is_binary(text) {
            return Ok(None);
        }
        let start = match memchr(b'\n', &text[..count.min(PART_BYTES)]) {
            _ if is_first => 0,
            Some(end) => end + 1,
            None => return Ok(Some(0..0)),
        };
        let mut end = line_end(text);
        if end.is_none() && count == tail {
            count += self.read(&mut buffer[tail..], position + tail as u64)?;
            end = line_end(&buffer[..count]);
        }
        let is_whole = count < buffer.len();
        let end = end.or(is_whole.then_some(count));
        Ok(end.map(|end| start..end))
    }

    /// Fills the buffer unless the file ends before.
    fn read(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut count = 0;
        while count < buffer.len() {
            match self
                .file
                .read_at(&mut buffer[count..], position + count as u64)?
            {
                0 => break,
                more => count += more,
            }
        }
        Ok(count)
    }
}

impl State {
    /// Adds the worker of the calling fiber. Returns `false` if another one of its fibers has done
    /// so.
    fn join(&self) -> bool {
        let worker = thread::current().id();
        let mut workers = self.workers();
        let is_first = !workers.contains(&worker);
        if is_first {
            workers.push(worker);
        }
        is_first
    }

    fn workers(&self) -> MutexGuard<'_, Vec<ThreadId>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop_at(&self, position: u64) {
        self.end.fetch_min(position, Ordering::Relaxed);
    }
}

/// Returns the end of the first line that ends after the part.
fn line_end(text: &[u8]) -> Option<usize> {
    let behind = text.get(PART_BYTES..)?;
    Some(PART_BYTES + memchr(b'\n', behind)? + 1)
}

/// Returns `true` for a text that a stream would decode.
fn has_byte_order_mark(text: &[u8]) -> bool {
    let marks: [&[u8]; 3] = [b"\xEF\xBB\xBF", b"\xFF\xFE", b"\xFE\xFF"];
    marks.iter().any(|mark| text.starts_with(mark))
}

/// Counts lines.
struct Counter {
    lines: u64,
    any: bool,
}

impl Sink for Counter {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, _: &SinkMatch<'_>) -> io::Result<bool> {
        self.lines += 1;
        Ok(!self.any)
    }
}

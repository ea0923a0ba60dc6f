//! A log on stdout, written in the background.
//!
//! A fiber appends a line to a bounded buffer under a short lock; an OS thread writes the buffer.
//! When the buffer is full, fibers wait. So a slow reader slows down the server, and no line is
//! lost. Lines are lost while stdout fails, for example on a full disk or without a reader; the log
//! goes on as soon as it takes lines again.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
// The writer blocks on stdout for any time, so it is an OS thread, not a fiber.
use std::thread as native;
use std::time::Duration;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, write};
use uthread::sleep;

use crate::args::LogFormat;
use crate::output::tell;

/// Unwritten lines: about 10,000, a tenth of a second at full speed.
const PENDING_BYTES_MAX: usize = 1024 * 1024;
/// Fill level at which the writer wakes early, so that connections need not wait.
const PENDING_BYTES_URGENT: usize = PENDING_BYTES_MAX / 2;
/// Time to collect lines after the first one: it bounds both the delay and the wake-ups per second.
const GATHER_TIME: Duration = Duration::from_millis(20);
/// Interval at which a connection checks for room.
const FULL_PAUSE: Duration = Duration::from_millis(1);
/// Time to wait at the end of the program for stdout to accept the last lines.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct LineLog {
    pub(crate) format: LogFormat,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    pending: Mutex<Pending>,
    filled: Condvar,
    finished: Condvar,
}

#[derive(Debug, Default)]
struct Pending {
    lines: Vec<u8>,
    /// Set when no more lines are accepted, because the program ends.
    closed: bool,
    finished: bool,
}

impl LineLog {
    /// Starts the writer; returns `None` if logging is off.
    pub(crate) fn start(format: LogFormat) -> anyhow::Result<Option<LineLog>> {
        if format == LogFormat::Off {
            return Ok(None);
        }
        let started = LineLog::start_on(io::stdout(), format);
        started.context("cannot start the access log").map(Some)
    }

    fn start_on(stream: impl AsFd + Send + 'static, format: LogFormat) -> io::Result<LineLog> {
        let shared = Arc::new(Shared::default());
        let writer_shared = Arc::clone(&shared);
        native::Builder::new()
            .name("log".to_owned())
            .spawn(move || write_all(&writer_shared, stream))?;
        Ok(LineLog { format, shared })
    }

    /// Appends a line, which ends with a line break.
    pub(crate) fn append(&self, line: &[u8]) {
        while !self.shared.try_append(line) {
            sleep(FULL_PAUSE);
        }
    }

    /// Writes the pending lines and stops. A stdout that accepts nothing delays the end only for a
    /// bounded time.
    pub(crate) fn finish(&self) {
        let mut pending = self.shared.lock();
        pending.closed = true;
        self.shared.filled.notify_one();
        let (_pending, wait) = self
            .shared
            .finished
            .wait_timeout_while(pending, FLUSH_TIME_MAX, |pending| !pending.finished)
            .unwrap_or_else(PoisonError::into_inner);
        if wait.timed_out() {
            tell("lost the end of the access log: stdout accepts no data");
        }
    }
}

impl Shared {
    /// Appends a line if there is room; returns true if the line was appended or the log is closed.
    fn try_append(&self, line: &[u8]) -> bool {
        let mut pending = self.lock();
        if pending.closed {
            return true;
        }
        let before = pending.lines.len();
        let after = before + line.len();
        if after > PENDING_BYTES_MAX {
            return false;
        }
        pending.lines.extend_from_slice(line);
        drop(pending);
        let urgent = before < PENDING_BYTES_URGENT && after >= PENDING_BYTES_URGENT;
        if before == 0 || urgent {
            self.filled.notify_one();
        }
        true
    }

    /// Exchanges the pending lines for the given empty buffer; returns false when there will be no
    /// more.
    fn take(&self, lines: &mut Vec<u8>) -> bool {
        let mut pending = self
            .filled
            .wait_while(self.lock(), |pending| {
                pending.lines.is_empty() && !pending.closed
            })
            .unwrap_or_else(PoisonError::into_inner);
        (pending, _) = self
            .filled
            .wait_timeout_while(pending, GATHER_TIME, |pending| {
                pending.lines.len() < PENDING_BYTES_URGENT && !pending.closed
            })
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut pending.lines, lines);
        !pending.closed
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the writer thread.
fn write_all(shared: &Shared, stream: impl AsFd) {
    let mut output = Output {
        stream,
        lost: 0,
        torn: false,
    };
    let mut lines = Vec::new();
    let mut more = true;
    while more {
        lines.clear();
        more = shared.take(&mut lines);
        if !lines.is_empty() {
            output.append(&lines);
        }
    }
    if output.lost > 0 {
        tell(format_args!(
            "lost {} of the access log",
            output.lost_lines()
        ));
    }
    let mut pending = shared.lock();
    pending.finished = true;
    shared.finished.notify_all();
}

/// The stream that lines are written to, which may fail for some time.
struct Output<S> {
    stream: S,
    /// Lines lost since the stream last took all.
    lost: u64,
    /// Set if the stream ends within a line.
    torn: bool,
}

impl<S: AsFd> Output<S> {
    /// Writes lines, or counts those that are lost.
    fn append(&mut self, lines: &[u8]) {
        let mut left = lines;
        match self.end_line().and_then(|()| self.write(&mut left)) {
            Ok(()) if self.lost == 0 => {}
            Ok(()) => {
                tell(format_args!(
                    "stdout takes the access log again: lost {}",
                    self.lost_lines()
                ));
                self.lost = 0;
            }
            Err(errno) => {
                if self.lost == 0 {
                    let error = io::Error::from(errno);
                    tell(format_args!(
                        "losing lines of the access log: cannot write to stdout: {error}"
                    ));
                }
                self.lost += left.iter().filter(|&&byte| byte == b'\n').count() as u64;
                let written = &lines[..lines.len() - left.len()];
                self.torn |= written.last().is_some_and(|&last| last != b'\n');
            }
        }
    }

    /// Ends the line that an earlier failure has cut off.
    fn end_line(&mut self) -> Result<(), Errno> {
        if self.torn {
            self.write(&mut &b"\n"[..])?;
            self.torn = false;
        }
        Ok(())
    }

    /// Writes `bytes`, and shortens them to what is not yet written.
    fn write(&self, bytes: &mut &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            match write(&self.stream, bytes) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => *bytes = &bytes[count..],
                Err(Errno::INTR) => {}
                // Another process may have made a shared pipe or terminal non-blocking.
                Err(Errno::AGAIN) => {
                    let mut stream = [PollFd::new(&self.stream, PollFlags::OUT)];
                    // An interrupted wait is repeated after the next attempt.
                    let _ = poll(&mut stream, None);
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn lost_lines(&self) -> String {
        let plural = if self.lost == 1 { "" } else { "s" };
        format!("{} line{plural}", self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read, pipe};

    use rustix::fs::{OFlags, fcntl_setfl};
    use rustix::pipe::fcntl_setpipe_size;

    #[test]
    fn a_full_non_blocking_pipe_loses_nothing() {
        const LINES: usize = 1000;
        let (reader, writer) = pipe().unwrap();
        fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        let bytes = fcntl_setpipe_size(&writer, 4096).unwrap();
        let line = [&[b'x'; 99][..], b"\n"].concat();
        assert!(LINES * line.len() > bytes, "the pipe takes all");
        let log = LineLog::start_on(writer, LogFormat::Text).unwrap();
        for _ in 0..LINES {
            log.append(&line);
        }
        let ended = native::spawn(move || log.finish());
        let mut found = Vec::new();
        BufReader::new(reader).read_to_end(&mut found).unwrap();
        ended.join().unwrap();
        assert!(found == line.repeat(LINES), "{} bytes", found.len());
    }

    #[test]
    fn a_line_that_was_cut_off_is_ended() {
        let (reader, writer) = pipe().unwrap();
        let mut output = Output {
            stream: writer,
            lost: 2,
            torn: true,
        };
        output.append(b"next\n");
        output.append(b"last\n");
        assert_eq!((output.lost, output.torn), (0, false));
        drop(output);
        let lines: Vec<_> = BufReader::new(reader).lines().map(Result::unwrap).collect();
        assert_eq!(lines, ["", "next", "last"]);
    }
}

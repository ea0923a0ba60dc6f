//! A log on stdout, written in the background.
//!
//! A fiber appends a line to a bounded buffer under a short lock; an OS thread writes the buffer.
//! When the buffer is full, fibers wait. So a slow reader slows down the server, and no line is
//! lost.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
// The writer blocks on stdout for any time, so it is an OS thread, not a fiber.
use std::thread as native;
use std::time::Duration;
use uthread::sleep;

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
    /// Set when no more lines are accepted: the program ends, or stdout is closed.
    closed: bool,
    finished: bool,
}

impl LineLog {
    /// Starts the writer.
    pub(crate) fn start() -> io::Result<LineLog> {
        let shared = Arc::new(Shared::default());
        let writer_shared = Arc::clone(&shared);
        native::Builder::new()
            .name("log".to_owned())
            .spawn(move || write_all(&writer_shared))?;
        Ok(LineLog { shared })
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
fn write_all(shared: &Shared) {
    let mut lines = Vec::new();
    let mut more = true;
    while more {
        lines.clear();
        more = shared.take(&mut lines);
        let mut stdout = io::stdout().lock();
        if let Err(error) = stdout.write_all(&lines).and_then(|()| stdout.flush()) {
            tell(format_args!(
                "turned off the access log: cannot write to stdout: {error}"
            ));
            more = false;
        }
    }
    let mut pending = shared.lock();
    pending.closed = true;
    pending.finished = true;
    pending.lines = Vec::new();
    shared.finished.notify_all();
}

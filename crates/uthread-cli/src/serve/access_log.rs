//! The access log: one line per request on stdout, written in the background.
//!
//! A connection formats its line and appends it to a bounded buffer under a short lock; an OS thread writes the buffer.
//! When the buffer is full, connections wait. So a slow reader slows down the server, and no line is lost.

use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
// The writer blocks on stdout for any time, so it is an OS thread, not a fiber.
use std::thread as native;
use std::time::{Duration, Instant, SystemTime};
use uthread::sleep;

use super::scratch::Scratch;
use crate::args::LogFormat;
use crate::http::date;
use crate::http::request::{Request, Version};
use crate::http::response::{Status, push_decimal};
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

/// One request, as the log records it.
pub(crate) struct Record<'a> {
    pub(crate) client: IpAddr,
    /// `None` if the request was invalid.
    pub(crate) request: Option<&'a Request<'a, 'a>>,
    pub(crate) status: Status,
    /// `None` if the response was not sent completely.
    pub(crate) body_bytes: Option<u64>,
    /// Time when the head was complete, if the format contains durations.
    pub(crate) start: Option<Instant>,
}

#[derive(Debug)]
pub(crate) struct AccessLog {
    json: bool,
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

impl AccessLog {
    /// Starts the writer; returns `None` if logging is off.
    pub(crate) fn start(format: LogFormat) -> io::Result<Option<AccessLog>> {
        let json = match format {
            LogFormat::Common => false,
            LogFormat::Json => true,
            LogFormat::Off => return Ok(None),
        };
        let shared = Arc::new(Shared::default());
        let writer_shared = Arc::clone(&shared);
        native::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || write_all(&writer_shared))?;
        Ok(Some(AccessLog { json, shared }))
    }

    /// Returns the start time of a request, if the format contains durations.
    pub(crate) fn start_clock(&self) -> Option<Instant> {
        self.json.then(Instant::now)
    }

    pub(crate) fn append(&self, record: &Record<'_>) {
        let mut line = Scratch::take();
        if self.json {
            push_json(record, &mut line);
        } else {
            push_common(record, &date::now(), &mut line);
        }
        while !self.shared.try_append(&line) {
            sleep(FULL_PAUSE);
        }
    }

    /// Writes the pending lines and stops. A stdout that accepts nothing delays the end only for a bounded time.
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

    /// Exchanges the pending lines for the given empty buffer; returns false when there will be no more.
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

/// Appends a line in the Common Log Format: `client - - [date] "request" status bytes`.
fn push_common(record: &Record<'_>, now: &date::DateText, line: &mut Vec<u8>) {
    push_display(record.client, line);
    // Sun, 06 Nov 1994 08:49:37 GMT becomes 06/Nov/1994:08:49:37 +0000
    for piece in [
        b" - - [",
        &now[5..7],
        b"/",
        &now[8..11],
        b"/",
        &now[12..16],
        b":",
        &now[17..25],
        b" +0000] \"",
    ] {
        line.extend_from_slice(piece);
    }
    match record.request {
        Some(request) => {
            line.extend_from_slice(request.method_name.as_bytes());
            line.push(b' ');
            push_escaped(request.target.as_bytes(), b"\\x", line);
            line.push(b' ');
            line.extend_from_slice(version_name(request.version).as_bytes());
        }
        None => line.push(b'-'),
    }
    line.extend_from_slice(b"\" ");
    push_decimal(line, u64::from(record.status.code()));
    line.push(b' ');
    match record.body_bytes {
        Some(bytes) => push_decimal(line, bytes),
        None => line.push(b'-'),
    }
    line.push(b'\n');
}

fn push_json(record: &Record<'_>, line: &mut Vec<u8>) {
    line.extend_from_slice(b"{\"time\":\"");
    push_display(humantime::format_rfc3339_millis(SystemTime::now()), line);
    line.extend_from_slice(b"\",\"client\":\"");
    push_display(record.client, line);
    line.push(b'"');
    if let Some(request) = record.request {
        push_json_text("method", request.method_name.as_bytes(), line);
        push_json_text("target", request.target.as_bytes(), line);
        push_json_text("version", version_name(request.version).as_bytes(), line);
        for (key, field) in [("referer", "referer"), ("user_agent", "user-agent")] {
            if let Some(value) = request.single(field) {
                push_json_text(key, value, line);
            }
        }
    }
    line.extend_from_slice(b",\"status\":");
    push_decimal(line, u64::from(record.status.code()));
    if let Some(bytes) = record.body_bytes {
        line.extend_from_slice(b",\"bytes\":");
        push_decimal(line, bytes);
    }
    line.extend_from_slice(b",\"complete\":");
    push_display(record.body_bytes.is_some(), line);
    if let Some(start) = record.start {
        line.extend_from_slice(b",\"duration_us\":");
        push_display(start.elapsed().as_micros(), line);
    }
    line.extend_from_slice(b"}\n");
}

fn push_json_text(key: &str, value: &[u8], line: &mut Vec<u8>) {
    line.extend_from_slice(b",\"");
    line.extend_from_slice(key.as_bytes());
    line.extend_from_slice(b"\":\"");
    push_escaped(value, b"\\u00", line);
    line.push(b'"');
}

/// Appends a client's bytes. A byte that could end a string or a line, or control a terminal, becomes `escape` and two
/// hexadecimal digits.
fn push_escaped(bytes: &[u8], escape: &[u8], line: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for &byte in bytes {
        if matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\' {
            line.push(byte);
        } else {
            line.extend_from_slice(escape);
            line.push(DIGITS[usize::from(byte >> 4)]);
            line.push(DIGITS[usize::from(byte & 0xf)]);
        }
    }
}

fn version_name(version: Version) -> &'static str {
    match version {
        Version::Http10 => "HTTP/1.0",
        Version::Http11 => "HTTP/1.1",
    }
}

fn push_display(value: impl std::fmt::Display, line: &mut Vec<u8>) {
    write!(line, "{value}").expect("a vector takes every write");
}

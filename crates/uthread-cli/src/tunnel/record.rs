//! One connection, as the access log and the counters record it.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use serde::Serialize;

use super::failure::Failure;
use super::open::Admitted;
use crate::args::TunnelLog;
use crate::http::response::Status;
use crate::line_log::LineLog;
use crate::targets::Target;

#[derive(Debug)]
pub(crate) struct Record<'a> {
    pub(super) admitted: &'a Admitted,
    pub(crate) target: Option<Target>,
    pub(crate) address: Option<SocketAddr>,
    /// `None` if the client has not been told one.
    pub(crate) status: Option<Status>,
    /// Why there was no tunnel.
    pub(crate) failure: Option<String>,
    pub(crate) end: &'static str,
}

impl<'a> Record<'a> {
    pub(crate) fn new(admitted: &'a Admitted) -> Record<'a> {
        Record {
            admitted,
            target: None,
            address: None,
            status: None,
            failure: None,
            end: "",
        }
    }

    pub(crate) fn fail(&mut self, failure: &Failure) {
        self.status = Some(failure.status());
        self.failure = Some(failure.to_string());
    }

    /// Counts bytes that the client sent with its request.
    pub(crate) fn add_up(&self, count: u64) {
        self.admitted
            .progress
            .moved
            .up
            .fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn bytes_up(&self) -> u64 {
        self.admitted.progress.moved.up.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes_down(&self) -> u64 {
        self.admitted.progress.moved.down.load(Ordering::Relaxed)
    }
}

/// Names the cause of an error that ended a tunnel.
pub(crate) fn cause(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::NotConnected => "reset",
        io::ErrorKind::TimedOut => "unreachable",
        _ => "error",
    }
}

/// The access log: one line per connection, at its end.
#[derive(Debug)]
pub(crate) struct Log {
    json: bool,
    lines: LineLog,
}

/// A line of the log as JSON.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    client: String,
    target: Option<String>,
    address: Option<SocketAddr>,
    status: Option<u16>,
    end: &'a str,
    failure: Option<&'a str>,
    bytes_up: u64,
    bytes_down: u64,
    duration_us: u64,
}

impl Log {
    /// Starts the writer; returns `None` if logging is off.
    pub(crate) fn start(format: TunnelLog) -> io::Result<Option<Log>> {
        let json = match format {
            TunnelLog::Text => false,
            TunnelLog::Json => true,
            TunnelLog::Off => return Ok(None),
        };
        let lines = LineLog::start()?;
        Ok(Some(Log { json, lines }))
    }

    pub(crate) fn append(&self, record: &Record<'_>) {
        let line = Line {
            time: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            client: record.admitted.client.to_string(),
            target: record.target.as_ref().map(Target::to_string),
            address: record.address,
            status: record.status.map(Status::code),
            end: record.end,
            failure: record.failure.as_deref(),
            bytes_up: record.bytes_up(),
            bytes_down: record.bytes_down(),
            duration_us: record.admitted.start.elapsed().as_micros() as u64,
        };
        let mut bytes = Vec::new();
        let written = if self.json {
            serde_json::to_writer(&mut bytes, &line).map_err(io::Error::from)
        } else {
            write_text(&mut bytes, &line)
        };
        written.expect("a vector takes every write");
        bytes.push(b'\n');
        self.lines.append(&bytes);
    }

    /// Writes the pending lines and stops.
    pub(crate) fn finish(&self) {
        self.lines.finish();
    }
}

/// Writes fields in a fixed order, with `-` for those that are missing. The failure is last, as it
/// has spaces.
fn write_text(bytes: &mut Vec<u8>, line: &Line<'_>) -> io::Result<()> {
    let status = line
        .status
        .map_or_else(|| "-".to_owned(), |status| status.to_string());
    write!(
        bytes,
        "{} {} {} {status} {} up {} down {} in {:.3} s",
        line.time,
        line.client,
        line.target.as_deref().unwrap_or("-"),
        line.end,
        line.bytes_up,
        line.bytes_down,
        line.duration_us as f64 / 1e6,
    )?;
    match line.failure {
        Some(failure) => write!(bytes, ": {failure}"),
        None => Ok(()),
    }
}

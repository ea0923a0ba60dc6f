//! One tunnel or plain request, as the access log and the counters record it.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::{Instant, SystemTime};

use serde::Serialize;

use super::failure::Failure;
use super::open::Connection;
use crate::args::LogFormat;
use crate::line_log::LineLog;
use crate::targets::Target;

#[derive(Debug)]
pub(crate) struct Record<'a> {
    pub(crate) connection: &'a Connection,
    start: Instant,
    /// Bytes that the connection had moved before.
    before: (u64, u64),
    /// The user whose credentials were right.
    pub(crate) user: Option<String>,
    pub(crate) method: Option<String>,
    pub(crate) target: Option<Target>,
    /// The path of a plain request.
    pub(crate) path: Option<String>,
    pub(crate) address: Option<SocketAddr>,
    /// `None` if the client has not been told one.
    pub(crate) status: Option<u16>,
    /// Why there was no tunnel, or no response of the origin.
    pub(crate) failure: Option<String>,
    pub(crate) end: &'static str,
}

impl<'a> Record<'a> {
    pub(crate) fn new(connection: &'a Connection) -> Record<'a> {
        Record {
            connection,
            start: Instant::now(),
            before: connection.moved(),
            user: None,
            method: None,
            target: None,
            path: None,
            address: None,
            status: None,
            failure: None,
            end: "",
        }
    }

    pub(crate) fn fail(&mut self, failure: &Failure) {
        self.status = Some(failure.status().code());
        self.failure = Some(failure.to_string());
    }

    /// Returns the bytes moved for it in each direction.
    pub(crate) fn moved(&self) -> (u64, u64) {
        let (up, down) = self.connection.moved();
        (up - self.before.0, down - self.before.1)
    }
}

/// Names the cause of an error that ended a tunnel.
pub(crate) fn cause(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::NotConnected => "reset",
        io::ErrorKind::TimedOut => "unreachable",
        // Without the end that TLS states.
        io::ErrorKind::UnexpectedEof => "truncated",
        _ => "error",
    }
}

/// A line of the log as JSON.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    client: String,
    user: Option<&'a str>,
    method: Option<&'a str>,
    target: Option<String>,
    path: Option<&'a str>,
    address: Option<SocketAddr>,
    status: Option<u16>,
    end: &'a str,
    failure: Option<&'a str>,
    bytes_up: u64,
    bytes_down: u64,
    duration_us: u64,
}

/// Appends the line of a tunnel or request that has ended.
pub(crate) fn append(log: &LineLog, record: &Record<'_>) {
    let (bytes_up, bytes_down) = record.moved();
    let line = Line {
        time: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
        client: record.connection.client.to_string(),
        user: record.user.as_deref(),
        method: record.method.as_deref(),
        target: record.target.as_ref().map(Target::to_string),
        path: record.path.as_deref(),
        address: record.address,
        status: record.status,
        end: record.end,
        failure: record.failure.as_deref(),
        bytes_up,
        bytes_down,
        duration_us: record.start.elapsed().as_micros() as u64,
    };
    let mut bytes = Vec::new();
    let written = match log.format {
        LogFormat::Json => serde_json::to_writer(&mut bytes, &line).map_err(io::Error::from),
        LogFormat::Text | LogFormat::Off => write_text(&mut bytes, &line),
    };
    written.expect("a vector takes every write");
    bytes.push(b'\n');
    log.append(&bytes);
}

/// Writes fields in a fixed order, with `-` for those that are missing. The failure is last, as it
/// has spaces.
fn write_text(bytes: &mut Vec<u8>, line: &Line<'_>) -> io::Result<()> {
    let status = line
        .status
        .map_or_else(|| "-".to_owned(), |status| status.to_string());
    write!(
        bytes,
        "{} {} {} {} {}{} {status} {} up {} down {} in {:.3} s",
        line.time,
        line.client,
        line.user.unwrap_or("-"),
        line.method.unwrap_or("-"),
        line.target.as_deref().unwrap_or("-"),
        line.path.unwrap_or(""),
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

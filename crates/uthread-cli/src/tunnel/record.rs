//! One connection, as the access log and the counters record it.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::SystemTime;

use serde::Serialize;

use super::failure::Failure;
use super::open::Connection;
use crate::args::LogFormat;
use crate::http::response::Status;
use crate::line_log::LineLog;
use crate::targets::Target;

#[derive(Debug)]
pub(crate) struct Record<'a> {
    pub(crate) connection: &'a Connection,
    /// The user whose credentials were right.
    pub(crate) user: Option<String>,
    pub(crate) target: Option<Target>,
    pub(crate) address: Option<SocketAddr>,
    /// `None` if the client has not been told one.
    pub(crate) status: Option<Status>,
    /// Why there was no tunnel.
    pub(crate) failure: Option<String>,
    pub(crate) end: &'static str,
}

impl<'a> Record<'a> {
    pub(crate) fn new(connection: &'a Connection) -> Record<'a> {
        Record {
            connection,
            user: None,
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

/// A line of the log as JSON.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    client: String,
    user: Option<&'a str>,
    target: Option<String>,
    address: Option<SocketAddr>,
    status: Option<u16>,
    end: &'a str,
    failure: Option<&'a str>,
    bytes_up: u64,
    bytes_down: u64,
    duration_us: u64,
}

/// Appends the line of a connection that has ended.
pub(crate) fn append(log: &LineLog, record: &Record<'_>) {
    let connection = record.connection;
    let line = Line {
        time: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
        client: connection.client.to_string(),
        user: record.user.as_deref(),
        target: record.target.as_ref().map(Target::to_string),
        address: record.address,
        status: record.status.map(Status::code),
        end: record.end,
        failure: record.failure.as_deref(),
        bytes_up: connection.moved.up.get(),
        bytes_down: connection.moved.down.get(),
        duration_us: connection.start.elapsed().as_micros() as u64,
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
        "{} {} {} {} {status} {} up {} down {} in {:.3} s",
        line.time,
        line.client,
        line.user.unwrap_or("-"),
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

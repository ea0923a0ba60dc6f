//! The access log: one line per request, in the Common Log Format or as JSON.

use std::io::Write;
use std::time::{Instant, SystemTime};

use super::scratch::Scratch;
use crate::args::LogFormat;
use crate::http::date;
use crate::http::request::{Request, Version};
use crate::http::response::{Status, push_decimal};
use crate::line_log::LineLog;
use crate::stream::Client;

/// One request, as the log records it.
pub(crate) struct Record<'a> {
    pub(crate) client: Client,
    /// `None` if the request was invalid.
    pub(crate) request: Option<&'a Request<'a, 'a>>,
    pub(crate) status: Status,
    /// `None` if the response was not sent completely.
    pub(crate) body_bytes: Option<u64>,
    /// Time when the head was complete, if the format contains durations.
    pub(crate) start: Option<Instant>,
}

/// Returns the start time of a request, if the format contains durations.
pub(crate) fn start_clock(log: &LineLog) -> Option<Instant> {
    (log.format == LogFormat::Json).then(Instant::now)
}

/// Appends the line of a request.
pub(crate) fn append(log: &LineLog, record: &Record<'_>) {
    let mut line = Scratch::take();
    match log.format {
        LogFormat::Json => push_json(record, &mut line),
        LogFormat::Text | LogFormat::Off => push_common(record, &date::now(), &mut line),
    }
    log.append(&line);
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

/// Appends a client's bytes. A byte that could end a string or a line, or control a terminal,
/// becomes `escape` and two hexadecimal digits.
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

//! Counters, which a small server shows in the text format of Prometheus.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use uthread::net::{self, TcpListener, TcpStream};
use uthread::timeout;

use super::Server;
use super::record::Record;
use crate::http::response::Status;
use crate::input::Input;

/// Maximum number of connections beyond the limit that receive a 503 at the same time. Further ones are closed without a
/// response.
const REFUSALS_MAX: usize = 256;
/// Readers of the counters at a time.
const READERS_MAX: usize = 16;
/// Time for a reader to send its request and to receive the counters.
const READER_TIME_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct Counters {
    accepted: AtomicU64,
    refused: AtomicU64,
    established: AtomicU64,
    failed: AtomicU64,
    bytes_up: AtomicU64,
    bytes_down: AtomicU64,
    refusals: AtomicUsize,
}

impl Counters {
    pub(crate) fn accept(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns `true` if there is room for one more connection that is told why it was refused.
    pub(crate) fn begin_refusal(&self) -> bool {
        let is_room = self.refusals.fetch_add(1, Ordering::Relaxed) < REFUSALS_MAX;
        if !is_room {
            self.end_refusal();
        }
        is_room
    }

    pub(crate) fn end_refusal(&self) {
        self.refusals.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a connection that has ended.
    pub(crate) fn end(&self, record: &Record<'_>) {
        let outcome = match record.address {
            Some(_) => &self.established,
            None => &self.failed,
        };
        outcome.fetch_add(1, Ordering::Relaxed);
        self.bytes_up
            .fetch_add(record.bytes_up(), Ordering::Relaxed);
        self.bytes_down
            .fetch_add(record.bytes_down(), Ordering::Relaxed);
    }
}

/// Serves the counters to every client, whatever it requests.
pub(super) fn serve(listener: &TcpListener, server: &Arc<Server>) {
    // Ends only with the program: the listener is never shut down.
    let _ = net::serve(listener, READERS_MAX, |stream, _| {
        // An error means that the reader has gone or takes too long.
        let _ = timeout(READER_TIME_MAX, || respond(&stream, server));
    });
}

fn respond(mut stream: &TcpStream, server: &Server) -> io::Result<()> {
    // Whatever it requests, also in a malformed head.
    let _head = Input::new().receive_head(stream)?;
    let body = render(server);
    let status = Status::Ok;
    let response = format!(
        "HTTP/1.1 {} {}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        status.code(),
        status.phrase(),
        body.len(),
    );
    stream.write_all(response.as_bytes())
}

fn render(server: &Server) -> String {
    let counters = &server.counters;
    let mut text = String::new();
    let mut push = |name: &str, kind: &str, help: &str, value: u64| {
        let _ = write!(
            text,
            "# HELP uthread_tunnel_{name} {help}\n# TYPE uthread_tunnel_{name} {kind}\nuthread_tunnel_{name} {value}\n"
        );
    };
    let open = server.open.count() as u64;
    push(
        "connections_open",
        "gauge",
        "Connections that are open.",
        open,
    );
    for (name, help, counter) in [
        (
            "connections_total",
            "Connections that were accepted.",
            &counters.accepted,
        ),
        (
            "refused_total",
            "Connections beyond a limit.",
            &counters.refused,
        ),
        (
            "established_total",
            "Tunnels that were established and have ended.",
            &counters.established,
        ),
        (
            "failed_total",
            "Connections that ended without a tunnel.",
            &counters.failed,
        ),
        (
            "bytes_up_total",
            "Bytes from clients, of tunnels that have ended.",
            &counters.bytes_up,
        ),
        (
            "bytes_down_total",
            "Bytes from targets, of tunnels that have ended.",
            &counters.bytes_down,
        ),
    ] {
        push(name, "counter", help, counter.load(Ordering::Relaxed));
    }
    text
}

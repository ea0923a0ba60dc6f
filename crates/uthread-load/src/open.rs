//! The open loop: sends messages when they are due, whether or not earlier ones were answered.
//!
//! ```text
//!   pace: one fiber per worker --in flight--> receive: one fiber per connection
//!           |  bytes that a socket does not accept immediately
//!           '-------------------------------> flush: one fiber while there are such bytes
//! ```
//!
//! So a late response does not delay a send, and a connection that accepts nothing does not delay
//! the others.

use std::mem;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::SendFlags;
use uthread::net::TcpStream;
use uthread::sync::Mutex;
use uthread::thread::{Scope, is_cancelled};
use uthread::yield_now;

use crate::drive::Drive;
use crate::failure::{Failure, Kind};
use crate::link::{self, Flight, Inbound, Link};
use crate::pacer::Pacer;
use crate::task::Slot;

/// Maximum number of messages to send before looking at responses, if more are due: few, so that no
/// response waits long.
const BURST_MAX: usize = 64;

/// State of a connection that the sender and the receiver share.
pub(crate) struct Line {
    index: u64,
    flight: Flight,
    /// `None` while the connection is down.
    outbound: Option<Outbound>,
}

struct Outbound {
    stream: Arc<TcpStream>,
    /// Bytes due that the socket has not accepted. Bounded by the messages that fall due until the
    /// oldest one times out.
    backlog: Vec<u8>,
    /// True while a fiber flushes the backlog.
    is_flushing: bool,
}

impl Line {
    /// Takes over a connection that was opened before the run.
    pub(crate) fn of(slot: &mut Slot) -> Line {
        let mut line = Line {
            index: slot.index,
            flight: Flight::default(),
            outbound: None,
        };
        if let Some(link) = &mut slot.link {
            line.take(link);
        }
        line
    }

    /// Makes `link` the connection of this line.
    fn take(&mut self, link: &mut Link) {
        self.flight = mem::take(&mut link.flight);
        self.outbound = Some(Outbound {
            stream: Arc::clone(&link.stream),
            backlog: Vec::new(),
            is_flushing: false,
        });
    }
}

/// Sends each message when it is due, on the next connection, until the run is over.
pub(crate) fn pace<'scope>(
    scope: &'scope Scope<'scope, '_>,
    drive: &'scope Drive<'_>,
    pacer: &Pacer,
    dues: impl Iterator<Item = Instant>,
    lines: &'scope [Mutex<Line>],
) {
    let mut message = Vec::new();
    let mut burst = 0;
    for (due, line) in dues.zip(lines.iter().cycle()) {
        let mut now = Instant::now();
        while due > now {
            if drive.clock.is_over(due) {
                return;
            }
            if let Err(error) = pacer.wait(due) {
                return drive.fail(Failure::of("wait", &error));
            }
            (now, burst) = (Instant::now(), 0);
        }
        if drive.clock.is_over(due) {
            return;
        }
        if burst == BURST_MAX {
            yield_now();
            burst = 0;
        }
        burst += 1;
        send(scope, drive, line, due, &mut message);
    }
}

/// Sends the due messages of one connection, as far as its socket accepts them immediately.
fn send<'scope>(
    scope: &'scope Scope<'scope, '_>,
    drive: &'scope Drive<'_>,
    line: &'scope Mutex<Line>,
    due: Instant,
    message: &mut Vec<u8>,
) {
    drive.note_due();
    if due.elapsed() >= drive.timeout || drive.is_ending() {
        let late = "the generator had no time to send it";
        return drive.note_unsent(Failure::new(Kind::TimedOut, late));
    }
    let mut held = line.lock().unwrap();
    let Line {
        index,
        flight,
        outbound: Some(outbound),
    } = &mut *held
    else {
        let down = "a request was due while its connection was down";
        return drive.note_unsent(Failure::new(Kind::NotConnected, down));
    };
    message.clear();
    let number = flight.begin(due);
    drive.exchange.push_message(*index, number, message);
    let sent = if outbound.is_flushing {
        Ok(0)
    } else {
        send_now(&outbound.stream, message)
    };
    drive.count_sent(due);
    match sent {
        Ok(count) if count == message.len() => {}
        Ok(count) => {
            outbound.backlog.extend_from_slice(&message[count..]);
            if !mem::replace(&mut outbound.is_flushing, true) {
                let stream = Arc::clone(&outbound.stream);
                scope.spawn(move || flush(line, &stream));
            }
        }
        // The receiver sees the error, too, and reports it.
        Err(_) => drop(outbound.stream.shutdown(Shutdown::Both)),
    }
}

/// Sends as many bytes as the socket accepts.
fn send_now(stream: &TcpStream, message: &[u8]) -> rustix::io::Result<usize> {
    match rustix::net::send(stream, message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        sent => sent,
    }
}

/// Sends the backlog of a connection until it is empty.
fn flush(line: &Mutex<Line>, stream: &Arc<TcpStream>) {
    loop {
        let mut held = line.lock().unwrap();
        let outbound = held.outbound.as_mut();
        // After a failure another connection may have taken its place.
        let Some(outbound) = outbound.filter(|outbound| Arc::ptr_eq(&outbound.stream, stream))
        else {
            return;
        };
        let messages = mem::take(&mut outbound.backlog);
        outbound.is_flushing = !messages.is_empty();
        drop(held);
        if messages.is_empty() {
            return;
        }
        if link::send(stream, &messages).is_err() {
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
    }
}

/// Receives on one connection, and reopens it after failures, until the end of the run cancels this
/// fiber.
pub(crate) fn receive(drive: &Drive<'_>, slot: &mut Slot, line: &Mutex<Line>) {
    loop {
        let Some(mut link) = drive.link(slot) else {
            if drive.clock.is_over(Instant::now()) {
                return;
            }
            continue;
        };
        let mut held = line.lock().unwrap();
        if held.outbound.is_none() {
            held.take(&mut link);
        }
        drop(held);
        let left = take_answers(
            drive,
            &mut link.inbound,
            &link.stream,
            line,
            &mut slot.served,
        );
        let mut held = line.lock().unwrap();
        held.outbound = None;
        link.flight = mem::take(&mut held.flight);
        drop(held);
        let unanswered = link.flight.len();
        if left.is_err() && drive.is_ending() && unanswered == 0 {
            slot.link = Some(link);
            return;
        }
        // Ends the fiber that flushes the backlog, if there is one.
        let _ = link.stream.shutdown(Shutdown::Both);
        match left {
            Ok(()) => drive.note_closing(unanswered),
            Err(failure) => drive.note_broken(failure, unanswered),
        }
        if is_cancelled() {
            return;
        }
    }
}

/// Receives responses; returns when the server closes the connection in order.
fn take_answers(
    drive: &Drive<'_>,
    inbound: &mut Inbound,
    stream: &TcpStream,
    line: &Mutex<Line>,
    served: &mut u64,
) -> Result<(), Failure> {
    loop {
        let patience = line
            .lock()
            .unwrap()
            .flight
            .patience(Instant::now(), drive.timeout);
        let patience = patience.ok_or_else(|| link::unanswered(drive.timeout))?;
        // Makes no system call.
        let bounded = stream.set_read_timeout(Some(patience));
        bounded.map_err(|error| Failure::of("receive", &error))?;
        match inbound.receive(stream) {
            // Nothing may have been in flight for most of that time: check again.
            Err(failure) if failure.kind == Kind::TimedOut => continue,
            received => received?,
        }
        let now = Instant::now();
        loop {
            let mut held = line.lock().unwrap();
            let Some(answer) = inbound.take_answer(held.flight.is_empty())? else {
                break;
            };
            let due = held.flight.end();
            drop(held);
            *served += due.map_or(0, |due| u64::from(drive.count(due, now)));
            if answer.closes {
                return Ok(());
            }
        }
    }
}

//! The network between the hosts of a world.
//!
//! Sockets are the kernel's, and receive from them what has arrived: so a program can wait for them in any
//! way. What is sent travels here until it is due, and is then sent by the sender's descriptor. One that
//! is closed stays open until the end of its stream has arrived, as events of the kernel name its number:
//!
//! ```text
//!   send -- at once --------------------------------> kernel -> receiver
//!        -- in its connection's queue until due ----/
//!   close, shutdown: the end of the stream travels as well
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::Shutdown;

use super::links::{Link, Links, Pair};
use super::sockets::{self, Named};
use super::trace::{self, Trace};
use crate::chance;

/// Number of bytes that a connection holds in one direction; the sender waits for room. As much as a
/// large buffer of a socket.
const QUEUE_BYTES_MAX: usize = 1 << 20;

/// The addresses of a connection: that of the sender and that of the receiver.
pub(super) type Key = (SocketAddr, SocketAddr);

#[derive(Debug, Default)]
pub(super) struct Network {
    pub(super) links: Links,
    connections: BTreeMap<Key, Connection>,
    /// By their times, and those of one time in the order in which they were sent.
    events: BTreeMap<(Duration, u64), Event>,
    /// The number of the next event.
    next: u64,
    /// The connections whose receivers have no room, by their numbers.
    blocked: BTreeMap<u64, Key>,
}

#[derive(Debug)]
enum Event {
    Segment(Key),
    Datagram(Datagram),
}

#[derive(Debug)]
struct Datagram {
    number: u64,
    socket: OwnedFd,
    pair: Pair,
    to: SocketAddr,
    bytes: Vec<u8>,
}

/// What is on its way in one direction of a connection. Once it had to wait, it is kept until the sender
/// closes its descriptor.
#[derive(Debug)]
struct Connection {
    /// By this number connections take their turns, as the kernel chooses their ports.
    number: u64,
    pair: Pair,
    segments: VecDeque<Segment>,
    /// Number of bytes in these.
    bytes: usize,
    /// When the last one is due.
    last_due: Duration,
    /// When the link has transmitted the last one.
    free_at: Duration,
}

#[derive(Debug)]
struct Segment {
    number: u64,
    due: Duration,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Bytes {
        /// The sender's, which stays open until then unless the connection has failed.
        socket: Named,
        bytes: Vec<u8>,
        passed: usize,
    },
    /// The end of the stream.
    End(Named),
    /// The sender has closed this descriptor.
    Close(OwnedFd),
}

/// What becomes of bytes that are sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The kernel sends them.
    AtOnce,
    /// So many were taken.
    Taken(usize),
    /// They have to wait for others.
    Full,
}

impl Network {
    /// Takes bytes that are sent on a connection, unless they pass at once.
    pub(super) fn send(
        &mut self,
        now: Duration,
        (key, pair): (Key, Pair),
        socket: BorrowedFd<'_>,
        (bytes, trace): (impl FnOnce(usize) -> Vec<u8>, &mut Trace),
    ) -> Sent {
        if !self.is_delayed(key, pair) {
            return Sent::AtOnce;
        }
        let present = self.connections.get(&key).map_or(0, |found| found.bytes);
        let mut room = QUEUE_BYTES_MAX.saturating_sub(present);
        if room == 0 {
            if !sockets::is_nonblocking(socket) {
                return Sent::Full;
            }
            // Whoever waits for room would be told that there is some, as the kernel's buffer is empty.
            room = QUEUE_BYTES_MAX;
        }
        let bytes = bytes(room);
        let length = bytes.len();
        let content = Content::Bytes {
            socket: Named::new(socket),
            bytes,
            passed: 0,
        };
        let number = self.add(now, (key, pair), content, trace);
        trace.add(now, trace::Event::Sent(pair, length, number));
        Sent::Taken(length)
    }

    /// Lets a stream end after what was sent. Returns `false` if that is at once, and so the kernel's matter.
    pub(super) fn end(
        &mut self,
        now: Duration,
        (key, pair): (Key, Pair),
        socket: BorrowedFd<'_>,
        trace: &mut Trace,
    ) -> bool {
        let is_delayed = self.is_delayed(key, pair);
        if is_delayed {
            self.add(now, (key, pair), Content::End(Named::new(socket)), trace);
        }
        is_delayed
    }

    /// Closes a descriptor after what was sent. Returns it if that is at once.
    pub(super) fn close(
        &mut self,
        now: Duration,
        (key, pair): (Key, Pair),
        socket: OwnedFd,
        trace: &mut Trace,
    ) -> Option<OwnedFd> {
        if !self.is_delayed(key, pair) {
            return Some(socket);
        }
        self.add(now, (key, pair), Content::Close(socket), trace);
        None
    }

    fn is_delayed(&self, key: Key, pair: Pair) -> bool {
        !self.links.get(pair).is_at_once() || self.connections.contains_key(&key)
    }

    /// Adds a segment. Returns its number.
    fn add(
        &mut self,
        now: Duration,
        (key, pair): (Key, Pair),
        content: Content,
        trace: &mut Trace,
    ) -> u64 {
        let length = content.length();
        let link = self.links.get(pair);
        let number = self.next;
        let connection = self.connections.entry(key).or_insert_with(|| Connection {
            number,
            pair,
            segments: VecDeque::new(),
            bytes: 0,
            last_due: now,
            free_at: now,
        });
        connection.free_at = connection.free_at.max(now) + link.transmission(length);
        let due = connection
            .last_due
            .max(connection.free_at + latency(link, pair, now, trace));
        connection.last_due = due;
        connection.bytes += length;
        connection.segments.push_back(Segment {
            number,
            due,
            content,
        });
        self.schedule(due, Event::Segment(key));
        number
    }

    /// Takes a datagram, unless the kernel has to send it, at once.
    pub(super) fn send_datagram(
        &mut self,
        now: Duration,
        pair: Pair,
        socket: BorrowedFd<'_>,
        (to, bytes): (SocketAddr, impl FnOnce() -> Vec<u8>),
        trace: &mut Trace,
    ) -> Sent {
        let link = self.links.get(pair);
        if link.is_at_once() {
            return Sent::AtOnce;
        }
        let fault = chance::happens(link.loss).then(|| trace.fault()).flatten();
        if link.is_cut || fault.is_some() {
            let bytes = bytes().len();
            trace.add_with(now, trace::Event::Lost(pair, bytes, None), fault);
            return Sent::Taken(bytes);
        }
        let bytes = bytes();
        let due = now + link.transmission(bytes.len()) + chance::time(&link.latency);
        let Ok(socket) = rustix::io::fcntl_dupfd_cloexec(socket, 0) else {
            return Sent::AtOnce;
        };
        let length = bytes.len();
        let number = self.next;
        let datagram = Datagram {
            number,
            socket,
            pair,
            to,
            bytes,
        };
        self.schedule(due, Event::Datagram(datagram));
        trace.add(now, trace::Event::Sent(pair, length, number));
        Sent::Taken(length)
    }

    fn schedule(&mut self, due: Duration, event: Event) {
        self.events.insert((due, self.next), event);
        self.next += 1;
    }

    /// Returns the time of the next event.
    pub(super) fn next(&self) -> Option<Duration> {
        self.events.first_key_value().map(|((due, _), _)| *due)
    }

    /// Passes on what is due. Returns `true` if there was anything.
    pub(super) fn act(&mut self, now: Duration, trace: &mut Trace) -> bool {
        let mut has_acted = false;
        for key in mem::take(&mut self.blocked).into_values() {
            has_acted |= self.pass(now, key, trace);
        }
        while self.next().is_some_and(|due| due <= now) {
            let (_, event) = self.events.pop_first().expect("there is one");
            has_acted = true;
            match event {
                Event::Segment(key) => _ = self.pass(now, key, trace),
                Event::Datagram(datagram) => {
                    trace.add(now, self.pass_datagram(&datagram));
                }
            }
        }
        has_acted
    }

    fn pass_datagram(&self, datagram: &Datagram) -> trace::Event {
        let length = datagram.bytes.len();
        // One that does not fit the receiver's queue is lost.
        let arrives = !self.links.get(datagram.pair).is_cut
            && sockets::send_to(&datagram.socket, &datagram.bytes, datagram.to).is_ok();
        if arrives {
            trace::Event::Arrived(datagram.pair, length, datagram.number)
        } else {
            trace::Event::Lost(datagram.pair, length, Some(datagram.number))
        }
    }

    /// Passes on what is due of a connection. Returns `true` if there was anything.
    fn pass(&mut self, now: Duration, key: Key, trace: &mut Trace) -> bool {
        let Some(connection) = self.connections.get_mut(&key) else {
            return false;
        };
        if self.links.get(connection.pair).is_cut {
            return false;
        }
        let (mut has_passed, mut is_over) = (false, false);
        while let Some(segment) = connection.segments.front_mut().filter(|it| it.due <= now) {
            match segment.content.pass() {
                Ok(count) => {
                    connection.bytes -= count;
                    if count > 0 {
                        let pair = connection.pair;
                        trace.add(now, trace::Event::Arrived(pair, count, segment.number));
                    }
                    has_passed |= count > 0;
                    if segment.content.is_passed() {
                        is_over = matches!(segment.content, Content::Close(_));
                        connection.segments.pop_front();
                        has_passed = true;
                    } else {
                        self.blocked.insert(connection.number, key);
                        return has_passed;
                    }
                }
                // The connection has ended, and the sender finds out by its next call.
                Err(_) => {
                    connection.segments.clear();
                    connection.bytes = 0;
                    (has_passed, is_over) = (true, true);
                }
            }
        }
        if is_over && connection.segments.is_empty() {
            self.connections.remove(&key);
        }
        has_passed
    }

    /// Lets go on what has waited for these links to be healed.
    pub(super) fn resume(&mut self, now: Duration) {
        let mut present: Vec<_> = self.connections.iter().collect();
        present.sort_unstable_by_key(|(_, connection)| connection.number);
        let due = present.into_iter().map(|(key, connection)| {
            let link = self.links.get(connection.pair);
            (now + chance::time(&link.latency), *key)
        });
        let due: Vec<_> = due.collect();
        for (due, key) in due {
            self.schedule(due, Event::Segment(key));
        }
    }

    /// Returns `true` if a connection has room for more.
    pub(super) fn has_room(&self, key: Key) -> bool {
        let connection = self.connections.get(&key);
        connection.is_none_or(|connection| connection.bytes < QUEUE_BYTES_MAX)
    }

    /// Forgets what is on its way by these links. Returns the descriptors that their senders have closed.
    pub(super) fn forget(&mut self, is_one: impl Fn(Pair) -> bool) -> Vec<OwnedFd> {
        self.events.retain(|_, event| match event {
            Event::Segment(_) => true,
            Event::Datagram(datagram) => !is_one(datagram.pair),
        });
        let (forgotten, kept) = mem::take(&mut self.connections)
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(_, connection)| is_one(connection.pair));
        self.connections = kept;
        let mut forgotten: Vec<_> = forgotten.into_values().collect();
        forgotten.sort_unstable_by_key(|connection| connection.number);
        let segments = forgotten.into_iter().flat_map(|it| it.segments);
        let closed = segments.filter_map(|segment| match segment.content {
            Content::Close(socket) => Some(socket),
            Content::Bytes { .. } | Content::End(_) => None,
        });
        closed.collect()
    }
}

/// Chooses how long a segment takes. Each loss is a fault.
pub(super) fn latency(link: &Link, pair: Pair, now: Duration, trace: &mut Trace) -> Duration {
    link.latency(|| {
        let fault = trace.fault();
        if fault.is_some() {
            trace.add_with(now, trace::Event::Resent(pair), fault);
        }
        fault.is_some()
    })
}

impl Content {
    fn length(&self) -> usize {
        match self {
            Content::Bytes { bytes, .. } => bytes.len(),
            Content::End(_) | Content::Close(_) => 0,
        }
    }

    /// Passes it on as far as the receiver has room. Returns the number of bytes.
    fn pass(&mut self) -> rustix::io::Result<usize> {
        match self {
            Content::Bytes {
                socket,
                bytes,
                passed,
            } => match sockets::send(socket.get()?, &bytes[*passed..]) {
                Ok(count) => {
                    *passed += count;
                    Ok(count)
                }
                Err(Errno::AGAIN | Errno::INTR) => Ok(0),
                Err(errno) => Err(errno),
            },
            Content::End(socket) => {
                rustix::net::shutdown(socket.get()?, Shutdown::Write).map(|()| 0)
            }
            Content::Close(_) => Ok(0),
        }
    }

    fn is_passed(&self) -> bool {
        match self {
            Content::Bytes { bytes, passed, .. } => *passed == bytes.len(),
            Content::End(_) | Content::Close(_) => true,
        }
    }
}

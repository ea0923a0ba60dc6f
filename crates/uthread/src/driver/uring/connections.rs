//! Receives from long-lived connections: an epoll instance beside the ring, and non-blocking system
//! calls.
//!
//! A receive that has to wait enters the socket's wait queue and the ring's table of cancellable
//! requests, and leaves both: with thousands of connections this is cold memory. Long-lived
//! connections avoid that:
//!
//! ```text
//!   the first receives   requests to the ring, like any operation: most short connections need no more;
//!                        after a gathered send, which has suspended the fiber, they are tried before
//!   the next receive     registers the connection with the epoll instance, edge-triggered
//!   from then on         a receive is tried if data may be available, and otherwise waits for an event; it is
//!                        tried again when the event is taken
//! ```
//!
//! A worker that has fibers to run takes events with each flush, by one system call for all
//! connections, and looks at the first of them. While receives wait for events, the worker sleeps in the epoll instance: a sleep in
//! the ring would take a poll request for the instance, and then a second system call for the
//! events. An eventfd in the instance, which the ring signals, ends the sleep for completions.
//!
//! Only for plain TCP does a receive of fewer bytes than requested mean that the socket is drained,
//! so other sockets are not registered.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::ptr::NonNull;
use std::time::Duration;

use io_uring::IoUring;
use rustix::event::epoll::{self, CreateFlags, EventFlags};

use crate::driver::eventfd::Eventfd;
use crate::driver::events::{self, EVENTS_MAX, Events};
use crate::driver::interest_table::{self, InterestTable};
use crate::driver::readiness::{Interest, Waiting};
use crate::driver::{Start, Token, in_one, native};
use crate::op::net::Receive;
use crate::op::{self, Awaited};
use crate::resource::standard;

/// Distinguishes the ring's eventfd from connections, whose descriptors are lower.
const RING: u64 = u64::MAX;

/// Minimum number of events that are looked at with each flush. The data is received then, and is
/// still in the cache when the fiber runs only if few fibers run before; so the queue of ready fibers
/// must not grow by this.
const EVENTS_BUSY: usize = 8;

/// Maximum number of events that are taken and not looked at yet.
const BACKLOG_MAX: usize = 512;

/// The connections of one ring.
pub(super) struct Connections {
    interests: InterestTable<Receive<'static>>,
    /// Events that were taken and not looked at yet, the first one first: how many connections are
    /// ready.
    backlog: VecDeque<(RawFd, EventFlags)>,
    /// Results of receives that have waited. Bounded by the number of fibers.
    done: VecDeque<(Token, i32)>,
    /// The eventfd that the ring signals, once a connection is registered, where the kernel permits
    /// that: until then the worker sleeps in the ring, and a signal would only take time.
    eventfd: Option<Eventfd>,
    /// `true` if the ring may have completions that it did not signal.
    has_unsignaled: bool,
    /// Number of system calls made.
    calls: u64,
}

impl Connections {
    /// Creates the epoll instance, without connections.
    ///
    /// # Errors
    ///
    /// `EMFILE` if the process has no free descriptor; `ENOMEM` if the kernel has no memory.
    pub(super) fn new() -> io::Result<Connections> {
        let epoll = standard::avoid(epoll::create(CreateFlags::CLOEXEC)?)?;
        Ok(Connections {
            interests: InterestTable::new(epoll),
            backlog: VecDeque::new(),
            done: VecDeque::new(),
            eventfd: None,
            has_unsignaled: false,
            calls: 0,
        })
    }

    /// Starts a receive from a connection. Returns `None` if it uses a request of its own.
    ///
    /// # Safety
    ///
    /// If it is pending, the receive stays alive and is not accessed until its completion is
    /// reaped.
    #[allow(unsafe_code, reason = "the receive is kept by address")]
    #[inline]
    pub(super) unsafe fn start(
        &mut self,
        ring: &IoUring,
        receive: &mut Receive<'_>,
        token: Token,
    ) -> Option<Start> {
        let connection = receive.socket;
        if self.interests.registered(connection).is_none() {
            let lasts = connection.state.lasts() && native::tcp::drains(connection);
            // Fails at a limit, such as `fs.epoll.max_user_watches`.
            if !lasts
                || self.listen(ring).is_err()
                || self.interests.register(connection) != Ok(true)
            {
                return None;
            }
            let done = &mut self.done;
            self.interests.end_orphans(|result| done.push_back(result));
        }
        let fd = connection.fd.as_raw_fd();
        if let Some(result) = self.attempt(fd, receive) {
            return Some(Start::Done(result));
        }
        // SAFETY: the caller keeps the receive in place until its completion.
        let waiting = unsafe { Waiting::new(NonNull::from(receive).cast(), token) };
        self.interests.wait(fd, Interest::IN, waiting);
        Some(Start::Pending(Awaited::on(fd)))
    }

    /// Receives available data. Returns `None` if there is none.
    #[inline]
    fn attempt(&mut self, fd: RawFd, receive: &mut Receive<'_>) -> Option<rustix::io::Result<u32>> {
        let readiness = self.interests.file(fd);
        if readiness.is_unready(Interest::IN) {
            return None;
        }
        self.calls += 1;
        readiness.attempt(receive)
    }

    /// Makes completions of the ring end a sleep in the epoll instance.
    ///
    /// # Errors
    ///
    /// `EMFILE` if the process has no free descriptor; any other error with which the kernel
    /// refuses the eventfd.
    #[inline]
    pub(super) fn listen(&mut self, ring: &IoUring) -> io::Result<()> {
        match self.eventfd {
            Some(_) => Ok(()),
            None => self.begin_to_listen(ring),
        }
    }

    #[cold]
    fn begin_to_listen(&mut self, ring: &IoUring) -> io::Result<()> {
        let eventfd = Eventfd::new()?;
        events::listen(self.interests.epoll(), eventfd.as_fd(), RING)?;
        let fd = eventfd.as_fd().as_raw_fd();
        ring.submitter().register_eventfd(fd)?;
        self.has_unsignaled = true;
        self.eventfd = Some(eventfd);
        Ok(())
    }

    /// Returns `true` if the worker has to look for completions before it sleeps in the epoll
    /// instance: those that became due before the ring had the eventfd.
    pub(super) fn take_unsignaled(&mut self) -> bool {
        mem::take(&mut self.has_unsignaled)
    }

    /// Takes events that have occurred, and tries the receives that the first ones concern: about as
    /// many as the fibers that have run since the last time.
    pub(super) fn take_some_events(&mut self, run: u32) {
        if self.backlog.len() + EVENTS_MAX <= BACKLOG_MAX {
            self.take(Some(Duration::ZERO));
        }
        self.look_at((run as usize).clamp(EVENTS_BUSY, EVENTS_MAX));
    }

    /// Takes the events that occur within `timeout`, and tries the receives that they concern.
    /// Returns `false` if there were only completions of the ring.
    pub(super) fn take_events(&mut self, timeout: Option<Duration>) -> bool {
        let has_others = !self.backlog.is_empty() || self.take(timeout);
        self.look_at(EVENTS_MAX);
        has_others
    }

    /// Returns the number of connections for which an event was taken, and that nothing was received
    /// from yet.
    pub(super) fn backlog(&self) -> u32 {
        self.backlog.len() as u32
    }

    /// Takes the events that occur within `timeout`. Returns `false` if there were only completions
    /// of the ring.
    fn take(&mut self, timeout: Option<Duration>) -> bool {
        let mut events = Events::new();
        let events = events.wait(self.interests.epoll(), timeout, EVENTS_MAX);
        self.calls += 1;
        let is_ring_alone = matches!(events, [event] if event.data.u64() == RING);
        let of_connections = events.iter().filter(|event| event.data.u64() != RING);
        self.backlog
            .extend(of_connections.map(|event| (event.data.u64() as RawFd, event.flags)));
        !is_ring_alone
    }

    /// Tries the receives that the first events of the backlog concern.
    fn look_at(&mut self, max: usize) {
        let count = self.backlog.len().min(max);
        self.interests
            .prefetch(self.backlog.range(..count).map(|&(fd, _)| fd));
        for _ in 0..count {
            let Some((fd, flags)) = self.backlog.pop_front() else {
                break;
            };
            interest_table::on_event(
                self,
                |connections| &mut connections.interests,
                (fd, flags),
                |connections, mut waiting| match connections.attempt(fd, waiting.operation()) {
                    Some(result) => connections.done.push_back((waiting.token, in_one(result))),
                    None => connections.interests.wait(fd, Interest::IN, waiting),
                },
            );
        }
    }

    /// Ends the wait of a receive. Returns `false` if no receive with this token waits.
    pub(super) fn cancel(&mut self, token: Token) -> bool {
        let has_waited = self.interests.cancel(token);
        if has_waited {
            self.done.push_back((token, -op::CANCELLED));
        }
        has_waited
    }

    /// Returns `true` if receives wait for events.
    pub(super) fn has_waiting(&self) -> bool {
        self.interests.has_waiting()
    }

    /// Returns `true` if results wait to be handed out.
    pub(super) fn has_results(&self) -> bool {
        !self.done.is_empty()
    }

    /// Hands out at most `max` results, and returns their number.
    #[inline]
    pub(super) fn hand_out(&mut self, max: usize, mut hand_out: impl FnMut(Token, i32)) -> usize {
        let count = self.done.len().min(max);
        for (token, result) in self.done.drain(..count) {
            hand_out(token, result);
        }
        count
    }

    /// Returns the number of system calls made.
    pub(super) fn calls(&self) -> u64 {
        self.calls
    }
}

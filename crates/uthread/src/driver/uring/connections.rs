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
//! A worker that has fibers to run takes some events with each flush, by one system call for all
//! connections. While receives wait for events, the worker sleeps in the epoll instance: a sleep in
//! the ring would take a poll request for the instance, and then a second system call for the
//! events. An eventfd in the instance, which the ring signals, ends the sleep for completions.
//!
//! Only for plain TCP does a receive of fewer bytes than requested mean that the socket is drained,
//! so other sockets are not registered.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use io_uring::IoUring;
use rustix::event::epoll::{self, CreateFlags};

use crate::atomic::lock;
use crate::driver::eventfd::Eventfd;
use crate::driver::events::{self, EVENTS_MAX, Events};
use crate::driver::interest_table::{self, InterestTable};
use crate::driver::readiness::{Interest, Waiting};
use crate::driver::{Start, Token, in_one, native};
use crate::op;
use crate::op::net::Receive;
use crate::resource::standard;

/// Distinguishes the ring's eventfd from connections, whose descriptors are lower.
const RING: u64 = u64::MAX;

/// Maximum number of events taken while fibers are ready. The data is received with the event, and
/// is still in the cache when the fiber runs only if few fibers run before; so the queue of ready
/// fibers must not grow by this.
const EVENTS_BUSY: usize = 8;

/// The connections of one ring. All calls come from its worker: from one thread at a time.
pub(super) struct Connections {
    epoll: Arc<OwnedFd>,
    state: Mutex<WaitingReceives>,
    /// `true` if `done` is not empty. Relaxed, like the next: all calls come from the worker.
    has_results: AtomicBool,
    /// `true` if the ring may have completions that it did not signal.
    has_unsignaled: AtomicBool,
    /// Number of system calls made. Readable without the lock, as the worker publishes it in every
    /// round.
    calls: AtomicU64,
}

struct WaitingReceives {
    interests: InterestTable<Receive<'static>>,
    /// Results of receives that have waited. Bounded by the number of fibers.
    done: VecDeque<(Token, i32)>,
    /// The eventfd that the ring signals, once a connection is registered: until then the worker
    /// sleeps in the ring, and a signal would only take time.
    eventfd: Option<Eventfd>,
}

impl Connections {
    /// Creates the epoll instance, without connections.
    ///
    /// # Errors
    ///
    /// `EMFILE` if the process has no free descriptor; `ENOMEM` if the kernel has no memory.
    pub(super) fn new() -> io::Result<Connections> {
        let epoll = Arc::new(standard::avoid(epoll::create(CreateFlags::CLOEXEC)?)?);
        let interests = InterestTable::new(Arc::clone(&epoll));
        Ok(Connections {
            epoll,
            state: Mutex::new(WaitingReceives {
                interests,
                done: VecDeque::new(),
                eventfd: None,
            }),
            has_results: AtomicBool::new(false),
            has_unsignaled: AtomicBool::new(false),
            calls: AtomicU64::new(0),
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
        &self,
        ring: &IoUring,
        receive: &mut Receive<'_>,
        token: Token,
    ) -> Option<Start> {
        let state = &mut *self.lock();
        let connection = receive.socket;
        if state.interests.registered(connection).is_none() {
            let lasts = connection.state.lasts() && native::tcp::drains(connection);
            // Fails at a limit, such as `fs.epoll.max_user_watches`.
            if !lasts
                || self.listen(state, ring).is_err()
                || state.interests.register(connection) != Ok(true)
            {
                return None;
            }
            let done = &mut state.done;
            state.interests.end_orphans(|result| done.push_back(result));
            self.has_results.store(!done.is_empty(), Ordering::Relaxed);
        }
        let fd = connection.fd.as_raw_fd();
        if let Some(result) = self.attempt(state, fd, receive) {
            return Some(Start::Done(result));
        }
        // SAFETY: the caller keeps the receive in place until its completion.
        let waiting = unsafe { Waiting::new(NonNull::from(receive).cast(), token) };
        state.interests.wait(fd, Interest::IN, waiting);
        Some(Start::Pending)
    }

    /// Receives available data. Returns `None` if there is none.
    #[inline]
    fn attempt(
        &self,
        state: &mut WaitingReceives,
        fd: RawFd,
        receive: &mut Receive<'_>,
    ) -> Option<rustix::io::Result<u32>> {
        let readiness = state.interests.file(fd);
        if readiness.is_unready(Interest::IN) {
            return None;
        }
        self.count_call();
        readiness.attempt(receive)
    }

    /// Makes completions of the ring end a sleep in the epoll instance.
    ///
    /// # Errors
    ///
    /// `EMFILE` if the process has no free descriptor; any other error with which the kernel
    /// refuses the eventfd.
    #[inline]
    fn listen(&self, state: &mut WaitingReceives, ring: &IoUring) -> io::Result<()> {
        match state.eventfd {
            Some(_) => Ok(()),
            None => self.begin_to_listen(state, ring),
        }
    }

    #[cold]
    fn begin_to_listen(&self, state: &mut WaitingReceives, ring: &IoUring) -> io::Result<()> {
        let eventfd = Eventfd::new()?;
        events::listen(self.epoll.as_fd(), eventfd.as_fd(), RING)?;
        let fd = eventfd.as_fd().as_raw_fd();
        ring.submitter().register_eventfd(fd)?;
        self.has_unsignaled.store(true, Ordering::Relaxed);
        state.eventfd = Some(eventfd);
        Ok(())
    }

    /// Returns `true` if the worker has to look for completions before it sleeps in the epoll
    /// instance: those that became due before the ring had the eventfd.
    pub(super) fn take_unsignaled(&self) -> bool {
        self.has_unsignaled.load(Ordering::Relaxed)
            && self.has_unsignaled.swap(false, Ordering::Relaxed)
    }

    /// Takes some events that have occurred, and tries the receives that they concern.
    pub(super) fn take_some_events(&self) {
        self.take_up_to(EVENTS_BUSY, Some(Duration::ZERO));
    }

    /// Takes the events that occur within `timeout`, and tries the receives that they concern.
    /// Returns `false` if there were only completions of the ring.
    pub(super) fn take_events(&self, timeout: Option<Duration>) -> bool {
        self.take_up_to(EVENTS_MAX, timeout)
    }

    fn take_up_to(&self, max: usize, timeout: Option<Duration>) -> bool {
        let mut events = Events::new();
        let events = events.wait(self.epoll.as_fd(), timeout, max);
        self.count_call();
        let is_ring_alone = matches!(events, [event] if event.data.u64() == RING);
        let state = &mut *self.lock();
        for event in events {
            let (data, flags) = (event.data.u64(), event.flags);
            if data == RING {
                continue;
            }
            let fd = data as RawFd;
            interest_table::on_event(
                state,
                |state| &mut state.interests,
                (fd, flags),
                |state, mut waiting| match self.attempt(state, fd, waiting.operation()) {
                    Some(result) => state.done.push_back((waiting.token, in_one(result))),
                    None => state.interests.wait(fd, Interest::IN, waiting),
                },
            );
        }
        self.has_results
            .store(!state.done.is_empty(), Ordering::Relaxed);
        !is_ring_alone
    }

    /// Ends the wait of a receive. Returns `false` if no receive with this token waits.
    pub(super) fn cancel(&self, token: Token) -> bool {
        let state = &mut *self.lock();
        let has_waited = state.interests.cancel(token);
        if has_waited {
            state.done.push_back((token, -op::CANCELLED));
            self.has_results.store(true, Ordering::Relaxed);
        }
        has_waited
    }

    /// Returns `true` if receives wait for events.
    pub(super) fn has_waiting(&self) -> bool {
        self.lock().interests.has_waiting()
    }

    /// Returns `true` if results wait to be handed out.
    pub(super) fn has_results(&self) -> bool {
        self.has_results.load(Ordering::Relaxed)
    }

    /// Hands out at most `max` results, and returns their number.
    #[inline]
    pub(super) fn hand_out(&self, max: usize, mut hand_out: impl FnMut(Token, i32)) -> usize {
        if !self.has_results() {
            return 0;
        }
        let done = &mut self.lock().done;
        let count = done.len().min(max);
        for (token, result) in done.drain(..count) {
            hand_out(token, result);
        }
        self.has_results.store(!done.is_empty(), Ordering::Relaxed);
        count
    }

    /// Returns the number of system calls made.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Counts a system call. No addition in one step, as all calls come from the worker.
    fn count_call(&self) {
        self.calls.store(self.calls() + 1, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, WaitingReceives> {
        lock(&self.state)
    }
}

//! Receives from long-lived connections: an epoll instance beside the ring, and non-blocking system calls.
//!
//! A receive that has to wait enters the socket's wait queue and the ring's table of cancellable requests,
//! and leaves both: with thousands of connections this is cold memory. Long-lived connections avoid that:
//!
//! ```text
//!   the first receives   requests to the ring, like any operation: most short connections need no more
//!   the next receive     registers the connection with the epoll instance, edge-triggered
//!   from then on         a receive is tried if data may be available, and otherwise waits for an event; it is
//!                        tried again when the event is taken
//! ```
//!
//! A worker that has fibers to run takes the events with each flush, by one system call for all connections.
//! A worker that sleeps waits in its ring: a poll request for the instance ends the sleep.
//!
//! Only for plain TCP does a receive of fewer bytes than requested mean that the socket is drained, so other
//! sockets are not registered.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::Fd;
use rustix::event::PollFlags;
use rustix::event::epoll::{self, CreateFlags};

use super::user_data::{Target, UserData};
use crate::atomic::lock;
use crate::driver::events::Events;
use crate::driver::interest_table::InterestTable;
use crate::driver::readiness::{self, Event, Interest, Waiting};
use crate::driver::{Start, Token, in_one, native};
use crate::op::net::SocketOperation;
use crate::op::{self, Operation};
use crate::resource::descriptor::Descriptor;

/// Time below which a wait in the ring has not slept, so that the next one should take events first.
const SLEEP_MIN: Duration = Duration::from_micros(5);

/// The connections of one ring whose completions only its worker reaps, so that all calls come from one
/// thread.
pub(super) struct Connections {
    epoll: Arc<OwnedFd>,
    state: Mutex<State>,
    /// `true` if `done` is not empty. Relaxed, like the next: all calls come from one thread.
    are_done: AtomicBool,
    /// `true` if events are expected before the worker would sleep.
    are_expected: AtomicBool,
    /// Number of system calls made. Readable without the lock, as the worker publishes it in every round.
    calls: AtomicU64,
}

struct State {
    interests: InterestTable,
    /// Results of receives that have waited. Bounded by the number of fibers.
    done: VecDeque<(Token, i32)>,
    /// `true` if the ring has a poll request for the instance.
    is_polled: bool,
}

/// Returns the connection of a receive that may wait for an event.
#[inline]
pub(super) fn connection<'a>(operation: &Operation<'a>) -> Option<Descriptor<'a>> {
    match operation {
        Operation::Socket(SocketOperation::Receive {
            socket,
            peek: false,
            drains: true,
            ..
        }) => Some(*socket),
        _ => None,
    }
}

impl Connections {
    /// # Errors
    ///
    /// `EMFILE` if the process has no free descriptor; `ENOMEM` if the kernel has no memory.
    pub(super) fn new() -> io::Result<Connections> {
        let epoll = Arc::new(epoll::create(CreateFlags::CLOEXEC)?);
        let interests = InterestTable::new(Arc::clone(&epoll));
        Ok(Connections {
            epoll,
            state: Mutex::new(State {
                interests,
                done: VecDeque::new(),
                is_polled: false,
            }),
            are_done: AtomicBool::new(false),
            are_expected: AtomicBool::new(false),
            calls: AtomicU64::new(0),
        })
    }

    /// Starts a receive from a connection. Returns `None` if it uses a request of its own, for example because it
    /// has to wait and `by_request` is set.
    ///
    /// # Safety
    ///
    /// If it is pending, the operation stays alive and is not accessed until its completion is reaped.
    #[allow(unsafe_code, reason = "the operation is kept by address")]
    #[inline]
    pub(super) unsafe fn start(
        &self,
        connection: Descriptor<'_>,
        operation: &mut Operation<'_>,
        token: Token,
        by_request: bool,
    ) -> Option<Start> {
        let state = &mut *self.lock();
        if state.interests.registered(connection).is_none() {
            let lasts = connection.state.lasts() && native::tcp::drains(connection);
            // Fails at a limit, such as `fs.epoll.max_user_watches`.
            if !lasts || state.interests.register(connection) != Ok(true) {
                return None;
            }
        }
        let fd = connection.fd.as_raw_fd();
        if let Some(result) = self.receive(state, fd, operation) {
            return Some(Start::Done(result));
        }
        if by_request {
            return None;
        }
        // SAFETY: promised by the caller.
        let waiting = unsafe { Waiting::new(operation, token) };
        state.interests.wait(fd, Interest::IN, waiting);
        Some(Start::Pending)
    }

    /// Receives available data. Returns `None` if there is none.
    #[inline]
    fn receive(&self, state: &mut State, fd: RawFd, operation: &mut Operation<'_>) -> Option<i32> {
        let Operation::Socket(operation) = operation else {
            unreachable!("only receives come here");
        };
        let readiness = state.interests.file(fd);
        if readiness.is_unready(Interest::IN) {
            return None;
        }
        self.count_call();
        let result = readiness.try_socket(operation, Interest::IN)?;
        Some(in_one(result))
    }

    /// Takes the events that have occurred, and tries the receives that they concern.
    pub(super) fn take_events(&self) {
        let mut events = Events::new();
        let events = events.wait(self.epoll.as_fd(), Some(Duration::ZERO));
        self.count_call();
        let state = &mut *self.lock();
        for event in events {
            let (fd, flags) = (event.data.u64() as RawFd, event.flags);
            let event = Event::new(PollFlags::from_bits_retain(flags.bits() as u16));
            readiness::on_event(
                state,
                |state| state.interests.file(fd),
                event,
                |state, mut waiting| {
                    state.interests.end_wait();
                    match self.receive(state, fd, waiting.operation()) {
                        Some(result) => state.done.push_back((waiting.token, result)),
                        None => state.interests.wait(fd, Interest::IN, waiting),
                    }
                },
            );
        }
        self.are_done
            .store(!state.done.is_empty(), Ordering::Relaxed);
    }

    /// Ends the wait of a receive. Returns `false` if no receive with this token waits.
    pub(super) fn cancel(&self, token: Token) -> bool {
        let state = &mut *self.lock();
        let has_waited = state.interests.cancel(token);
        if has_waited {
            state.done.push_back((token, -op::CANCELLED));
            self.are_done.store(true, Ordering::Relaxed);
        }
        has_waited
    }

    /// Returns `true` if receives wait for events.
    pub(super) fn are_awaited(&self) -> bool {
        self.lock().interests.has_waiting()
    }

    /// Takes events before the worker would sleep, if they are expected: a sleep takes two system calls more.
    pub(super) fn take_expected_events(&self) {
        if !self.are_done() && self.are_expected.load(Ordering::Relaxed) && self.are_awaited() {
            self.take_events();
            self.are_expected.store(self.are_done(), Ordering::Relaxed);
        }
    }

    /// Records how long a wait in the ring has taken.
    pub(super) fn record_sleep(&self, time: Duration) {
        self.are_expected.store(time < SLEEP_MIN, Ordering::Relaxed);
    }

    /// Returns the poll request that ends a sleep of the worker, if the ring does not have it.
    pub(super) fn poll(&self) -> Option<Entry> {
        let state = &mut *self.lock();
        if state.is_polled || !state.interests.has_waiting() {
            return None;
        }
        state.is_polled = true;
        let poll = opcode::PollAdd::new(Fd(self.epoll.as_raw_fd()), PollFlags::IN.bits().into());
        let user_data = UserData::Entry(Target::Events).encode();
        Some(poll.build().user_data(user_data))
    }

    /// Handles the completion of the poll request.
    pub(super) fn on_poll(&self) {
        self.lock().is_polled = false;
        self.take_events();
    }

    /// Returns `true` if results wait to be handed out.
    pub(super) fn are_done(&self) -> bool {
        self.are_done.load(Ordering::Relaxed)
    }

    /// Takes a result.
    #[inline]
    pub(super) fn take_done(&self) -> Option<(Token, i32)> {
        if !self.are_done() {
            return None;
        }
        let done = &mut self.lock().done;
        let taken = done.pop_front();
        self.are_done.store(!done.is_empty(), Ordering::Relaxed);
        taken
    }

    /// Returns the number of system calls made.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Counts a system call. No addition in one step, as all calls come from one thread.
    fn count_call(&self) {
        self.calls.store(self.calls() + 1, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

//! Receives from long-lived connections: a multishot poll, and non-blocking system calls.
//!
//! A receive that has to wait enters the socket's wait queue and the ring's table of cancellable requests,
//! and leaves both: with thousands of connections this is cold memory. Long-lived connections avoid that:
//!
//! ```text
//!   the first receives   requests to the ring, like any operation: most short connections need no more
//!   the next receive     starts a poll, which completes each time that data arrives
//!   from then on         a receive is tried if data may be available, and otherwise waits for the poll; the reaping
//!                        end tries it again when the poll completes
//! ```
//!
//! Only for plain TCP does a receive of fewer bytes than requested mean that the socket is drained, so other
//! sockets get no poll. It does not hold at the mark of urgent data either, which completions do not report:
//! so the socket is queried.
//!
//! The poll holds the file open, so it ends when its socket is dropped, on any thread: [`Resource::Poll`].
//!
//! [`Resource::Poll`]: crate::resource::registration::Resource::Poll

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::vec;

use io_uring::squeue::Entry;
use io_uring::types::Fd;
use io_uring::{cqueue, opcode};
use rustix::event::PollFlags;
use slab::Slab;

use super::cancellations::Cancellations;
use super::user_data::{Target, UserData};
use crate::atomic::lock;
use crate::driver::latest::Latest;
use crate::driver::readiness::{self, Event, Interest, Readiness, Waiting};
use crate::driver::{Token, in_one};
use crate::op::Operation;
use crate::op::net::SocketOperation;
use crate::resource::descriptor::Descriptor;

/// Without `PRI`: a completion of a multishot poll carries the flags of the wake-up, and each arrival of data
/// wakes waiters for `PRI`, too.
const EVENTS: PollFlags = PollFlags::IN.union(PollFlags::RDHUP);

/// The polls of one ring whose completions only its worker reaps, so that all calls come from one thread.
#[derive(Default)]
pub(super) struct Polls {
    state: Mutex<State>,
    /// `true` if `done` is not empty. Relaxed, like the next: all calls come from one thread.
    are_done: AtomicBool,
    /// `true` if `due` is not empty.
    are_due: AtomicBool,
    /// Number of system calls made. Readable without the lock, as the worker publishes it in every round.
    calls: AtomicU64,
}

#[derive(Default)]
struct State {
    polls: Slab<Poll>,
    /// Cancelled receives. Bounded by the number of fibers.
    done: Vec<Token>,
    /// Entries that the submitting end has to create. Bounded by the number of fibers.
    due: VecDeque<Due>,
    /// The poll for which the operation of a token has waited last.
    latest: Latest<u32>,
}

struct Poll {
    fd: RawFd,
    readiness: Readiness,
    /// `true` if receives use requests of their own, as the kernel had no memory for the poll.
    has_failed: bool,
    /// `true` once its socket is gone.
    is_retired: bool,
}

/// An entry that is to be submitted.
pub(super) enum Due {
    /// A poll, by its key.
    Poll(u32),
    /// A receive that uses a request of its own.
    Receive(Waiting),
}

/// The outcome of starting a receive.
pub(super) enum Started {
    Done(i32),
    /// It waits for an event.
    Waits,
    /// It waits for an event of a poll that is to be submitted.
    WaitsUnarmed,
    /// It uses a request of its own.
    Request,
    /// It would wait for a poll for which there is no room.
    Full,
}

/// Returns the entry that starts the poll with this key.
fn entry(fd: RawFd, key: u32) -> Entry {
    let poll = opcode::PollAdd::new(Fd(fd), u32::from(EVENTS.bits()));
    let user_data = UserData::Entry(Target::Poll(key)).encode();
    poll.multi(true).build().user_data(user_data)
}

/// Returns the connection of a receive that may use a poll.
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

impl Polls {
    /// Adds a poll, which is still to be started, and returns its key.
    pub(super) fn add(&self, connection: Descriptor<'_>) -> u32 {
        let key = self.lock().polls.insert(Poll {
            fd: connection.fd.as_raw_fd(),
            readiness: Readiness::without_urgent_events(),
            has_failed: false,
            is_retired: false,
        });
        u32::try_from(key).expect("there are not so many descriptors")
    }

    /// Ends the poll of a socket that is gone.
    pub(super) fn retire(&self, key: u32, cancellations: &Cancellations) {
        let state = &mut *self.lock();
        let before = state.due.len();
        (state.due).retain(|due| !matches!(due, Due::Poll(other) if *other == key));
        let was_due = state.due.len() < before;
        let poll = &mut state.polls[key as usize];
        if poll.readiness.is_armed() && !was_due {
            poll.is_retired = true;
            cancellations.cancel_entries([Target::Poll(key)].into_iter());
        } else {
            state.polls.remove(key as usize);
        }
    }

    /// Starts a receive from the connection of a poll. If it has to wait and the poll is not armed, this
    /// needs room.
    ///
    /// # Safety
    ///
    /// If it waits, the operation stays alive and is not accessed until its completion is reaped.
    #[allow(unsafe_code, reason = "the operation is kept by address")]
    pub(super) unsafe fn start(
        &self,
        key: u32,
        operation: &mut Operation<'_>,
        token: Token,
        has_room: impl FnOnce() -> bool,
    ) -> Started {
        let state = &mut *self.lock();
        let poll = &mut state.polls[key as usize];
        if poll.has_failed {
            return Started::Request;
        }
        let is_armed = poll.readiness.is_armed();
        // Data that is available when the poll is armed is its first event.
        if is_armed && !poll.readiness.is_unready(Interest::IN) {
            self.count_call();
            if let Some(result) = poll.receive(operation) {
                return Started::Done(result);
            }
        }
        if !is_armed && !has_room() {
            return Started::Full;
        }
        poll.readiness.mark_unready(Interest::IN);
        // SAFETY: promised by the caller.
        let waiting = unsafe { Waiting::new(operation, token) };
        poll.readiness.wait(Interest::IN, waiting);
        state.latest.insert(token, key);
        match is_armed {
            true => Started::Waits,
            false => Started::WaitsUnarmed,
        }
    }

    /// Returns the entry that starts a poll which is not armed.
    pub(super) fn arm(&self, key: u32) -> Entry {
        let state = &mut *self.lock();
        let poll = &mut state.polls[key as usize];
        poll.readiness.arm();
        entry(poll.fd, key)
    }

    /// Ends the wait of a receive. Returns `false` if no receive with this token waits.
    pub(super) fn cancel(&self, token: Token) -> bool {
        let state = &mut *self.lock();
        let mut waited = false;
        if let Some(key) = state.latest.get(token)
            && let Some(poll) = state.polls.get_mut(key as usize)
        {
            waited = poll.readiness.cancel(token);
        }
        let before = state.due.len();
        (state.due).retain(|due| !matches!(due, Due::Receive(waiting) if waiting.token == token));
        if waited || state.due.len() < before {
            state.done.push(token);
            self.are_done.store(true, Ordering::Relaxed);
            return true;
        }
        false
    }

    /// Handles the completion of a request to cancel a poll, which is repeated until the poll has ended.
    pub(super) fn on_cancel_answer(&self, key: u32, result: i32, cancellations: &Cancellations) {
        let state = self.lock();
        let poll = state.polls.get(key as usize);
        if result < 0 && poll.is_some_and(|poll| poll.is_retired) {
            cancellations.repeat(Target::Poll(key));
        }
    }

    /// Handles an event or the end of a poll, and hands out the results of the receives that it completes.
    pub(super) fn on_completion(
        &self,
        key: u32,
        completion: &cqueue::Entry,
        cancellations: &Cancellations,
        mut complete: impl FnMut(Token, i32),
    ) {
        let state = &mut *self.lock();
        let poll = state.polls.get_mut(key as usize);
        let poll = poll.expect("it ends with the last completion");
        let has_ended = !cqueue::more(completion.flags());
        if poll.is_retired {
            if has_ended {
                state.polls.remove(key as usize);
                cancellations.forget(Target::Poll(key));
            }
            return;
        }
        if has_ended {
            poll.readiness.disarm();
        }
        let Ok(events) = u16::try_from(completion.result()) else {
            poll.has_failed = true;
            (state.due).extend(poll.readiness.take_all().map(Due::Receive));
            self.are_due.store(true, Ordering::Relaxed);
            return;
        };
        let event = Event::new(PollFlags::from_bits_retain(events));
        readiness::on_event(
            poll,
            |poll| &mut poll.readiness,
            event,
            |poll, mut waiting| {
                if poll.readiness.is_unready(Interest::IN) {
                    return poll.readiness.wait(Interest::IN, waiting);
                }
                self.count_call();
                match poll.receive(waiting.operation()) {
                    Some(result) => complete(waiting.token, result),
                    None => poll.readiness.wait(Interest::IN, waiting),
                }
            },
        );
        if !poll.readiness.is_armed() && poll.readiness.has_waiting() {
            // Counted as armed from now on, so that it is not submitted twice.
            poll.readiness.arm();
            state.due.push_back(Due::Poll(key));
            self.are_due.store(true, Ordering::Relaxed);
        }
    }

    /// Returns `true` if entries are to be submitted.
    pub(super) fn are_due(&self) -> bool {
        self.are_due.load(Ordering::Relaxed)
    }

    /// Takes an entry that is to be submitted.
    pub(super) fn take_due(&self) -> Option<Due> {
        if !self.are_due() {
            return None;
        }
        let due = &mut self.lock().due;
        let taken = due.pop_front();
        self.are_due.store(!due.is_empty(), Ordering::Relaxed);
        taken
    }

    /// Returns `true` if results wait to be handed out.
    pub(super) fn are_done(&self) -> bool {
        self.are_done.load(Ordering::Relaxed)
    }

    /// Takes at most `max` cancelled receives.
    pub(super) fn take_done(&self, max: usize) -> vec::IntoIter<Token> {
        if !self.are_done() {
            return Vec::new().into_iter();
        }
        let done = &mut self.lock().done;
        let rest = done.len().saturating_sub(max);
        let taken = done.split_off(rest);
        self.are_done.store(rest > 0, Ordering::Relaxed);
        taken.into_iter()
    }

    /// Returns `true` if the kernel has any of these polls.
    pub(super) fn stand(&self) -> bool {
        let state = self.lock();
        let mut polls = state.polls.iter();
        polls.any(|(_, poll)| poll.readiness.is_armed())
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

impl Poll {
    /// Receives available data. Returns `None` if there is none.
    #[inline]
    fn receive(&mut self, operation: &mut Operation<'_>) -> Option<i32> {
        let Operation::Socket(operation) = operation else {
            unreachable!("only receives come here");
        };
        let result = self.readiness.try_socket(operation, Interest::IN)?;
        Some(in_one(result))
    }
}

//! Receives from connections that last: a poll that stands, and system calls that do not wait.
//!
//! A receive that has to wait enters the socket's queue of waiters, and the ring's table of what may be cancelled, and
//! leaves both: cold memory, where there are thousands. Connections that go on and on are spared that:
//!
//! ```text
//!   the first receives   requests to the ring, as any operation: most short connections see no more
//!   the next             begins a poll, which completes each time that something has come
//!   from then on         a receive is attempted where something may be there, and else waits for the poll
//!                        to tell its fiber to attempt it again
//!   after urgent data    requests again: a receive ends short at its mark, whatever comes behind it
//! ```
//!
//! That a receive of less than asked for has drained a socket holds for plain TCP alone, so nothing else gets a poll. What
//! comes later than the poll's last look causes an event of its own, urgent data too: so a short receive for which no event
//! of urgent data has come, but at the mark of what came since, is followed by that event.
//!
//! The poll holds the file open. So it ends when its socket is dropped, on whatever thread: [`Resource::Poll`].
//!
//! [`Resource::Poll`]: crate::resource::registration::Resource::Poll

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec;

use io_uring::squeue::Entry;
use io_uring::types::Fd;
use io_uring::{cqueue, opcode};
use rustix::event::PollFlags;
use slab::Slab;

use super::cancellations::Cancellations;
use super::user_data::{Target, UserData};
use crate::driver::latest::Latest;
use crate::driver::{Token, in_one, native};
use crate::op::net::SocketOperation;
use crate::op::{self, Operation};
use crate::resource::descriptor::Descriptor;

const EVENTS: PollFlags = PollFlags::IN.union(PollFlags::PRI).union(PollFlags::RDHUP);

/// What comes after these may come without another event.
const FINAL: PollFlags = PollFlags::RDHUP.union(PollFlags::HUP).union(PollFlags::ERR);

/// Of one ring whose completions only its worker takes, so that all is called by one thread.
#[derive(Default)]
pub(super) struct Polls {
    state: Mutex<State>,
    /// Whether there is something in `done`. Relaxed: the calls of one thread.
    are_done: AtomicBool,
}

#[derive(Default)]
struct State {
    polls: Slab<Poll>,
    /// Results of receives that came without a completion of the ring; bounded by the fibers.
    done: Vec<(Token, i32)>,
    /// The poll for which the operation of a token waited last.
    latest: Latest<u32>,
}

#[derive(Default)]
struct Poll {
    /// Whether the kernel has it.
    stands: bool,
    /// Whether something may be there: no receive has found that there is nothing since the last event.
    is_ready: bool,
    /// Whether a final event has come.
    is_final: bool,
    /// Whether receives go by requests of their own: the kernel did not take the poll, for lack of memory, or urgent data
    /// has come.
    is_left: bool,
    /// Whether its socket is gone.
    is_retired: bool,
    /// The receive that waits for the next event.
    waiting: Option<Token>,
}

/// What a receive that waits needs of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// Its poll has to be begun.
    Poll,
    /// It goes by a request of its own: another one waits already, or there is no poll.
    Request,
}

/// The entry that begins the poll of this key.
pub(super) fn entry(socket: Descriptor<'_>, key: u32) -> Entry {
    let poll = opcode::PollAdd::new(Fd(socket.fd.as_raw_fd()), u32::from(EVENTS.bits()));
    poll.multi(true)
        .build()
        .user_data(UserData::Entry(Target::Poll(key)).encode())
}

/// The connection from which an operation receives as here.
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
    /// The key of a new poll, which is still to be begun.
    pub(super) fn add(&self) -> u32 {
        let key = self.lock().polls.insert(Poll::default());
        u32::try_from(key).expect("there are not so many descriptors")
    }

    /// Its socket is gone: ends the poll.
    pub(super) fn retire(&self, key: u32, cancellations: &Cancellations) {
        let mut state = self.lock();
        let poll = &mut state.polls[key as usize];
        if poll.stands {
            poll.is_retired = true;
            cancellations.cancel_entries([Target::Poll(key)].into_iter());
        } else {
            state.polls.remove(key as usize);
        }
    }

    /// Receives what is there, if something may be.
    pub(super) fn attempt(&self, key: u32, operation: &mut Operation<'_>) -> Option<i32> {
        self.lock().polls[key as usize].attempt(operation)
    }

    /// Lets a receive wait for an event.
    pub(super) fn wait(&self, key: u32, token: Token) -> Needs {
        let mut state = self.lock();
        let poll = &mut state.polls[key as usize];
        if poll.waiting.is_some() || poll.is_left {
            return Needs::Request;
        }
        if poll.is_ready {
            self.give(&mut state, token, op::READY);
            return Needs::Nothing;
        }
        let begins = !poll.stands;
        poll.stands = true;
        poll.waiting = Some(token);
        state.latest.insert(token, key);
        if begins { Needs::Poll } else { Needs::Nothing }
    }

    /// Ends the wait of a receive; false if none of that name waits.
    pub(super) fn cancel(&self, token: Token) -> bool {
        let mut state = self.lock();
        let waits = |poll: &Poll| poll.waiting == Some(token);
        let is_waited_for = |key: &u32| state.polls.get(*key as usize).is_some_and(waits);
        let Some(key) = state.latest.get(token).filter(is_waited_for) else {
            return false;
        };
        state.polls[key as usize].waiting = None;
        self.give(&mut state, token, -op::CANCELLED);
        true
    }

    /// Takes the answer to a request to cancel a poll, which is repeated until the poll has ended.
    pub(super) fn on_cancel_answer(&self, key: u32, result: i32, cancellations: &Cancellations) {
        let state = self.lock();
        let poll = state.polls.get(key as usize);
        if result < 0 && poll.is_some_and(|poll| poll.is_retired) {
            cancellations.repeat(Target::Poll(key));
        }
    }

    /// Takes note of an event, or of the end of a poll; who has waited, and what it is told.
    pub(super) fn on_completion(
        &self,
        key: u32,
        completion: &cqueue::Entry,
        cancellations: &Cancellations,
    ) -> Option<(Token, i32)> {
        let mut state = self.lock();
        let poll = state.polls.get_mut(key as usize);
        let poll = poll.expect("it ends with the last completion");
        poll.on_event(completion.result());
        poll.stands = cqueue::more(completion.flags());
        if poll.is_retired {
            if !poll.stands {
                state.polls.remove(key as usize);
                cancellations.forget(Target::Poll(key));
            }
            return None;
        }
        poll.waiting.take().map(|token| (token, op::READY))
    }

    /// Whether results wait to be handed out.
    pub(super) fn are_done(&self) -> bool {
        self.are_done.load(Ordering::Relaxed)
    }

    /// Hands out results that came without a completion, so many at most.
    pub(super) fn take_done(&self, max: usize) -> vec::IntoIter<(Token, i32)> {
        if !self.are_done() {
            return Vec::new().into_iter();
        }
        let mut state = self.lock();
        let rest = state.done.len().saturating_sub(max);
        let taken = state.done.split_off(rest);
        self.are_done.store(rest > 0, Ordering::Relaxed);
        taken.into_iter()
    }

    /// Whether the kernel has any.
    pub(super) fn stand(&self) -> bool {
        self.lock().polls.iter().any(|(_, poll)| poll.stands)
    }

    fn give(&self, state: &mut State, token: Token, result: i32) {
        state.done.push((token, result));
        self.are_done.store(true, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Poll {
    fn on_event(&mut self, result: i32) {
        let events = u16::try_from(result).map_or(PollFlags::empty(), PollFlags::from_bits_retain);
        self.is_left |= result < 0 || events.contains(PollFlags::PRI);
        self.is_ready = !self.is_left;
        self.is_final |= events.intersects(FINAL);
    }

    /// Receives what is there, if something may be.
    fn attempt(&mut self, operation: &mut Operation<'_>) -> Option<i32> {
        if !self.is_ready {
            return None;
        }
        let Operation::Socket(operation) = operation else {
            unreachable!("only receives come here");
        };
        let Some(result) = native::socket::try_now(operation) else {
            self.is_ready = false;
            return None;
        };
        let SocketOperation::Receive { buffer, .. } = operation else {
            unreachable!("only receives come here");
        };
        let is_drained = match result {
            Err(_) => false,
            // The event of what comes from now on is still to come, but for what the final one has told.
            Ok(count) => (1..buffer.len()).contains(&(count as usize)),
        };
        self.is_ready = !is_drained || self.is_final;
        Some(in_one(result))
    }
}

//! One channel: the values on their way, and who waits at its ends.
//!
//! ```text
//!   send   the receiver waits, or there is room   -> into the queue, the receiver is woken
//!          otherwise                              -> into the line with the sender, who suspends
//!   recv   a value in the queue                   -> taken; the first in the line moves up, its
//!                                                    sender is woken
//!          none, but one in the line (bound 0)    -> taken, its sender is woken
//!          otherwise                              -> the receiver suspends
//! ```
//!
//! Either may wait for other things besides (`selecting.rs`). Such a sender is in the line as any, but its
//! value can be taken only by a claim; without room, such a receiver gets a value only by a claim.
//!
//! One lock guards it all. Nobody is woken and no value is dropped under it: a destructor may wait, or
//! use the channel. Whoever has waited looks at the state again and believes no wake-up.
//!
//! The two loops that wait are inlined in the fiber's own code, and what they call is not: a switch in a
//! deeper frame misleads the CPU about each return on the way up, which doubled the time of a round trip.

use std::collections::VecDeque;
use std::mem;
use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};
use std::sync::{OnceLock, PoisonError};
use std::time::Instant;

use crate::atomic::{Mutex, MutexGuard};
use crate::fiber::WakeHandle;
use crate::sched::wait;
use crate::sync::select::ArmHandle;

/// How much room an empty queue keeps, in values: enough that a steady stream allocates nothing, so
/// little that the memory of a burst is given back.
const ROOM_KEPT_MAX: usize = 4096;

pub(crate) struct Channel<T> {
    pub(super) bound: usize,
    state: Mutex<State<T>>,
    /// Whoever waited first to receive: mostly it stays that one, and is woken without a count of its
    /// references being touched.
    usual_receiver: OnceLock<WakeHandle>,
}

pub(super) struct State<T> {
    /// At most as many as the bound, and with bound 0 the one for a receiver that has been woken.
    pub(super) queue: VecDeque<T>,
    /// Values for which there is no room, by ticket. While there is room, only some that nobody can claim.
    pub(super) line: VecDeque<InLine<T>>,
    next_ticket: u64,
    pub(super) receiver: Receiving,
    pub(super) senders: usize,
    pub(super) receiver_gone: bool,
}

pub(super) struct InLine<T> {
    ticket: u64,
    value: T,
    /// Gone once it has been woken for the end of the receiver.
    pub(super) sender: Option<Side>,
}

/// Whether the receiver waits: only while there is neither a value nor an end.
pub(super) enum Receiving {
    Not,
    Usual,
    Unusual(Side),
}

/// A sender in the line, or a receiver.
pub(super) enum Side {
    Waits(WakeHandle),
    Selects(ArmHandle),
}

/// The senders.
impl<T> Channel<T> {
    /// A channel with one sender and its receiver.
    pub(crate) fn new(bound: usize) -> Channel<T> {
        Channel {
            bound,
            state: Mutex::new(State {
                queue: VecDeque::new(),
                line: VecDeque::new(),
                next_ticket: 0,
                receiver: Receiving::Not,
                senders: 1,
                receiver_gone: false,
            }),
            usual_receiver: OnceLock::new(),
        }
    }

    #[inline(always)]
    pub(crate) fn send(&self, value: T) -> Result<(), SendError<T>> {
        wait::spend_turn();
        let Some(ticket) = self.put_or_join_line(value)? else {
            return Ok(());
        };
        loop {
            let may_wait = wait::park_unless_cancelled();
            if let Some(result) = self.look_at_line(ticket, may_wait) {
                return result;
            }
        }
    }

    /// Puts the value into the queue, or into the line: the ticket then.
    #[inline(never)]
    fn put_or_join_line(&self, value: T) -> Result<Option<u64>, SendError<T>> {
        let mut state = self.lock();
        if state.receiver_gone {
            return Err(SendError(value));
        }
        if self.admit(&state) {
            self.put(state, value);
            return Ok(None);
        }
        Ok(Some(
            state.join_line(value, Side::Waits(wait::wake_handle())),
        ))
    }

    /// What became of the value with this ticket; none while it is in the line.
    #[inline(never)]
    fn look_at_line(&self, ticket: u64, may_wait: bool) -> Option<Result<(), SendError<T>>> {
        let mut state = self.lock();
        if !state.is_in_line(ticket) {
            return Some(Ok(()));
        }
        if may_wait && !state.receiver_gone {
            return None;
        }
        let refused = SendError(state.leave_line(ticket));
        let receiver_gone = state.receiver_gone;
        drop(state);
        if !receiver_gone {
            wait::unwind_if_cancelled();
        }
        Some(Err(refused))
    }

    pub(crate) fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        wait::spend_turn();
        self.try_send_unspent(value)
    }

    pub(super) fn try_send_unspent(&self, value: T) -> Result<(), TrySendError<T>> {
        let state = self.lock();
        if state.receiver_gone {
            return Err(TrySendError::Disconnected(value));
        }
        if !self.admit(&state) {
            return Err(TrySendError::Full(value));
        }
        self.put(state, value);
        Ok(())
    }

    /// Counts another sender.
    pub(crate) fn add_sender(&self) {
        self.lock().senders += 1;
    }

    /// Counts a sender out; the last one wakes the receiver.
    pub(crate) fn remove_sender(&self) {
        let mut state = self.lock();
        state.senders -= 1;
        if state.senders == 0 {
            self.wake_receiver(state);
        }
    }

    /// Whether the caller puts its value into the queue: there is room, or a receiver for it.
    fn admit(&self, state: &State<T>) -> bool {
        state.queue.len() < self.bound
            || match &state.receiver {
                Receiving::Not => false,
                Receiving::Usual => true,
                Receiving::Unusual(receiver) => receiver.claim(),
            }
    }

    /// Adds a value to the queue, to which it was admitted.
    fn put(&self, mut state: MutexGuard<'_, State<T>>, value: T) {
        state.queue.push_back(value);
        self.wake_receiver(state);
    }

    /// Unlocks the state, and wakes the receiver if it waits.
    fn wake_receiver(&self, mut state: MutexGuard<'_, State<T>>) {
        match state.receiver {
            Receiving::Not => {}
            Receiving::Usual => {
                state.receiver = Receiving::Not;
                drop(state);
                self.usual_receiver().wake();
            }
            Receiving::Unusual(_) => {
                let receiver = mem::replace(&mut state.receiver, Receiving::Not);
                drop(state);
                if let Receiving::Unusual(receiver) = receiver {
                    receiver.wake();
                }
            }
        }
    }

    /// Whoever waited first to receive; the caller, if nobody has.
    fn usual_receiver(&self) -> &WakeHandle {
        self.usual_receiver.get_or_init(wait::wake_handle)
    }
}

/// The receiver.
impl<T> Channel<T> {
    #[inline(always)]
    pub(crate) fn recv(&self) -> Result<T, RecvError> {
        wait::spend_turn();
        let mut may_wait = true;
        loop {
            if let Some(result) = self.receive(may_wait) {
                return result;
            }
            if !may_wait {
                wait::unwind_if_cancelled();
                return Err(RecvError);
            }
            may_wait = wait::park_unless_cancelled();
        }
    }

    pub(crate) fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        wait::spend_turn();
        loop {
            let shut_down = wait::is_cancelled();
            let may_wait = !shut_down && wait::now() < deadline;
            if let Some(result) = self.receive(may_wait) {
                return result.map_err(RecvTimeoutError::from);
            }
            if shut_down {
                wait::count_early_end();
            }
            if !may_wait {
                return Err(RecvTimeoutError::Timeout);
            }
            wait::park_deadline(deadline);
        }
    }

    /// Takes a value or learns of the end; none otherwise, and then it is noted whether the caller waits.
    #[inline(never)]
    fn receive(&self, waits: bool) -> Option<Result<T, RecvError>> {
        let mut state = self.lock();
        if let Some(value) = state.queue.pop_front() {
            return Some(Ok(self.make_room(state, value)));
        }
        if let Some(first) = state.take_first() {
            return Some(Ok(first.hand_over(state)));
        }
        if state.senders == 0 {
            return Some(Err(RecvError));
        }
        state.receiver = match waits {
            false => Receiving::Not,
            true if wait::is_caller(self.usual_receiver()) => Receiving::Usual,
            true => Receiving::Unusual(Side::Waits(wait::wake_handle())),
        };
        None
    }

    pub(crate) fn try_recv(&self) -> Result<T, TryRecvError> {
        wait::spend_turn();
        self.try_recv_unspent()
    }

    pub(super) fn try_recv_unspent(&self) -> Result<T, TryRecvError> {
        let mut state = self.lock();
        if let Some(value) = state.queue.pop_front() {
            return Ok(self.make_room(state, value));
        }
        match state.take_first() {
            Some(first) => Ok(first.hand_over(state)),
            None if state.senders == 0 => Err(TryRecvError::Disconnected),
            None => Err(TryRecvError::Empty),
        }
    }

    /// Ends the channel: who waits in the line gets its value back, what is in the queue is dropped.
    pub(crate) fn remove_receiver(&self) {
        let mut state = self.lock();
        state.receiver_gone = true;
        let values = mem::take(&mut state.queue);
        let line = state.line.iter_mut();
        let senders: Vec<_> = line.filter_map(|handle| handle.sender.take()).collect();
        drop(state);
        senders.iter().for_each(Side::wake);
        drop(values);
    }
}

impl<T> Channel<T> {
    /// After a value was taken from the queue: the first in the line moves up, or the memory of a burst is
    /// given back.
    fn make_room(&self, mut state: MutexGuard<'_, State<T>>, taken: T) -> T {
        if state.queue.len() < self.bound
            && let Some(first) = state.take_first()
        {
            state.queue.push_back(first.value);
            drop(state);
            wake(first.sender);
        } else if state.queue.is_empty() && state.queue.capacity() > ROOM_KEPT_MAX {
            state.queue = VecDeque::new();
        }
        taken
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(sender: Option<Side>) {
    if let Some(sender) = sender {
        sender.wake();
    }
}

impl Side {
    fn wake(&self) {
        match self {
            Side::Waits(waiter) => waiter.wake(),
            Side::Selects(handle) => handle.wake(),
        }
    }

    /// Whether the caller may exchange a value with it: not if it has chosen otherwise, and is about to
    /// leave.
    fn claim(&self) -> bool {
        match self {
            Side::Waits(_) => true,
            Side::Selects(handle) => handle.claim(),
        }
    }

    /// Whether `other`, which chooses too, could claim it.
    pub(super) fn may_meet(&self, other: &ArmHandle) -> bool {
        match self {
            Side::Waits(_) => true,
            Side::Selects(handle) => handle.may_meet(other),
        }
    }
}

impl<T> InLine<T> {
    /// Lets the sender go on, and returns its value.
    fn hand_over(self, state: MutexGuard<'_, State<T>>) -> T {
        drop(state);
        wake(self.sender);
        self.value
    }
}

impl<T> State<T> {
    /// Takes the first in the line whose value can be had.
    #[inline]
    fn take_first(&mut self) -> Option<InLine<T>> {
        match self.line.front()?.sender {
            Some(Side::Waits(_)) => self.line.pop_front(),
            _ => self.claim_first(),
        }
    }

    #[inline(never)]
    fn claim_first(&mut self) -> Option<InLine<T>> {
        let mut senders = self.line.iter().map(|in_line| in_line.sender.as_ref());
        let index = senders.position(|sender| sender.is_none_or(Side::claim))?;
        self.line.remove(index)
    }

    /// Puts a value and its sender at the end of the line; its ticket.
    pub(super) fn join_line(&mut self, value: T, sender: Side) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.line.push_back(InLine {
            ticket,
            value,
            sender: Some(sender),
        });
        ticket
    }

    /// Whether the value with this ticket has not been taken.
    fn is_in_line(&self, ticket: u64) -> bool {
        self.find_in_line(ticket).is_ok()
    }

    /// Takes a value that is in line back.
    fn leave_line(&mut self, ticket: u64) -> T {
        self.try_leave_line(ticket).expect("it is in line")
    }

    /// Takes a value back; none if it was taken.
    pub(super) fn try_leave_line(&mut self, ticket: u64) -> Option<T> {
        let index = self.find_in_line(ticket).ok()?;
        self.line.remove(index).map(|handle| handle.value)
    }

    fn find_in_line(&self, ticket: u64) -> Result<usize, usize> {
        self.line
            .binary_search_by_key(&ticket, |handle| handle.ticket)
    }
}

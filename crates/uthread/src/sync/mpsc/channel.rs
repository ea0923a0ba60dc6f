//! The state of a channel: queued values, and the waiters at both ends.
//!
//! ```text
//!   send   the receiver waits, or there is space  -> append to the queue, wake the receiver
//!          otherwise                              -> enter the line with the value, suspend
//!   recv   the queue has a value                  -> take it; move the first value of the line to the queue, and
//!                                                    wake its sender
//!          the queue is empty, the line is not    -> take the first value of the line, wake its sender (bound 0)
//!          otherwise                              -> suspend
//! ```
//!
//! The *line* holds values for which the queue has no space, with their senders. Either end may be
//! part of a `select!` (`selecting.rs`). The value of such a sender can be taken only by a claim,
//! and such a receiver gets a value from a rendezvous only by a claim. A channel of `mpmc` has
//! several receivers (`receivers.rs`, `sharing.rs`).
//!
//! One lock guards the state. No waiter is woken and no value dropped under it, as a destructor may
//! wait or use the channel. A woken waiter inspects the state again.
//!
//! The two loops that wait are inlined into the fiber's code. A switch in a deeper frame makes the
//! CPU mispredict each return on the way up, which doubled the time of a round trip.
#![allow(
    clippy::inline_always,
    reason = "hot paths, whose instructions are counted"
)]

use std::collections::VecDeque;
use std::mem;
use std::sync::OnceLock;
use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};
use std::time::Instant;

use super::receivers::Receivers;
use super::side::Side;
use crate::atomic::{Mutex, MutexGuard, lock};
use crate::fiber::WakeHandle;
use crate::sched::caller::{self, cancellation, turn, wait};

/// Maximum capacity that an empty queue keeps, in values: a steady stream allocates nothing, and
/// the memory of a burst is returned.
pub(super) const ROOM_KEPT_MAX: usize = 4096;

pub(crate) struct Channel<T> {
    pub(crate) bound: usize,
    state: Mutex<State<T>>,
    /// The first fiber or thread that has waited to receive, which usually remains the only one. It
    /// can be woken without counting a reference.
    usual_receiver: OnceLock<WakeHandle>,
}

pub(super) struct State<T> {
    /// At most `bound` values; with bound 0, the one value for a receiver that was woken.
    pub(super) queue: VecDeque<T>,
    /// Values without space in the queue, by ticket. While there is space, only values that cannot
    /// be claimed.
    pub(super) line: VecDeque<InLine<T>>,
    next_ticket: u64,
    pub(super) receiver: Receiving,
    /// The receivers of a channel of `mpmc`.
    pub(super) receivers: Option<Box<Receivers>>,
    pub(super) senders: usize,
    pub(super) receiver_gone: bool,
}

pub(super) struct InLine<T> {
    ticket: u64,
    pub(super) value: T,
    /// `None` once the sender was woken because the receiver is gone.
    pub(super) sender: Option<Side>,
}

/// The state of the receiver, or of several. The receiver waits only while there is no value and a
/// sender exists.
pub(super) enum Receiving {
    Not,
    Usual,
    Unusual(Side),
    /// Several receivers: those of `State::receivers`.
    Several,
}

/// Methods of the senders.
impl<T> Channel<T> {
    /// Creates a channel with one sender and its receiver.
    pub(crate) fn new(bound: usize) -> Channel<T> {
        Channel {
            bound,
            state: Mutex::new(State {
                queue: VecDeque::new(),
                line: VecDeque::new(),
                next_ticket: 0,
                receiver: Receiving::Not,
                receivers: None,
                senders: 1,
                receiver_gone: false,
            }),
            usual_receiver: OnceLock::new(),
        }
    }

    #[inline(always)]
    pub(crate) fn send(&self, value: T) -> Result<(), SendError<T>> {
        turn::spend();
        let Some(ticket) = self.put_or_join_line(value)? else {
            return Ok(());
        };
        loop {
            let may_wait = wait::park_until_cancelled();
            if let Some(result) = self.look_at_line(ticket, may_wait) {
                return result;
            }
        }
    }

    /// Appends the value to the queue and returns `None`, or enters the line and returns the
    /// ticket.
    pub(super) fn put_or_join_line(&self, value: T) -> Result<Option<u64>, SendError<T>> {
        let mut state = self.lock();
        if state.receiver_gone {
            return Err(SendError(value));
        }
        if self.admit(&mut state) {
            self.put(state, value);
            return Ok(None);
        }
        Ok(Some(
            state.join_line(value, Side::Waits(caller::wake_handle())),
        ))
    }

    /// Returns the result for the value with this ticket, or `None` while it is in the line and the
    /// caller may wait.
    fn look_at_line(&self, ticket: u64, may_wait: bool) -> Option<Result<(), SendError<T>>> {
        let mut state = self.lock();
        if !state.is_in_line(ticket) {
            drop(state);
            if !may_wait {
                cancellation::vanish_if_abandoned(cancellation::IN_A_CALL);
            }
            return Some(Ok(()));
        }
        if may_wait && !state.receiver_gone {
            return None;
        }
        let refused = SendError(state.leave_line(ticket));
        let receiver_gone = state.receiver_gone;
        drop(state);
        if !may_wait {
            cancellation::vanish_if_abandoned(cancellation::IN_A_CALL);
        }
        if !receiver_gone {
            cancellation::unwind_if_cancelled();
        }
        Some(Err(refused))
    }

    pub(crate) fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        turn::spend();
        self.try_send_unspent(value)
    }

    pub(super) fn try_send_unspent(&self, value: T) -> Result<(), TrySendError<T>> {
        let mut state = self.lock();
        if state.receiver_gone {
            return Err(TrySendError::Disconnected(value));
        }
        if !self.admit(&mut state) {
            return Err(TrySendError::Full(value));
        }
        self.put(state, value);
        Ok(())
    }

    /// Counts a new sender.
    pub(crate) fn add_sender(&self) {
        self.lock().senders += 1;
    }

    /// Counts a dropped sender. The last one wakes the receiver, or all.
    pub(crate) fn remove_sender(&self) {
        let mut state = self.lock();
        state.senders -= 1;
        if state.senders > 0 {
            return;
        }
        if let Some(receivers) = &mut state.receivers {
            let waiting = receivers.take_all();
            drop(state);
            waiting.iter().for_each(|(_, receiver)| receiver.wake());
        } else {
            self.wake_receiver(state);
        }
    }

    /// Returns `true` if the queue accepts a value: there is space, or a receiver for it.
    fn admit(&self, state: &mut State<T>) -> bool {
        state.queue.len() < self.bound
            || match &state.receiver {
                Receiving::Not => false,
                Receiving::Usual => true,
                Receiving::Unusual(receiver) => receiver.claim(),
                Receiving::Several => state.choose_receiver(),
            }
    }

    /// Appends a value that the queue accepts.
    fn put(&self, mut state: MutexGuard<'_, State<T>>, value: T) {
        state.queue.push_back(value);
        self.wake_receiver(state);
    }

    /// Unlocks the state, and wakes the receiver if it waits, or one of several.
    fn wake_receiver(&self, mut state: MutexGuard<'_, State<T>>) {
        match state.receiver {
            Receiving::Not => {}
            Receiving::Usual => {
                state.receiver = Receiving::Not;
                drop(state);
                self.usual_receiver().wake();
            }
            Receiving::Several => wake_chosen(state),
            Receiving::Unusual(_) => {
                let receiver = mem::replace(&mut state.receiver, Receiving::Not);
                drop(state);
                if let Receiving::Unusual(receiver) = receiver {
                    receiver.wake();
                }
            }
        }
    }

    /// Returns the first fiber or thread that has waited to receive, or the caller if there was
    /// none.
    fn usual_receiver(&self) -> &WakeHandle {
        self.usual_receiver.get_or_init(caller::wake_handle)
    }
}

/// Methods of the receiver.
impl<T> Channel<T> {
    #[inline(always)]
    pub(crate) fn recv(&self) -> Result<T, RecvError> {
        turn::spend();
        let mut may_wait = true;
        loop {
            if let Some(result) = self.receive(may_wait) {
                return result;
            }
            if !may_wait {
                cancellation::unwind_if_cancelled();
                return Err(RecvError);
            }
            may_wait = wait::park_until_cancelled();
            if !may_wait {
                self.stop_receiving_if_abandoned();
            }
        }
    }

    /// Does not return if the runtime of the caller, which has waited, abandons it: the values
    /// stay.
    #[cold]
    fn stop_receiving_if_abandoned(&self) {
        if cancellation::is_abandoned() {
            self.lock().receiver = Receiving::Not;
            cancellation::vanish_if_abandoned(cancellation::IN_A_CALL);
        }
    }

    pub(crate) fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        turn::spend();
        loop {
            let shut_down = cancellation::is_cancelled();
            let may_wait = !shut_down && caller::now() < deadline;
            if let Some(result) = self.receive(may_wait) {
                return result.map_err(RecvTimeoutError::from);
            }
            if shut_down {
                cancellation::count_early_end();
            }
            if !may_wait {
                return Err(RecvTimeoutError::Timeout);
            }
            wait::park_deadline(deadline);
            if cancellation::is_cancelled() {
                self.stop_receiving_if_abandoned();
            }
        }
    }

    /// Takes a value, or reports that all senders are gone. Returns `None` if there is neither, and
    /// records whether the caller waits.
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
        state.receiver = if !waits {
            Receiving::Not
        } else if caller::is_caller(self.usual_receiver()) {
            Receiving::Usual
        } else {
            Receiving::Unusual(Side::Waits(caller::wake_handle()))
        };
        None
    }

    pub(crate) fn try_recv(&self) -> Result<T, TryRecvError> {
        turn::spend();
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

    /// Closes the channel: senders in the line get their values back, and queued values are
    /// dropped.
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
    /// Moves the first value of the line up, or frees the memory of a burst. Called after a value
    /// was taken from the queue.
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
        lock(&self.state)
    }
}

/// Wakes the chosen receiver. Out of the way of channels with one receiver.
#[cold]
fn wake_chosen<T>(mut state: MutexGuard<'_, State<T>>) {
    let chosen = state.receivers().take_chosen();
    drop(state);
    wake(chosen);
}

fn wake(sender: Option<Side>) {
    if let Some(sender) = sender {
        sender.wake();
    }
}

impl<T> InLine<T> {
    /// Wakes the sender and returns its value.
    fn hand_over(self, state: MutexGuard<'_, State<T>>) -> T {
        drop(state);
        wake(self.sender);
        self.value
    }
}

impl<T> State<T> {
    /// Returns the receivers of a channel of `mpmc`.
    pub(super) fn receivers(&mut self) -> &mut Receivers {
        self.receivers
            .as_mut()
            .expect("the channel was created with several receivers")
    }

    #[cold]
    fn choose_receiver(&mut self) -> bool {
        self.receivers().choose()
    }

    /// Removes the first value of the line that can be claimed.
    #[inline]
    pub(super) fn take_first(&mut self) -> Option<InLine<T>> {
        match &self.line.front()?.sender {
            Some(Side::Waits(sender)) if !sender.is_abandoned() => self.line.pop_front(),
            _ => self.claim_first(),
        }
    }

    #[cold]
    fn claim_first(&mut self) -> Option<InLine<T>> {
        let mut senders = self.line.iter().map(|in_line| in_line.sender.as_ref());
        let index = senders.position(|sender| sender.is_none_or(Side::claim))?;
        self.line.remove(index)
    }

    /// Appends a value and its sender to the line, and returns the ticket.
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

    /// Returns `true` if the value with this ticket is still in the line.
    pub(super) fn is_in_line(&self, ticket: u64) -> bool {
        self.find_in_line(ticket).is_ok()
    }

    /// Removes a value that is in the line.
    pub(super) fn leave_line(&mut self, ticket: u64) -> T {
        self.try_leave_line(ticket).expect("the value is in line")
    }

    /// Removes a value from the line; `None` if it was taken.
    pub(super) fn try_leave_line(&mut self, ticket: u64) -> Option<T> {
        let index = self.find_in_line(ticket).ok()?;
        self.line.remove(index).map(|handle| handle.value)
    }

    fn find_in_line(&self, ticket: u64) -> Result<usize, usize> {
        self.line
            .binary_search_by_key(&ticket, |handle| handle.ticket)
    }
}

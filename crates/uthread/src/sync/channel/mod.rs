//! The engine of the channels of [`mpsc`](super::mpsc) and [`mpmc`](super::mpmc): queued values,
//! and the waiters at both ends. A channel of `mpsc` is one whose receiver cannot be cloned.
//!
//! ```text
//!   send   the queue has space, or a receiver waits  -> append to the queue, wake a receiver
//!          otherwise                                 -> join the blocked senders with the value, suspend
//!   recv   the queue has a value                     -> take it; move the first blocked value to the
//!                                                       queue, and wake its sender
//!          a sender is blocked (bound 0)             -> take its value, wake it
//!          otherwise                                 -> join the waiting receivers, suspend
//! ```
//!
//! Either end may be part of a `select!` (`selecting.rs`). The value of such a sender can be taken
//! only by a claim, and such a receiver gets a value only by a claim.
//!
//! One lock guards the state. No waiter is woken and no value dropped under it, as a destructor may
//! wait or use the channel. A woken waiter inspects the state again: the protocol of the receivers
//! is in `receivers.rs`.
//!
//! The two loops that wait are inlined into the fiber's code. A switch in a deeper frame makes the
//! CPU mispredict each return on the way up, which doubled the time of a round trip.
#![allow(
    clippy::inline_always,
    reason = "hot paths, whose instructions are counted"
)]

mod blocked;
mod receivers;
pub(crate) mod selecting;
mod waiter;

use std::collections::VecDeque;
use std::mem;
use std::sync::OnceLock;
use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};
use std::time::Instant;

use self::blocked::BlockedSenders;
use self::receivers::WaitingReceivers;
use self::waiter::Waiter;
use crate::atomic::{Mutex, MutexGuard, lock};
use crate::fiber::WakeHandle;
use crate::sched::caller::{self, cancellation, turn, wait};

/// The bound of a channel without a bound.
pub(crate) const UNBOUNDED: usize = usize::MAX;

/// Maximum capacity that an empty queue keeps, in values: a steady stream allocates nothing, and
/// the memory of a burst is returned.
const ROOM_KEPT_MAX: usize = 4096;

pub(crate) struct Channel<T> {
    pub(crate) bound: usize,
    state: Mutex<ChannelQueue<T>>,
    /// The first fiber or thread that has waited to receive, which usually remains the only one. It
    /// can be woken without counting a reference.
    usual_receiver: OnceLock<WakeHandle>,
}

struct ChannelQueue<T> {
    /// At most `bound` values; with bound 0, those for receivers that were woken.
    queue: VecDeque<T>,
    /// Senders of values without space in the queue. While there is space, only senders that cannot
    /// be claimed.
    blocked: BlockedSenders<T>,
    waiting: WaitingReceivers,
    senders: usize,
    receivers: usize,
}

/// The outcome of an attempt to send.
enum Put<'a, T> {
    Done,
    /// There is no receiver.
    Closed(T),
    /// There is no space, and no receiver waits.
    Full(MutexGuard<'a, ChannelQueue<T>>, T),
}

/// The outcome of an attempt to receive.
enum Taken<'a, T> {
    Value(T),
    /// There is no value, and no sender.
    Closed,
    Nothing(MutexGuard<'a, ChannelQueue<T>>),
}

impl<T> Channel<T> {
    /// Creates a channel with one sender and one receiver.
    pub(crate) fn new(bound: usize) -> Channel<T> {
        Channel {
            bound,
            state: Mutex::new(ChannelQueue {
                queue: VecDeque::new(),
                blocked: BlockedSenders::default(),
                waiting: WaitingReceivers::default(),
                senders: 1,
                receivers: 1,
            }),
            usual_receiver: OnceLock::new(),
        }
    }

    /// Returns the number of values that wait to be received, without those of blocked senders.
    pub(crate) fn len(&self) -> usize {
        self.lock().queue.len().min(self.bound)
    }

    fn lock(&self) -> MutexGuard<'_, ChannelQueue<T>> {
        lock(&self.state)
    }

    /// Returns the first fiber or thread that has waited to receive, or the caller if there was
    /// none.
    fn usual_receiver(&self) -> &WakeHandle {
        self.usual_receiver.get_or_init(caller::wake_handle)
    }
}

/// Methods of the senders.
impl<T> Channel<T> {
    #[inline(always)]
    pub(crate) fn send(&self, value: T) -> Result<(), SendError<T>> {
        turn::spend();
        let Some(ticket) = self.put_or_block(value)? else {
            return Ok(());
        };
        loop {
            let may_wait = wait::park_until_cancelled();
            if let Some(sent) = self.outcome(ticket, may_wait) {
                if !may_wait {
                    end_cancelled_send(&sent);
                }
                return sent.map_err(refused);
            }
        }
    }

    /// Sends a value, waiting at most until the deadline.
    ///
    /// # Errors
    ///
    /// `Full` if there was no space until then, or until the caller was cancelled; `Disconnected`
    /// if all receivers are gone.
    pub(crate) fn send_deadline(&self, value: T, deadline: Instant) -> Result<(), TrySendError<T>> {
        turn::spend();
        let Some(ticket) = self.put_or_block(value)? else {
            return Ok(());
        };
        loop {
            let cancelled = cancellation::is_cancelled();
            let may_wait = !cancelled && caller::now() < deadline;
            if let Some(sent) = self.outcome(ticket, may_wait) {
                if cancelled {
                    cancellation::vanish_if_abandoned(cancellation::IN_A_CALL);
                }
                if cancelled && matches!(sent, Err(TrySendError::Full(_))) {
                    cancellation::count_early_end();
                }
                return sent;
            }
            wait::park_deadline(deadline);
        }
    }

    /// Appends the value to the queue and returns `None`, or blocks the caller as a sender and
    /// returns the ticket.
    fn put_or_block(&self, value: T) -> Result<Option<u64>, SendError<T>> {
        match self.put(value) {
            Put::Done => Ok(None),
            Put::Closed(value) => Err(SendError(value)),
            Put::Full(mut state, value) => {
                let sender = Waiter::Waits(caller::wake_handle());
                Ok(Some(state.blocked.add(value, sender)))
            }
        }
    }

    /// Returns the result for the blocked value with this ticket, or `None` while it is blocked and
    /// the caller may wait.
    fn outcome(&self, ticket: u64, may_wait: bool) -> Option<Result<(), TrySendError<T>>> {
        let mut state = self.lock();
        if may_wait && state.receivers > 0 && state.blocked.contains(ticket) {
            return None;
        }
        let Some(value) = state.blocked.remove(ticket) else {
            return Some(Ok(()));
        };
        Some(Err(match state.receivers {
            0 => TrySendError::Disconnected(value),
            _ => TrySendError::Full(value),
        }))
    }

    pub(crate) fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        turn::spend();
        self.try_send_unspent(value)
    }

    fn try_send_unspent(&self, value: T) -> Result<(), TrySendError<T>> {
        match self.put(value) {
            Put::Done => Ok(()),
            Put::Closed(value) => Err(TrySendError::Disconnected(value)),
            Put::Full(_, value) => Err(TrySendError::Full(value)),
        }
    }

    /// Appends the value to the queue and wakes a receiver, if there is space or a receiver for it.
    fn put(&self, value: T) -> Put<'_, T> {
        let mut state = self.lock();
        if state.receivers == 0 {
            return Put::Closed(value);
        }
        if state.queue.len() < self.bound || self.can_wake_usual(&state) {
            state.queue.push_back(value);
            self.wake_receiver(state);
            return Put::Done;
        }
        let Some(receiver) = state.waiting.choose() else {
            return Put::Full(state, value);
        };
        state.queue.push_back(value);
        drop(state);
        receiver.wake();
        Put::Done
    }

    /// Returns `true` if the usual receiver waits, and will take a value.
    fn can_wake_usual(&self, state: &ChannelQueue<T>) -> bool {
        state.waiting.usual && !self.usual_receiver().is_abandoned()
    }

    /// Unlocks the state, and wakes the receiver that has waited for longest and is not abandoned, if
    /// any waits.
    fn wake_receiver(&self, mut state: MutexGuard<'_, ChannelQueue<T>>) {
        // If it is abandoned, the value goes to one of the others.
        let is_only = state.waiting.has_no_others();
        if state.waiting.usual && (is_only || !self.usual_receiver().is_abandoned()) {
            state.waiting.usual = false;
            drop(state);
            self.usual_receiver().wake();
        } else if let Some(receiver) = state.waiting.choose() {
            drop(state);
            receiver.wake();
        }
    }

    /// Counts a new sender.
    pub(crate) fn add_sender(&self) {
        self.lock().senders += 1;
    }

    /// Counts a dropped sender. The last one wakes all receivers.
    pub(crate) fn remove_sender(&self) {
        let mut state = self.lock();
        state.senders -= 1;
        if state.senders > 0 {
            return;
        }
        let usual = mem::take(&mut state.waiting.usual);
        let others = state.waiting.take_others();
        drop(state);
        if usual {
            self.usual_receiver().wake();
        }
        others.iter().for_each(|(_, receiver)| receiver.wake());
    }
}

/// Methods of the receivers.
impl<T> Channel<T> {
    #[inline(always)]
    pub(crate) fn recv(&self) -> Result<T, RecvError> {
        turn::spend();
        let mut ticket = None;
        let mut may_wait = true;
        loop {
            if let Some(result) = self.receive(&mut ticket, may_wait) {
                return result;
            }
            if !may_wait {
                cancellation::unwind_if_cancelled();
                return Err(RecvError);
            }
            may_wait = wait::park_until_cancelled();
            if !may_wait {
                self.stop_waiting_if_abandoned(&mut ticket);
            }
        }
    }

    pub(crate) fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        turn::spend();
        let mut ticket = None;
        loop {
            let cancelled = cancellation::is_cancelled();
            let may_wait = !cancelled && caller::now() < deadline;
            if let Some(result) = self.receive(&mut ticket, may_wait) {
                return result.map_err(RecvTimeoutError::from);
            }
            if cancelled {
                cancellation::count_early_end();
            }
            if !may_wait {
                return Err(RecvTimeoutError::Timeout);
            }
            wait::park_deadline(deadline);
            if cancellation::is_cancelled() {
                self.stop_waiting_if_abandoned(&mut ticket);
            }
        }
    }

    /// Takes a value, or reports that all senders are gone. Returns `None` if there is neither, and
    /// records whether the caller waits.
    fn receive(&self, ticket: &mut Option<u64>, waits: bool) -> Option<Result<T, RecvError>> {
        match self.take(self.lock(), ticket) {
            Taken::Value(value) => Some(Ok(value)),
            Taken::Closed => Some(Err(RecvError)),
            Taken::Nothing(mut state) => {
                if waits {
                    self.await_value(&mut state, ticket);
                } else {
                    self.stop_waiting(&mut state, ticket);
                }
                None
            }
        }
    }

    pub(crate) fn try_recv(&self) -> Result<T, TryRecvError> {
        turn::spend();
        self.try_recv_unspent()
    }

    fn try_recv_unspent(&self) -> Result<T, TryRecvError> {
        match self.take(self.lock(), &mut None) {
            Taken::Value(value) => Ok(value),
            Taken::Closed => Err(TryRecvError::Disconnected),
            Taken::Nothing(_) => Err(TryRecvError::Empty),
        }
    }

    /// Takes a value. If there is one, or there will be none, the caller waits no longer.
    #[inline(always)]
    fn take<'a>(
        &self,
        mut state: MutexGuard<'a, ChannelQueue<T>>,
        ticket: &mut Option<u64>,
    ) -> Taken<'a, T> {
        if state.has_free_value()
            && let Some(value) = state.queue.pop_front()
        {
            self.stop_waiting(&mut state, ticket);
            self.make_room(state);
            return Taken::Value(value);
        }
        if let Some(first) = state.blocked.take_first() {
            self.stop_waiting(&mut state, ticket);
            let value = state.exchange_reserved(first.value);
            drop(state);
            wake(first.sender);
            return Taken::Value(value);
        }
        if state.senders == 0 {
            return Taken::Closed;
        }
        Taken::Nothing(state)
    }

    /// Moves the first blocked value to the queue, or frees the memory of a burst. Called after a
    /// value was taken from the queue.
    fn make_room(&self, mut state: MutexGuard<'_, ChannelQueue<T>>) {
        if state.queue.len() < self.bound
            && let Some(first) = state.blocked.take_first()
        {
            state.queue.push_back(first.value);
            drop(state);
            wake(first.sender);
        } else if state.queue.is_empty() && state.queue.capacity() > ROOM_KEPT_MAX {
            state.queue = VecDeque::new();
        }
    }

    /// Makes the caller a waiting receiver, unless it is one. The usual receiver has no ticket if
    /// no other one has waited for longer.
    fn await_value(&self, state: &mut ChannelQueue<T>, ticket: &mut Option<u64>) {
        let waiting = &mut state.waiting;
        if (waiting.usual || waiting.has_no_others()) && caller::is_caller(self.usual_receiver()) {
            waiting.usual = true;
        } else {
            waiting.await_with(ticket);
        }
    }

    /// Ends the caller's wait. Returns `false` if it was chosen for a value, or did not wait.
    #[inline(always)]
    fn stop_waiting(&self, state: &mut ChannelQueue<T>, ticket: &mut Option<u64>) -> bool {
        if state.waiting.usual || ticket.is_some() {
            return self.withdraw(&mut state.waiting, ticket.take());
        }
        false
    }

    #[cold]
    fn withdraw(&self, waiting: &mut WaitingReceivers, ticket: Option<u64>) -> bool {
        if waiting.usual && caller::is_caller(self.usual_receiver()) {
            waiting.usual = false;
            return true;
        }
        ticket.is_some_and(|ticket| waiting.withdraw(ticket))
    }

    /// Does not return if the runtime of the caller, which has waited, abandons it: the values
    /// stay. If the caller was chosen for a value, another receiver is woken for it.
    #[cold]
    fn stop_waiting_if_abandoned(&self, ticket: &mut Option<u64>) {
        if !cancellation::is_abandoned() {
            return;
        }
        let mut state = self.lock();
        if !self.stop_waiting(&mut state, ticket) && state.has_free_value() {
            self.wake_receiver(state);
        } else {
            drop(state);
        }
        cancellation::vanish_if_abandoned(cancellation::IN_A_CALL);
    }

    /// Counts a new receiver.
    pub(crate) fn add_receiver(&self) {
        self.lock().receivers += 1;
    }

    /// Counts a dropped receiver. The last one closes the channel: blocked senders get their values
    /// back, and queued values are dropped.
    pub(crate) fn remove_receiver(&self) {
        let mut state = self.lock();
        state.receivers -= 1;
        if state.receivers > 0 {
            return;
        }
        let values = mem::take(&mut state.queue);
        let senders = state.blocked.take_waiters();
        drop(state);
        senders.iter().for_each(Waiter::wake);
        drop(values);
    }
}

impl<T> ChannelQueue<T> {
    /// Returns `true` if the queue has a value that is not reserved for a claimed selection.
    fn has_free_value(&self) -> bool {
        self.queue.len() > self.waiting.reserved()
    }

    /// Returns the oldest value, if all values of the queue are reserved and this one is to be
    /// taken.
    fn exchange_reserved(&mut self, newest: T) -> T {
        if self.queue.is_empty() {
            return newest;
        }
        self.queue.push_back(newest);
        self.queue.pop_front().expect("the queue has a value")
    }
}

/// Leaves the call of a sender that was cancelled while it waited. Returns if it cannot be unwound,
/// or need not be, as the value was sent or the receivers are gone.
#[cold]
fn end_cancelled_send<T>(sent: &Result<(), TrySendError<T>>) {
    cancellation::vanish_if_abandoned(cancellation::IN_A_CALL);
    if let Err(TrySendError::Full(_)) = sent {
        cancellation::unwind_if_cancelled();
    }
}

fn refused<T>(error: TrySendError<T>) -> SendError<T> {
    match error {
        TrySendError::Full(value) | TrySendError::Disconnected(value) => SendError(value),
    }
}

fn wake(sender: Option<Waiter>) {
    if let Some(sender) = sender {
        sender.wake();
    }
}

//! A mutex that notifies: state under a lock, and the waiters for a change of it.
//!
//! ```text
//!   change   modify the state under the lock; then wake all waiters
//!   wait     inspect the state under the lock; if it does not fit -> enlist as a waiter, and suspend
//! ```
//!
//! A waiter enlists under the lock under which it has inspected the state, so that no change comes
//! in between. Nobody is woken under the lock. A woken waiter inspects the state again.

use std::mem;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

use crate::atomic::{Mutex, MutexGuard, lock};
use crate::fiber::WakeHandle;
use crate::sched::caller::{self, cancellation, turn, wait};

pub(crate) struct NotifyMutex<S> {
    inside: Mutex<Inside<S>>,
}

struct Inside<S> {
    state: S,
    /// Waiters by id. Bounded by the number of fibers and threads.
    waiting: Vec<(WaiterId, WakeHandle)>,
    next_id: u64,
}

/// Identifies a waiter of this mutex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaiterId(u64);

/// How a caller that may have to wait tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    /// If it fails, the caller waits, and has to be enlisted.
    Wait,
    /// If it fails, the caller does not wait any more.
    Last,
    /// The runtime abandons the caller, which must take nothing, and leaves for ever.
    Leave,
}

/// Calls `attempt` until it returns a value, and waits between the calls, at most until the
/// deadline.
///
/// # Errors
///
/// `Timeout` at the deadline, or, if there is one, when the caller is cancelled; `Disconnected` if
/// the caller is cancelled but cannot be unwound.
fn retry_until<R>(
    deadline: Option<Instant>,
    mut attempt: impl FnMut(Attempt) -> Option<R>,
) -> Result<R, RecvTimeoutError> {
    turn::spend();
    loop {
        let cancelled = cancellation::is_cancelled();
        let abandoned = cancelled && cancellation::is_abandoned();
        let late = deadline.is_some_and(|deadline| caller::now() >= deadline);
        let kind = match (cancelled, late) {
            (false, false) => Attempt::Wait,
            _ if abandoned => Attempt::Leave,
            _ => Attempt::Last,
        };
        if let Some(found) = attempt(kind) {
            return Ok(found);
        }
        if abandoned {
            cancellation::vanish_if_abandoned(cancellation::IN_A_CALL);
        }
        if cancelled && deadline.is_none() {
            cancellation::unwind_if_cancelled();
            return Err(RecvTimeoutError::Disconnected);
        }
        if cancelled {
            cancellation::count_early_end();
        }
        if cancelled || late {
            return Err(RecvTimeoutError::Timeout);
        }
        match deadline {
            Some(deadline) => wait::park_deadline(deadline),
            None => drop(wait::park_unless_cancelled()),
        }
    }
}

impl<S> NotifyMutex<S> {
    pub(crate) fn new(state: S) -> NotifyMutex<S> {
        NotifyMutex {
            inside: Mutex::new(Inside {
                state,
                waiting: Vec::new(),
                next_id: 0,
            }),
        }
    }

    /// Inspects the state, or makes a change that no waiter waits for. The result of `action` is
    /// dropped after the lock is released.
    pub(crate) fn with<R>(&self, action: impl FnOnce(&mut S) -> R) -> R {
        action(&mut self.lock().state)
    }

    /// Changes the state and wakes all waiters.
    pub(crate) fn change<R>(&self, action: impl FnOnce(&mut S) -> R) -> R {
        let mut inside = self.lock();
        let result = action(&mut inside.state);
        let waiting = mem::take(&mut inside.waiting);
        drop(inside);
        waiting.iter().for_each(|(_, waiter)| waiter.wake());
        result
    }

    /// Waits until `look` returns a value, at most until the deadline.
    ///
    /// # Errors
    ///
    /// `Timeout` at the deadline, or, if there is one, when the caller is cancelled; `Disconnected`
    /// if the caller is cancelled but cannot be unwound.
    pub(crate) fn wait<R>(
        &self,
        deadline: Option<Instant>,
        mut look: impl FnMut(&mut S) -> Option<R>,
    ) -> Result<R, RecvTimeoutError> {
        let mut id = None;
        retry_until(deadline, |attempt| self.look(&mut id, attempt, &mut look))
    }

    /// Calls `look` once, unless the caller leaves. Registers the caller as a waiter if that
    /// returns nothing and the caller may wait.
    fn look<R>(
        &self,
        id: &mut Option<WaiterId>,
        attempt: Attempt,
        look: impl FnOnce(&mut S) -> Option<R>,
    ) -> Option<R> {
        let mut inside = self.lock();
        let found = match attempt {
            Attempt::Leave => None,
            Attempt::Wait | Attempt::Last => look(&mut inside.state),
        };
        let waits = attempt == Attempt::Wait && found.is_none();
        match (id.and_then(|id| inside.find(id)), waits) {
            (None, true) => *id = Some(inside.enlist(caller::wake_handle())),
            (Some(index), false) => drop(inside.waiting.remove(index)),
            _ => {}
        }
        found
    }

    /// Registers a waiter for the next change, unless the state is `ready`.
    pub(crate) fn enlist(
        &self,
        waiter: impl FnOnce() -> WakeHandle,
        ready: impl FnOnce(&S) -> bool,
    ) -> Option<WaiterId> {
        let mut inside = self.lock();
        let ready = ready(&inside.state);
        (!ready).then(|| inside.enlist(waiter()))
    }

    /// Removes a registered waiter.
    pub(crate) fn withdraw(&self, id: WaiterId) {
        let mut inside = self.lock();
        if let Some(index) = inside.find(id) {
            inside.waiting.remove(index);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside<S>> {
        lock(&self.inside)
    }
}

impl<S> Inside<S> {
    fn enlist(&mut self, waiter: WakeHandle) -> WaiterId {
        let id = WaiterId(self.next_id);
        self.next_id += 1;
        self.waiting.push((id, waiter));
        id
    }

    /// Returns the position of the waiter; `None` once it was woken.
    fn find(&self, id: WaiterId) -> Option<usize> {
        let index = self.waiting.binary_search_by_key(&id, |(id, _)| *id);
        index.ok()
    }
}

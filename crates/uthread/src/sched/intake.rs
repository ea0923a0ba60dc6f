//! What has come of an operation that completes many times, and who waits for it.
//!
//! ```text
//!   reactor --note--> backlog --take--> the fiber
//!     |              | too long: the operation is ended, and begun again when all is taken
//!     +--wakes-------+--> who waits
//! ```
//!
//! Shared by the reactor, as long as the operation is in flight, and by the fiber, as long as it likes: whoever leaks
//! its half keeps nothing alive that the kernel needs.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::local_or_shared::lock;
use super::{current, wait};
use crate::driver::{Completion, Token};
use crate::fiber::{FiberRef, Waiter};
use crate::op::Operation;

/// What the completions of an operation mean.
pub(crate) trait Meaning: Send + Sync + 'static {
    type Item: Send;

    /// Completions that may wait to be taken, before the operation is ended so that no more come.
    const BACKLOG_MAX: usize;

    /// What one of them says that has succeeded, and may have filled a buffer. It may be added to the newest that waits, and then to the
    /// backlog there comes nothing.
    fn read(
        &self,
        result: u32,
        buffer: Option<u16>,
        newest: Option<&mut Self::Item>,
    ) -> Option<Self::Item>;
}

/// The reactor's half.
pub(super) trait Note: Send + Sync {
    /// Takes a completion.
    fn note(&self, completion: Completion) -> Noted;
}

/// What follows from it.
pub(super) struct Noted {
    /// Who waits for it.
    pub(super) waiter: Option<FiberRef>,
    /// Whether the operation is to be ended, as too much waits to be taken.
    pub(super) is_full: bool,
}

/// The fiber's half.
pub(crate) struct Intake<M: Meaning> {
    meaning: M,
    state: Mutex<State<M::Item>>,
}

struct State<T> {
    /// At most [`Meaning::BACKLOG_MAX`], and what comes before the kernel hears that it is enough.
    backlog: VecDeque<T>,
    /// How the operation has ended: the kernel's result.
    end: Option<i32>,
    /// Whether its end was asked for, as the backlog is full.
    is_ending: bool,
    waiter: Option<FiberRef>,
}

/// What there is to take.
pub(crate) enum Taken<T> {
    Item(T),
    /// Nothing more: the operation has ended by this result, or has not begun.
    End(i32),
    /// Nothing yet.
    Nothing,
}

/// An operation that was begun, by its name at its worker.
#[derive(Clone, Copy)]
pub(crate) struct Begun {
    pub(super) worker: usize,
    pub(super) token: Token,
}

impl<M: Meaning> Intake<M> {
    /// For an operation that has not begun.
    pub(crate) fn new(meaning: M) -> Arc<Intake<M>> {
        Arc::new(Intake {
            meaning,
            state: Mutex::new(State {
                backlog: VecDeque::new(),
                end: Some(0),
                is_ending: false,
                waiter: None,
            }),
        })
    }

    /// Begins the operation on the caller's worker; it must not be in flight. None where the caller is no fiber on a
    /// worker that can, or its runtime has ended.
    pub(crate) fn begin(self: &Arc<Self>, operation: &mut Operation<'_>) -> Option<Begun> {
        let mut state = lock(&self.state);
        (state.end, state.is_ending) = (None, false);
        drop(state);
        let note = Arc::clone(self) as Arc<dyn Note>;
        let begun = current::with_fiber(|worker| worker.begin_many(operation, note)).flatten();
        if begun.is_none() {
            lock(&self.state).end = Some(0);
        }
        begun
    }

    /// Takes what has come first; where there is nothing, the next completion wakes the caller.
    pub(crate) fn take_or_wait(&self) -> Taken<M::Item> {
        let waiter = match wait::waiter() {
            Waiter::Fiber(fiber) => Some(fiber),
            Waiter::Thread(..) => None,
        };
        let mut state = lock(&self.state);
        let taken = state.take();
        state.waiter = waiter.filter(|_| matches!(taken, Taken::Nothing));
        taken
    }

    /// Asks for the end of an operation, and returns after it. What has come by then can still be taken.
    pub(crate) fn end(&self, begun: Begun) {
        if current::with_fiber(|worker| worker.end(begun)).is_none() {
            return; // Its worker has ended, and everything in flight before that.
        }
        let waiter = wait::waiter();
        wait::park_until(|| {
            let mut state = lock(&self.state);
            if let Waiter::Fiber(fiber) = &waiter {
                state.waiter = Some(Arc::clone(fiber));
            }
            state.end.is_some()
        });
    }
}

impl<T> State<T> {
    fn take(&mut self) -> Taken<T> {
        match (self.backlog.pop_front(), self.end) {
            (Some(item), _) => Taken::Item(item),
            (None, Some(result)) => Taken::End(result),
            (None, None) => Taken::Nothing,
        }
    }
}

impl<M: Meaning> Note for Intake<M> {
    fn note(&self, completion: Completion) -> Noted {
        let Completion {
            result,
            more,
            buffer,
        } = completion;
        let mut state = lock(&self.state);
        if let Ok(result) = u32::try_from(result) {
            let newest = state.backlog.back_mut();
            let item = self.meaning.read(result, buffer, newest);
            state.backlog.extend(item);
        }
        if !more {
            state.end = Some(result);
        }
        let is_full = more && !state.is_ending && state.backlog.len() >= M::BACKLOG_MAX;
        state.is_ending |= is_full;
        Noted {
            waiter: state.waiter.take(),
            is_full,
        }
    }
}

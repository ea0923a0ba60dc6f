//! The completions of a multishot operation that a fiber has not taken yet.
//!
//! ```text
//!   reactor --push--> backlog --take--> the fiber
//!     |                 | too long: the operation is cancelled, and started again when all is taken
//!     +--wakes----------+--> the waiting fiber
//! ```
//!
//! Shared by the reactor, as long as the operation is in flight, and by the fiber. A fiber that
//! leaks its half keeps nothing alive that the kernel needs.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::atomic::lock;
use crate::driver::Completion;
use crate::fiber::{FiberRef, WakeHandle};
use crate::op::Operation;
use crate::sched::caller::{self, wait};
use crate::sched::reactor::operations::{Accepted, CompletionSink, OperationId};
use crate::sched::worker::{Worker, current};

/// Turns completions into items.
pub(crate) trait Decode: Send + Sync + 'static {
    type Item: Send;

    /// Items that may wait to be taken before the operation is cancelled.
    const BACKLOG_MAX: usize;

    /// Returns the item of a successful completion, which may have filled `buffer`. Returns `None`
    /// if it was merged into `newest`, the newest item of the backlog.
    fn decode(
        &self,
        result: u32,
        buffer: Option<u16>,
        newest: Option<&mut Self::Item>,
    ) -> Option<Self::Item>;
}

/// The queue: the fiber's half.
pub(crate) struct MultishotQueue<M: Decode> {
    decoder: M,
    state: Mutex<Backlog<M::Item>>,
}

struct Backlog<T> {
    /// At most [`Decode::BACKLOG_MAX`] items, and those that arrive before the kernel has cancelled
    /// the operation.
    backlog: VecDeque<T>,
    /// The last result of an operation that has ended.
    end: Option<i32>,
    /// Set when the operation is being cancelled, as the backlog is full.
    is_ending: bool,
    waiter: Option<FiberRef>,
}

/// The result of a look at the queue.
pub(crate) enum Taken<T> {
    Item(T),
    /// Nothing more: the operation has ended with this result, or has not started.
    End(i32),
    /// Nothing yet.
    Nothing,
}

impl<M: Decode> MultishotQueue<M> {
    /// Creates the queue of an operation that has not started.
    pub(crate) fn new(decoder: M) -> Arc<MultishotQueue<M>> {
        Arc::new(MultishotQueue {
            decoder,
            state: Mutex::new(Backlog {
                backlog: VecDeque::new(),
                end: Some(0),
                is_ending: false,
                waiter: None,
            }),
        })
    }

    /// Starts the operation on the caller's worker; it must not be in flight. Returns `None` if the
    /// caller is no fiber on a worker whose driver supports it, or if its runtime has ended.
    pub(crate) fn begin(self: &Arc<Self>, operation: &mut Operation<'_>) -> Option<OperationId> {
        let mut state = lock(&self.state);
        (state.end, state.is_ending) = (None, false);
        drop(state);
        let sink = Arc::clone(self) as Arc<dyn CompletionSink>;
        let begin = |worker: &Worker, fiber| {
            let queues = &worker.queues;
            worker.io.begin_many(queues, fiber, operation, sink)
        };
        let id = current::with_running(begin).flatten();
        if id.is_none() {
            lock(&self.state).end = Some(0);
        }
        id
    }

    /// Takes the oldest item. If there is none, the next completion wakes the caller.
    pub(crate) fn take_or_wait(&self) -> Taken<M::Item> {
        let waiter = match caller::wake_handle() {
            WakeHandle::Fiber(fiber) => Some(fiber),
            WakeHandle::Thread(..) => None,
        };
        let mut state = lock(&self.state);
        let taken = state.take();
        state.waiter = waiter.filter(|_| matches!(taken, Taken::Nothing));
        taken
    }

    /// Cancels an operation and waits for its end. Items that have arrived by then can still be
    /// taken.
    pub(crate) fn end(&self, id: OperationId) {
        if current::with_fiber(|worker| worker.io.end(&worker.queues, id)).is_none() {
            return; // The worker has ended, and before that all its operations.
        }
        let waiter = caller::wake_handle();
        wait::park_until(|| {
            let mut state = lock(&self.state);
            if let WakeHandle::Fiber(fiber) = &waiter {
                state.waiter = Some(fiber.clone());
            }
            state.end.is_some()
        });
    }
}

impl<T> Backlog<T> {
    fn take(&mut self) -> Taken<T> {
        match (self.backlog.pop_front(), self.end) {
            (Some(item), _) => Taken::Item(item),
            (None, Some(result)) => Taken::End(result),
            (None, None) => Taken::Nothing,
        }
    }
}

impl<M: Decode> CompletionSink for MultishotQueue<M> {
    fn push(&self, completion: Completion) -> Accepted {
        let Completion {
            result,
            more,
            buffer,
        } = completion;
        let mut state = lock(&self.state);
        if let Ok(result) = u32::try_from(result) {
            let newest = state.backlog.back_mut();
            let item = self.decoder.decode(result, buffer, newest);
            state.backlog.extend(item);
        }
        if !more {
            state.end = Some(result);
        }
        let is_full = more && !state.is_ending && state.backlog.len() >= M::BACKLOG_MAX;
        state.is_ending |= is_full;
        Accepted {
            waiter: state.waiter.take(),
            is_full,
        }
    }
}

//! A multishot operation that is started again whenever it has ended: the common part of the
//! iterators.

use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;

use rustix::io::Errno;

use crate::op::{CANCELLED_RESULTS, Operation, TIMED_OUT};
use crate::sched::caller::{self, cancellation, wait};
use crate::sched::features::multishot_queue::{Decode, MultishotQueue, Taken};
use crate::sched::reactor::operations::OperationId;

/// Cancelled and awaited when dropped. Not `Send`: the fiber's worker has the operation.
pub(super) struct Repeated<M: Decode> {
    queue: Arc<MultishotQueue<M>>,
    /// The operation, from its start until its end was seen.
    id: Option<OperationId>,
    /// `true` if the kernel does not support the operation, or not for this file.
    is_refused: bool,
    stays: PhantomData<*const ()>,
}

/// The next result.
pub(super) enum Next<T> {
    Item(T),
    /// Use a single-shot operation.
    Single,
    Failed(io::Error),
}

impl<M: Decode> Repeated<M> {
    /// Creates an operation that has not started.
    pub(super) fn new(decoder: M) -> Repeated<M> {
        Repeated {
            queue: MultishotQueue::new(decoder),
            id: None,
            is_refused: false,
            stays: PhantomData,
        }
    }

    /// Waits for the next item, until the deadline if there is one. Starts the operation if it is
    /// not in flight.
    pub(super) fn next<'a>(
        &mut self,
        operation: impl Fn() -> Option<Operation<'a>>,
        deadline: Option<Instant>,
    ) -> Next<M::Item> {
        loop {
            match self.queue.take_or_wait() {
                Taken::Item(item) => return Next::Item(item),
                Taken::End(result) => {
                    if self.id.take().is_some()
                        && let Some(error) = self.judge(result)
                    {
                        return Next::Failed(error);
                    }
                    if let Some(refusal) = cancellation::refusal() {
                        return Next::Failed(refusal);
                    }
                    if !self.is_refused
                        && let Some(mut operation) = operation()
                    {
                        self.id = self.queue.begin(&mut operation);
                    }
                    if self.id.is_none() {
                        return Next::Single;
                    }
                }
                Taken::Nothing => match deadline {
                    Some(deadline) if caller::now() >= deadline => {
                        return Next::Failed(io::Error::from_raw_os_error(TIMED_OUT));
                    }
                    Some(deadline) if !cancellation::is_cancelled() => {
                        wait::park_deadline(deadline)
                    }
                    None if wait::park_unless_cancelled() => {}
                    _ => {
                        let refusal = cancellation::refusal();
                        return Next::Failed(refusal.unwrap_or_else(|| Errno::CANCELED.into()));
                    }
                },
            }
        }
    }

    /// Cancels the operation and waits for its end.
    pub(super) fn end(&mut self) {
        if let Some(id) = self.id.take() {
            self.queue.end(id);
        }
    }

    /// Takes an item that is left after the operation has ended.
    pub(super) fn take_rest(&self) -> Option<M::Item> {
        match self.queue.take_or_wait() {
            Taken::Item(item) => Some(item),
            Taken::End(_) | Taken::Nothing => None,
        }
    }

    /// Returns the error with which the operation has failed, unless it was cancelled or found no
    /// room.
    fn judge(&mut self, result: i32) -> Option<io::Error> {
        if result >= 0 || CANCELLED_RESULTS.contains(&result) {
            return None;
        }
        match Errno::from_raw_os_error(-result) {
            // An older kernel, or a non-blocking file: a single-shot operation handles both.
            Errno::INVAL | Errno::OPNOTSUPP | Errno::AGAIN => {
                self.is_refused = true;
                None
            }
            errno => Some(errno.into()),
        }
    }
}

impl<M: Decode> Drop for Repeated<M> {
    fn drop(&mut self) {
        self.end();
    }
}

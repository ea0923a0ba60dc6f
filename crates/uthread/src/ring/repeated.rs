//! An operation that completes many times, begun again whenever it has ended: the common part of the iterators.

use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;

use rustix::io::Errno;

use crate::op::{CANCELLED_RESULTS, Operation, TIMED_OUT};
use crate::sched::intake::{Begun, Intake, Meaning, Taken};
use crate::sched::wait;

/// Ended and awaited when it is dropped. It stays with the fiber, whose worker has the operation.
pub(super) struct Repeated<M: Meaning> {
    intake: Arc<Intake<M>>,
    /// The operation, from its begin until its end was seen.
    begun: Option<Begun>,
    /// Whether the kernel cannot, or not with this file.
    is_refused: bool,
    stays: PhantomData<*const ()>,
}

/// What is next.
pub(super) enum Next<T> {
    Item(T),
    /// Whatever a single operation gives.
    Single,
    Failed(io::Error),
}

impl<M: Meaning> Repeated<M> {
    /// Not yet begun.
    pub(super) fn new(meaning: M) -> Repeated<M> {
        Repeated {
            intake: Intake::new(meaning),
            begun: None,
            is_refused: false,
            stays: PhantomData,
        }
    }

    /// Waits for what comes next of the operation, until the deadline if there is one. It is begun if it is not
    /// under way, and may be.
    pub(super) fn next<'a>(
        &mut self,
        operation: impl Fn() -> Option<Operation<'a>>,
        deadline: Option<Instant>,
    ) -> Next<M::Item> {
        loop {
            match self.intake.take_or_wait() {
                Taken::Item(item) => return Next::Item(item),
                Taken::End(result) => {
                    if self.begun.take().is_some()
                        && let Some(error) = self.judge(result)
                    {
                        return Next::Failed(error);
                    }
                    if let Some(refusal) = wait::refusal() {
                        return Next::Failed(refusal);
                    }
                    if !self.is_refused
                        && let Some(mut operation) = operation()
                    {
                        self.begun = self.intake.begin(&mut operation);
                    }
                    if self.begun.is_none() {
                        return Next::Single;
                    }
                }
                Taken::Nothing => match deadline {
                    Some(deadline) if wait::now() >= deadline => {
                        return Next::Failed(io::Error::from_raw_os_error(TIMED_OUT));
                    }
                    Some(deadline) if !wait::is_cancelled() => wait::park_deadline(deadline),
                    None if wait::park_unless_cancelled() => {}
                    _ => {
                        let refusal = wait::refusal();
                        return Next::Failed(refusal.unwrap_or_else(|| Errno::CANCELED.into()));
                    }
                },
            }
        }
    }

    /// Ends the operation.
    pub(super) fn end(&mut self) {
        if let Some(begun) = self.begun.take() {
            self.intake.end(begun);
        }
    }

    /// What has come of it and was not taken, once it has ended.
    pub(super) fn take_rest(&self) -> Option<M::Item> {
        match self.intake.take_or_wait() {
            Taken::Item(item) => Some(item),
            Taken::End(_) | Taken::Nothing => None,
        }
    }

    /// The error by which the operation has ended, if it was not ended by us or for lack of room.
    fn judge(&mut self, result: i32) -> Option<io::Error> {
        if result >= 0 || CANCELLED_RESULTS.contains(&result) {
            return None;
        }
        match Errno::from_raw_os_error(-result) {
            // A kernel that does not know it, or a file that is non-blocking: a single call does what is right.
            Errno::INVAL | Errno::OPNOTSUPP | Errno::AGAIN => {
                self.is_refused = true;
                None
            }
            errno => Some(errno.into()),
        }
    }
}

impl<M: Meaning> Drop for Repeated<M> {
    fn drop(&mut self) {
        self.end();
    }
}

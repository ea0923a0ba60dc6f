//! Waiting for wake-ups and for descriptors at the same time, for selections with descriptors among
//! their arms.
//!
//! ```text
//!   fiber    start a poll of each -> park -> cancel the remaining polls -> park until they have ended
//!   thread   one system call for all of them and for an eventfd that wakes it
//! ```
//!
//! A poll consumes nothing: the woken caller checks what is ready, and unused events remain.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::atomic::lock;
use crate::driver::eventfd::Eventfd;
use crate::driver::native::{Deadline, several};
use crate::driver::{Completion, Wake};
use crate::fiber::wake_handle::{Interrupt, Observer};
use crate::fiber::{FiberRef, WakeHandle};
use crate::op::net::{Poll, SocketOperation};
use crate::op::{CANCELLED_RESULTS, Operation};
use crate::sched::caller::{self, cancellation, wait};
use crate::sched::reactor::operations::{Accepted, CompletionSink, OperationId};
use crate::sched::threads;
use crate::sched::worker::{Worker, current};

/// An operation that waits for events of a descriptor and does nothing else. Public, as it occurs
/// in a sealed trait.
#[doc(hidden)]
pub struct PollOperation<'a>(pub(crate) Poll<'a>);

/// The index of a poll that has failed, and its error.
pub(crate) type Failure = (usize, io::Error);

/// Returns a handle that wakes the caller from [`park`].
///
/// # Errors
///
/// `EMFILE` if the caller is a thread and no descriptor is free.
pub(crate) fn wake_handle() -> io::Result<WakeHandle> {
    if caller::is_on_worker() {
        return Ok(caller::wake_handle());
    }
    let interrupt: Box<dyn Observer> = Box::new(Eventfd::new()?);
    let thread = std::thread::current();
    Ok(WakeHandle::Thread(thread, Some(Arc::new(interrupt))))
}

/// Waits until the caller is woken, one of the polls is ready, the deadline passes, or the caller
/// may not wait any more. May also return spuriously. No poll is in flight afterwards.
///
/// # Errors
///
/// Any error with which the kernel refuses a poll.
pub(crate) fn park(
    waiter: &WakeHandle,
    polls: &[PollOperation<'_>],
    deadline: Option<Instant>,
) -> Result<(), Failure> {
    match waiter {
        WakeHandle::Fiber(fiber) => park_fiber(fiber, polls, deadline),
        WakeHandle::Thread(_, observer) => {
            let interrupt = observer.as_ref().and_then(|observer| observer.interrupt());
            let interrupt = interrupt.expect("the handle is that of `wake_handle`");
            block(interrupt, polls, deadline).map_err(|error| (0, error))
        }
    }
}

#[allow(unsafe_code, reason = "the kernel gets pointers to the polls")]
fn park_fiber(
    fiber: &FiberRef,
    polls: &[PollOperation<'_>],
    deadline: Option<Instant>,
) -> Result<(), Failure> {
    let operations = polls
        .iter()
        .map(|poll| Operation::Socket(SocketOperation::Poll(poll.0)));
    let mut operations: Vec<_> = operations.collect();
    let mut under_way = UnderWay(Vec::with_capacity(polls.len()));
    for operation in &mut operations {
        let outcome = Arc::new(Outcome {
            result: Mutex::new(None),
            fiber: fiber.clone(),
        });
        let sink = Arc::clone(&outcome) as Arc<dyn CompletionSink>;
        // SAFETY: the operation, which is not moved, and everything it borrows live until this
        // function returns or unwinds. Before that, `under_way`, which is dropped first and not
        // leaked, has seen its completion; nothing accesses it in between.
        let begin = |worker: &Worker, fiber| unsafe {
            let queues = &worker.queues;
            worker.io.begin(queues, fiber, operation, sink)
        };
        let id = current::with_running(begin);
        let id = id.expect("the caller is a fiber on a worker");
        under_way.0.push((id, outcome));
    }
    wait::park_unless_over(deadline);
    under_way.end();
    under_way.failure().map_or(Ok(()), Err)
}

/// Waits like [`park`], for a thread.
fn block(
    interrupt: &dyn Interrupt,
    polls: &[PollOperation<'_>],
    deadline: Option<Instant>,
) -> io::Result<()> {
    if let Some(context) = threads::current() {
        context.begin_call();
    }
    if cancellation::is_cancelled() {
        return Ok(());
    }
    let awaited = polls.iter().map(|poll| poll.0);
    let give_up = Deadline::new(cancellation::earliest(deadline));
    if several::wait_for_any(awaited, interrupt.as_fd(), give_up)? {
        interrupt.clear();
    }
    Ok(())
}

/// Polls in flight. Dropping it cancels and awaits them.
struct UnderWay(Vec<(OperationId, Arc<Outcome>)>);

/// The result of a poll, and the fiber that waits for it.
struct Outcome {
    result: Mutex<Option<i32>>,
    fiber: FiberRef,
}

impl UnderWay {
    /// Cancels the polls that are left, and waits for their ends. Never returns early: the kernel
    /// may still read the memory that the polls borrow.
    fn end(&self) {
        let left = || {
            self.0
                .iter()
                .filter(|(_, outcome)| outcome.result().is_none())
        };
        for (id, _) in left() {
            current::with_fiber(|worker| worker.io.end(&worker.queues, *id));
        }
        wait::park_until(|| left().next().is_none());
    }

    /// Returns the first poll that has failed by itself.
    fn failure(&self) -> Option<Failure> {
        let results = self.0.iter().map(|(_, outcome)| outcome.result());
        results.enumerate().find_map(|(index, result)| {
            let failed = result.filter(|result| *result < 0 && !CANCELLED_RESULTS.contains(result));
            failed.map(|result| (index, io::Error::from_raw_os_error(-result)))
        })
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.end();
    }
}

impl Outcome {
    fn result(&self) -> Option<i32> {
        *lock(&self.result)
    }
}

impl CompletionSink for Outcome {
    fn push(&self, completion: Completion) -> Accepted {
        *lock(&self.result) = Some(completion.result);
        Accepted {
            waiter: Some(self.fiber.clone()),
            is_full: false,
        }
    }
}

impl Observer for Eventfd {
    fn notify(&self) {
        self.wake();
    }

    fn interrupt(&self) -> Option<&dyn Interrupt> {
        Some(self)
    }
}

impl Interrupt for Eventfd {
    fn clear(&self) {
        Eventfd::clear(self);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    use rustix::event::PollFlags;

    use super::{PollOperation, park, wake_handle};
    use crate::op::net;
    use crate::resource::descriptor::Descriptor;

    /// Catches a thread that was woken once and never sleeps again in its selection.
    #[test]
    fn a_bell_is_heard_once() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let descriptor = Descriptor::unwatched(reader.as_fd());
        let events = PollFlags::IN;
        let polls = [PollOperation(net::Poll { descriptor, events })];
        let waiter = wake_handle().unwrap();
        waiter.wake();
        waiter.wake();
        park(&waiter, &polls, None).unwrap();
        let deadline = Instant::now() + Duration::from_millis(3);
        park(&waiter, &polls, Some(deadline)).unwrap();
        assert!(Instant::now() >= deadline);
    }
}

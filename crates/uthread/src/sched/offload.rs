//! Calls that only block, on the threads of the pool: what the driver cannot do must still not stop a worker.
//!
//! A call that no thread has started, as all are busy, is withdrawn once its caller may not wait any more. One that has started
//! is awaited: nothing can stop it, and it may borrow from the caller.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::sync::Arc;
use std::{io, thread};

use super::shared::Shared;
use super::wait;
use super::worker::{Worker, current};
use crate::fiber::Outcome;
use crate::forked;
use crate::pool::{self, Job, Ticket};

/// As [`run`], but refused once the caller may not wait, and withdrawn where no thread has started it.
///
/// # Errors
///
/// That of `call`; `ECANCELED` or `ETIMEDOUT` if it was not called.
pub(crate) fn perform<T: Send>(call: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    wait::refuse_if_cancelled()?;
    if !wait::is_on_worker() {
        return call();
    }
    let mut sent = Sent::new(call);
    while let Some(job) = sent.wait_or_withdraw() {
        // Unwinds a caller that ignores such errors. The job is dropped either way, before what it borrows.
        wait::refuse_if_cancelled()?;
        sent.send_again(job);
    }
    sent.take()
}

/// As [`run`], but the caller is unwound, and the call dropped, if the caller may not wait and no thread has started it. A
/// caller that cannot be unwound waits.
pub(crate) fn run_or_unwind<F, T>(call: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    if wait::is_cancelled() {
        wait::unwind_if_cancelled();
        return run(call);
    }
    if !wait::is_on_worker() {
        return call();
    }
    let mut sent = Sent::new(call);
    if let Some(job) = sent.wait_or_withdraw() {
        wait::unwind_if_cancelled();
        sent.send_again(job);
        sent.wait();
    }
    sent.take()
}

/// Runs `call` where it may block: for a fiber on a worker on a thread of the pool, for any thread of its
/// own right here. A panic of `call` is resumed in the caller.
pub(crate) fn run<F, T>(call: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    if !wait::is_on_worker() {
        return call();
    }
    let sent = Sent::new(call);
    sent.wait();
    sent.take()
}

/// A call that was sent to the pool. It may borrow: whoever has sent it returns only after it is over, or after it was
/// withdrawn and dropped.
struct Sent<T> {
    outcome: Arc<Outcome<thread::Result<T>>>,
    ticket: Ticket,
}

impl<T: Send> Sent<T> {
    fn new(call: impl FnOnce() -> T + Send) -> Sent<T> {
        let outcome = Arc::new(Outcome::new());
        let result = Arc::clone(&outcome);
        let caller = current::with_worker(Worker::identify);
        let generation = forked::generation();
        let registered = outcome.await_done(wait::wake_handle());
        debug_assert!(registered, "nothing completes it yet");
        let ticket = pool::run(erase_lifetime(Box::new(move || {
            let _caller = Caller::enter(caller);
            let called = panic::catch_unwind(AssertUnwindSafe(call));
            if forked::generation() != generation {
                // It has forked, and this is the only thread of the child.
                forked::end(called.is_err());
            }
            result.complete(called);
        })));
        if outcome.is_done() {
            // A loop of calls that are over so soon must not keep the worker.
            wait::pass_turn();
        }
        Sent { outcome, ticket }
    }

    /// Waits until the call is over.
    fn wait(&self) {
        // Soundness rests on this wait: what the call borrows is not touched after it.
        let _outside = wait::Outside::enter();
        wait::park_until(|| self.outcome.is_done());
    }

    /// The same, or the job again if the caller may not wait any more and no thread has started it.
    fn wait_or_withdraw(&self) -> Option<Job> {
        while !self.outcome.is_done() {
            let outside = wait::Outside::enter();
            if wait::park_unless_cancelled() {
                continue;
            }
            drop(outside);
            let job = pool::withdraw(self.ticket);
            if job.is_some() {
                return job;
            }
            self.wait();
        }
        None
    }

    /// Sends a job that was withdrawn.
    fn send_again(&mut self, job: Job) {
        self.ticket = pool::run(job);
    }

    /// What the call came to, once it is over.
    fn take(self) -> T {
        self.outcome
            .take()
            .unwrap_or_else(|payload| panic::resume_unwind(payload))
    }
}

/// For [`Sent`] alone. Either a thread has called and dropped the closure that borrows, and what is left of it is an
/// emptied outcome; or the job came back and was dropped by the caller.
#[allow(
    unsafe_code,
    reason = "the pool's queue holds jobs without their lifetime"
)]
fn erase_lifetime(job: Box<dyn FnOnce() + Send + '_>) -> Job {
    // SAFETY: only the lifetime changes; whoever has sent the job waits as promised above.
    unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Job>(job) }
}

thread_local! {
    /// The runtime, by its address, and the worker of the fiber for which the calling thread runs a job.
    static CALLER: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

/// Notes for whom the calling thread runs a job, until it is dropped.
struct Caller;

impl Caller {
    fn enter(caller: Option<(usize, usize)>) -> Caller {
        CALLER.set(caller);
        Caller
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        CALLER.set(None);
    }
}

/// The worker of this runtime whose fiber the caller is, or runs a job for: it cannot end before the caller goes on.
pub(crate) fn worker_of_caller(shared: &Shared) -> Option<usize> {
    let caller = current::with_worker(Worker::identify).or_else(|| CALLER.get());
    caller
        .filter(|(runtime, _)| *runtime == ptr::from_ref(shared).addr())
        .map(|(_, worker)| worker)
}

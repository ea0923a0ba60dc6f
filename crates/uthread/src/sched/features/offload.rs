//! Blocking calls on the threads of a pool, for operations that the driver does not support.
//!
//! If all threads of the pool are busy, a queued call is withdrawn when its caller may not wait any
//! more. A call that has started is awaited: nothing can stop it, and it may borrow from the
//! caller.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::sync::Arc;
use std::{io, thread};

use crate::fiber::Outcome;
use crate::forked;
use crate::pool::{self, Job, Pool, Ticket};
use crate::sched::caller::{self, cancellation, turn, wait};
use crate::sched::shared::Shared;
use crate::sched::worker::{Worker, current};

/// Runs `call`, which takes as long as the disk does, on another thread if the caller is a fiber on
/// a worker, and waits for it. Withdraws a queued call if the caller may not wait any more. With
/// virtual time, a disk takes none: there, the order in which calls end would be another one each time.
///
/// # Errors
///
/// The error of `call`; `ECANCELED` or `ETIMEDOUT` if it did not run.
pub(crate) fn perform<T: Send>(call: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    if current::with_virtual_clock(|_| Some(())).is_some() {
        cancellation::refuse_if_cancelled()?;
        return current::in_call(call);
    }
    perform_in(pool::files(), call)
}

/// Runs `call`, which starts a program, on another thread if the caller is a fiber on a worker, and
/// waits for it. Withdraws a queued call if the caller may not wait any more. The thread has the
/// I/O priority of the process, and does not end before it.
///
/// # Errors
///
/// The error of `call`; `ECANCELED` or `ETIMEDOUT` if it did not run.
pub(crate) fn perform_start<T: Send>(call: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    caller::escape("starts a process")?;
    perform_in(pool::starts(), call)
}

/// Runs `call`, which waits for another process or host, on another thread if the caller is a fiber
/// on a worker, and waits for it. Withdraws a queued call if the caller may not wait any more.
///
/// # Errors
///
/// The error of `call`; `ECANCELED` or `ETIMEDOUT` if it did not run.
pub(crate) fn perform_wait<T: Send>(call: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    perform_in(pool::waits(), call)
}

fn perform_in<T: Send>(
    pool: &Arc<Pool>,
    call: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    cancellation::refuse_if_cancelled()?;
    if !caller::is_on_worker() {
        return call();
    }
    let mut call = Call::new(call);
    await_or_refuse(pool, &mut call)?;
    call.take()
}

/// Sends `call` to the pool and waits until it has ended.
///
/// # Errors
///
/// `ECANCELED` or `ETIMEDOUT` if it did not run.
fn await_or_refuse(pool: &Arc<Pool>, call: &mut (dyn Erased + '_)) -> io::Result<()> {
    let mut sent = Sent::new(pool, call);
    while let Some(job) = sent.wait_or_withdraw() {
        // Unwinds a caller that ignores such errors. In either case the job is dropped before its
        // borrows end.
        cancellation::refuse_if_cancelled()?;
        sent.send_again(job);
    }
    Ok(())
}

/// Runs `call` on a thread of the runtime's pool if the caller is a fiber on a worker, and waits
/// for it. If the caller may not wait any more and the call is still queued, drops the call and
/// unwinds the caller. A caller that cannot be unwound waits.
pub(crate) fn run_or_unwind<F, T>(call: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    if cancellation::is_cancelled() {
        cancellation::unwind_if_cancelled();
        return run_in(own_pool(), call);
    }
    if !caller::is_on_worker() {
        return call();
    }
    // The call is made even if that is denied: it has no error.
    let _ = caller::escape("runs a closure beside the fibers of the world, by `blocking`");
    if is_replaced() {
        return call_here(call);
    }
    let mut call = Call::new(call);
    await_or_unwind(&mut call);
    call.take()
}

/// Sends `call` to the pool of the caller's runtime and waits until it has ended, or unwinds the
/// caller before it has started.
fn await_or_unwind(call: &mut (dyn Erased + '_)) {
    let mut sent = Sent::new(&own_pool(), call);
    if let Some(job) = sent.wait_or_withdraw() {
        cancellation::unwind_if_cancelled();
        sent.send_again(job);
        sent.wait();
    }
}

/// Returns the pool of the caller's runtime.
fn own_pool() -> Arc<Pool> {
    current::with_worker(|worker| Arc::clone(worker.pool()))
        .unwrap_or_else(|| Arc::clone(pool::waits()))
}

/// Makes another worker go on in place of the caller's, if there are spare ones. Returns `true` if
/// the caller may block.
fn is_replaced() -> bool {
    current::with_running(Worker::hand_off).unwrap_or(false)
}

/// Runs `call` on the caller's worker, in whose place another one goes on.
fn call_here<T>(call: impl FnOnce() -> T) -> T {
    let result = call();
    turn::end_call();
    result
}

/// Runs `call` where it may block: on a pool thread for a fiber on a worker, and on the calling
/// thread otherwise. A panic of `call` is resumed in the caller.
pub(crate) fn run<F, T>(call: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    run_in(Arc::clone(pool::waits()), call)
}

fn run_in<F, T>(pool: Arc<Pool>, call: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    if !caller::is_on_worker() {
        return call();
    }
    if is_replaced() {
        return call_here(call);
    }
    let mut call = Call::new(call);
    Sent::new(&pool, &mut call).wait();
    call.take()
}

/// A call and its result, on the stack of the caller.
struct Call<F, T> {
    call: Option<F>,
    result: Option<thread::Result<T>>,
}

/// A call without its type, so that sending it is compiled once, not for every type of call.
trait Erased: Send {
    /// Runs the call, and keeps its result. Returns `true` if it has panicked.
    fn run(&mut self) -> bool;
}

impl<F: FnOnce() -> T + Send, T: Send> Erased for Call<F, T> {
    fn run(&mut self) -> bool {
        let call = self.call.take();
        self.result = call.map(|call| panic::catch_unwind(AssertUnwindSafe(call)));
        matches!(self.result, Some(Err(_)))
    }
}

impl<F: FnOnce() -> T + Send, T: Send> Call<F, T> {
    fn new(call: F) -> Call<F, T> {
        Call {
            call: Some(call),
            result: None,
        }
    }

    /// Returns the result of a call that has ended.
    fn take(self) -> T {
        let result = self.result.expect("the call has ended");
        result.unwrap_or_else(|payload| panic::resume_unwind(payload))
    }
}

/// A call that was sent to the pool. It may borrow: its sender returns only after it has ended, or
/// after it was withdrawn and dropped.
struct Sent {
    outcome: Arc<Outcome<()>>,
    pool: Arc<Pool>,
    ticket: Ticket,
}

impl Sent {
    fn new(pool: &Arc<Pool>, call: &mut (dyn Erased + '_)) -> Sent {
        let outcome = Arc::new(Outcome::new());
        let result = Arc::clone(&outcome);
        let caller = current::with_worker(Worker::identify);
        let generation = forked::generation();
        let registered = outcome.await_done(caller::wake_handle());
        debug_assert!(registered, "nothing completes it yet");
        let job = erase_lifetime(Box::new(move || {
            let _caller = Caller::enter(caller);
            let has_panicked = call.run();
            if forked::generation() != generation {
                // The call has forked, and this is the only thread of the child.
                forked::end(has_panicked);
            }
            result.complete(());
        }));
        let ticket = pool.run(job, caller::priority());
        if outcome.is_done() {
            // A loop of such short calls must not occupy the worker.
            turn::pass();
        }
        Sent {
            outcome,
            pool: Arc::clone(pool),
            ticket,
        }
    }

    /// Waits until the call has ended.
    fn wait(&self) {
        // Soundness depends on this wait: no borrow of the call is used after it.
        let _outside = wait::Outside::enter();
        wait::park_until(|| self.outcome.is_done());
    }

    /// Waits until the call has ended. If the caller may not wait any more and the call is still
    /// queued, withdraws and returns it.
    fn wait_or_withdraw(&self) -> Option<Job> {
        while !self.outcome.is_done() {
            let outside = wait::Outside::enter();
            if wait::park_unless_cancelled() {
                continue;
            }
            drop(outside);
            let job = self.pool.withdraw(self.ticket);
            if job.is_some() {
                return job;
            }
            self.wait();
        }
        None
    }

    /// Sends a withdrawn job again.
    fn send_again(&mut self, job: Job) {
        self.ticket = self.pool.run(job, caller::priority());
    }
}

/// Erases the lifetime of a job, for [`Sent`] only. Either a thread has run the job, whose borrow
/// it does not use after the outcome is complete; or the job was withdrawn and dropped by the
/// caller.
#[allow(
    unsafe_code,
    reason = "the pool's queue holds jobs without their lifetime"
)]
fn erase_lifetime(job: Box<dyn FnOnce() + Send + '_>) -> Job {
    // SAFETY: only the lifetime changes; the sender of the job waits, as described above.
    unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Job>(job) }
}

thread_local! {
    /// The runtime, by its address, and the worker of the fiber for which the calling thread runs a
    /// job.
    static CALLER: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

/// Records the fiber for which the calling thread runs a job, until it is dropped.
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

/// Returns the worker of this runtime whose fiber is the caller, or for whose fiber the caller runs
/// a job: this worker cannot end before the caller continues.
pub(crate) fn worker_of_caller(shared: &Shared) -> Option<usize> {
    let caller = current::with_worker(Worker::identify).or_else(|| CALLER.get());
    caller
        .filter(|(runtime, _)| *runtime == ptr::from_ref(shared).addr())
        .map(|(_, worker)| worker)
}

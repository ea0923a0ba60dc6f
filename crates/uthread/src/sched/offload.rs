//! Threads for calls that only block: what the ring cannot do must still not stop a worker.
//!
//! One pool serves the whole process, grows on demand up to a bound, and shrinks when idle.

use std::collections::VecDeque;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::wait;
use crate::fiber::Outcome;

/// Enough to keep a disk's queue filled; what comes above waits its turn.
const THREADS_MAX: usize = 64;

/// How long a thread waits for another job: longer than the pauses of a busy program, short enough
/// that a burst does not leave 64 stacks behind.
const LINGER: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Pool {
    state: Mutex<State>,
    work: Condvar,
}

/// Its queue is bounded by the number of fibers: each waits for its job.
#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

static POOL: Pool = Pool {
    state: Mutex::new(State {
        jobs: VecDeque::new(),
        threads: 0,
        idle: 0,
    }),
    work: Condvar::new(),
};

/// As [`run`], but refused with `ECANCELED` once the caller's runtime is shut down.
pub(crate) fn perform<T: Send>(call: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    wait::refusal().map_or_else(|| run(call), Err)
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
    let outcome = Arc::new(Outcome::new());
    let result = Arc::clone(&outcome);
    let registered = outcome.await_done(wait::waiter());
    debug_assert!(registered, "nothing completes it yet");
    POOL.add(erase_lifetime(Box::new(move || {
        result.complete(panic::catch_unwind(AssertUnwindSafe(call)));
    })));
    // Soundness rests on this wait: what `call` borrows is not touched after it.
    wait::park_until(|| outcome.is_done());
    outcome
        .take()
        .unwrap_or_else(|payload| panic::resume_unwind(payload))
}

/// For [`run`] alone, which returns only after the job has called and dropped the closure that
/// borrows; what is left of it then is an emptied outcome.
#[allow(
    unsafe_code,
    reason = "the pool's queue holds jobs without their lifetime"
)]
fn erase_lifetime(job: Box<dyn FnOnce() + Send + '_>) -> Job {
    // SAFETY: only the lifetime changes; `run` waits as promised above.
    unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Job>(job) }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&'static self, job: Job) {
        let mut state = self.lock();
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() || state.threads >= THREADS_MAX {
            self.work.notify_one();
            return;
        }
        let name = format!("uthread-call-{}", state.threads);
        match thread::Builder::new().name(name).spawn(|| self.serve()) {
            Ok(_) => state.threads += 1,
            Err(_) if state.threads > 0 => self.work.notify_one(),
            // Without any thread the call would wait for ever: block the worker rather.
            Err(_) => {
                let job = state.jobs.pop_back();
                drop(state);
                if let Some(job) = job {
                    job();
                }
            }
        }
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = self.lock();
                continue;
            }
            state.idle += 1;
            let (next, waited) = self
                .work
                .wait_timeout(state, LINGER)
                .unwrap_or_else(PoisonError::into_inner);
            state = next;
            state.idle -= 1;
            if waited.timed_out() && state.jobs.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

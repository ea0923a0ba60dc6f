//! The bounded pool of threads for calls that only block.
//!
//! One pool serves the whole process, grows on demand up to a bound, and shrinks when idle.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Enough to keep a disk's queue filled; what comes above waits its turn.
const THREADS_MAX: usize = 64;

/// How long a thread waits for another job: longer than the pauses of a busy program, short enough
/// that a burst does not leave 64 stacks behind.
const LINGER: Duration = Duration::from_secs(10);

/// A call, which must not panic.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Pool {
    state: Mutex<State>,
    work: Condvar,
}

/// Its queue is bounded by the number of fibers: each waits for one job.
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

/// Runs a job on a thread of the pool, or right here where there can be none.
pub(crate) fn run(job: Job) {
    POOL.add(job);
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

//! The bounded pool of threads for blocking calls.
//!
//! One pool serves the whole process, grows on demand up to a limit, and shrinks when idle. A call that has
//! not started can be withdrawn from its [`queue`].

mod queue;

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use self::queue::Queue;
pub(crate) use self::queue::Ticket;
use crate::atomic::lock;
use crate::forked::PerProcess;

/// Maximum number of threads: enough to fill the queue of a disk. Further calls are queued.
const THREADS_MAX: usize = 64;

/// Time for which an idle thread waits for another job: longer than the pauses of a busy program, short
/// enough that 64 stacks do not remain after a burst.
const LINGER: Duration = Duration::from_secs(10);

/// A call. It must not panic.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

struct Pool {
    state: Mutex<State>,
    work: Condvar,
}

struct State {
    jobs: Queue<Job>,
    threads: usize,
    idle: usize,
}

static POOL: PerProcess<Pool> = PerProcess::new(Pool::new(), Pool::new);

/// Queues a job for a thread of the pool and returns its ticket. Runs it on the calling thread if no thread
/// can be started.
pub(crate) fn run(job: Job) -> Ticket {
    POOL.get().add(job)
}

/// Withdraws a job that has not started. Returns `None` if it has.
pub(crate) fn withdraw(ticket: Ticket) -> Option<Job> {
    POOL.get().lock().jobs.withdraw(ticket)
}

impl Pool {
    const fn new() -> Pool {
        Pool {
            state: Mutex::new(State {
                jobs: Queue::new(),
                threads: 0,
                idle: 0,
            }),
            work: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn add(&'static self, job: Job) -> Ticket {
        let mut state = self.lock();
        let ticket = state.jobs.push(job);
        if state.idle >= state.jobs.len() || state.threads >= THREADS_MAX {
            self.work.notify_one();
            return ticket;
        }
        let name = format!("uthread-call-{}", state.threads);
        match thread::Builder::new().name(name).spawn(|| self.serve()) {
            Ok(_) => state.threads += 1,
            Err(_) if state.threads > 0 => self.work.notify_one(),
            // Without any thread the call would wait forever; blocking the worker is better.
            Err(_) => {
                let job = state.jobs.withdraw(ticket);
                drop(state);
                if let Some(job) = job {
                    job();
                }
            }
        }
        ticket
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.begin() {
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

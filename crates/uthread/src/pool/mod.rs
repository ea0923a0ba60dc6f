//! The bounded pool of threads for blocking calls.
//!
//! One pool serves the whole process, grows on demand up to a limit, and shrinks when idle. A call that has
//! not started can be withdrawn from its [`queue`]. There is one queue per priority, and an
//! [`Arbiter`] chooses between them.

mod io_priority;
mod queue;

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use self::queue::Queue;
use crate::atomic::lock;
use crate::forked::PerProcess;
use crate::priorities::{Arbiter, Priority};

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
    /// By priority, in the order of [`Priority::ALL`].
    jobs: [Queue<Job>; 3],
    arbiter: Arbiter,
    threads: usize,
    idle: usize,
}

static POOL: PerProcess<Pool> = PerProcess::new(Pool::new(), Pool::new);

/// Identifies a queued job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    priority: Priority,
    /// In the queue of that priority.
    ticket: queue::Ticket,
}

/// Queues a job of this priority for a thread of the pool and returns its ticket. Runs it on the calling thread if no
/// thread can be started.
pub(crate) fn run(job: Job, priority: Priority) -> Ticket {
    POOL.get().add(job, priority)
}

/// Withdraws a job that has not started. Returns `None` if it has.
pub(crate) fn withdraw(ticket: Ticket) -> Option<Job> {
    POOL.get().lock().withdraw(ticket)
}

impl State {
    const fn new() -> State {
        State {
            jobs: [const { Queue::new() }; 3],
            arbiter: Arbiter::new(),
            threads: 0,
            idle: 0,
        }
    }

    fn push(&mut self, job: Job, priority: Priority) -> Ticket {
        let ticket = self.jobs[priority as usize].push(job);
        Ticket { priority, ticket }
    }

    /// Removes the job whose turn it is, to run it. Returns it with its priority.
    fn begin(&mut self) -> Option<(Job, Priority)> {
        let waiting = self.jobs.each_ref().map(|jobs| !jobs.is_empty());
        let priority = self.arbiter.next(waiting)?;
        let job = self.jobs[priority as usize].begin()?;
        Some((job, priority))
    }

    fn withdraw(&mut self, Ticket { priority, ticket }: Ticket) -> Option<Job> {
        self.jobs[priority as usize].withdraw(ticket)
    }

    /// Returns the number of queued jobs.
    fn queued(&self) -> usize {
        self.jobs.iter().map(Queue::len).sum()
    }
}

impl Pool {
    const fn new() -> Pool {
        Pool {
            state: Mutex::new(State::new()),
            work: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn add(&'static self, job: Job, priority: Priority) -> Ticket {
        let mut state = self.lock();
        let ticket = state.push(job, priority);
        if state.idle >= state.queued() || state.threads >= THREADS_MAX {
            self.work.notify_one();
            return ticket;
        }
        let name = format!("uthread-call-{}", state.threads);
        match thread::Builder::new().name(name).spawn(|| self.serve()) {
            Ok(_) => state.threads += 1,
            Err(_) if state.threads > 0 => self.work.notify_one(),
            // Without any thread the call would wait forever; blocking the worker is better.
            Err(_) => {
                let job = state.withdraw(ticket);
                drop(state);
                if let Some(job) = job {
                    job();
                }
            }
        }
        ticket
    }

    fn serve(&self) {
        let mut of_thread = Priority::Normal;
        let mut state = self.lock();
        loop {
            if let Some((job, priority)) = state.begin() {
                drop(state);
                if priority != of_thread {
                    io_priority::set(priority);
                    of_thread = priority;
                }
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
            if waited.timed_out() && state.queued() == 0 {
                state.threads -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn urgent_calls_begin_first_and_a_flood_of_them_leaves_turns_to_others() {
        const EACH: usize = 50;
        let mut state = State::new();
        let begun = Arc::new(Mutex::new(Vec::new()));
        let mut tickets = Vec::new();
        for priority in Priority::ALL.into_iter().rev() {
            for _ in 0..EACH {
                let begun = Arc::clone(&begun);
                let job = Box::new(move || lock(&begun).push(priority));
                tickets.push(state.push(job, priority));
            }
        }
        assert_eq!(state.queued(), 3 * EACH);
        // The last ticket is that of an urgent call.
        assert!(
            tickets
                .pop()
                .and_then(|ticket| state.withdraw(ticket))
                .is_some()
        );
        while let Some((job, _)) = state.begin() {
            job();
        }
        let begun = lock(&begun);
        assert_eq!(begun.len(), 3 * EACH - 1);
        assert!(
            begun[..10]
                .iter()
                .all(|priority| *priority == Priority::Urgent)
        );
        let first = |priority| begun.iter().position(|begun| *begun == priority);
        assert_eq!(first(Priority::Normal), Some(32));
        assert_eq!(first(Priority::Background), Some(32 + 2 * 8));
        assert_eq!(begun.last(), Some(&Priority::Background));
    }
}

//! Bounded pools of threads for calls that block.
//!
//! A pool grows on demand up to a limit, and shrinks when idle. There are several, so that slow
//! calls of one kind do not delay others:
//!
//! | pool | calls |
//! | --- | --- |
//! | [`OwnPool`], of each runtime | those that the program passes to [`blocking`](crate::blocking) |
//! | [`files`], of the process | of this crate on files, which take as long as the disk does |
//! | [`starts`], of the process | that start programs, whose threads therefore do not end |
//! | [`waits`], of the process | of this crate that wait for others: name resolution, file locks, the end of a thread or a process |
//!
//! A call that has not started can be withdrawn from its [`queue`]. There is one queue per
//! priority, and an [`Arbiter`] chooses between them.

mod io_priority;
mod queue;

use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use self::io_priority::IoPriority;
use self::queue::Queue;
use crate::atomic::lock;
use crate::forked::{self, PerProcess};
use crate::priorities::{Arbiter, Priority};

/// Maximum number of threads for files, enough to fill the queue of a disk.
const FILE_THREADS_MAX: usize = 64;

/// Such threads usually wait and do not compute, so that memory is the limit.
const WAIT_THREADS_MAX: usize = 512;

/// A program starts within a millisecond, and the threads stay.
const START_THREADS_MAX: usize = 8;

/// Time for which an idle thread stays: longer than the pauses of a busy program, short enough that
/// the stacks do not remain after a burst.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// A call, or the body of a thread: threads with bodies of one type share the code that starts
/// them. It must not panic.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The limits of a pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config {
    /// Maximum number of threads. Further calls are queued.
    pub(crate) threads_max: usize,
    /// Time for which an idle thread waits for another call.
    pub(crate) keep_alive: Duration,
}

impl Config {
    const fn of(threads_max: usize) -> Config {
        Config {
            threads_max,
            keep_alive: KEEP_ALIVE,
        }
    }
}

/// The limits of a pool whose threads do not end.
const FOR_GOOD: Config = Config {
    threads_max: START_THREADS_MAX,
    keep_alive: Duration::MAX,
};

impl Default for Config {
    fn default() -> Config {
        Config::of(WAIT_THREADS_MAX)
    }
}

/// A pool of threads.
pub(crate) struct Pool {
    /// Its threads are named by this and a number.
    name: &'static str,
    config: Config,
    /// Set if a call has the I/O priority of its fiber. Whatever else a thread runs may start
    /// threads and programs, which would keep it.
    sets_io_priority: bool,
    queues: Mutex<Queues>,
    work: Condvar,
}

struct Queues {
    /// By priority, in the order of [`Priority::ALL`], with the time at which each was queued.
    jobs: [Queue<(Job, Instant)>; 3],
    arbiter: Arbiter,
    /// `true` once threads without work end.
    is_closed: bool,
    usage: Usage,
}

/// Activity of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) threads: usize,
    pub(crate) idle: usize,
    pub(crate) queued: usize,
    /// Number of calls that a thread has begun.
    pub(crate) begun: u64,
    /// Sum of the times for which these were queued.
    pub(crate) waited: Duration,
}

/// Identifies a queued job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    priority: Priority,
    /// In the queue of that priority.
    ticket: queue::Ticket,
}

/// The pools that all runtimes of the process share.
struct Common {
    files: Arc<Pool>,
    starts: Arc<Pool>,
    waits: Arc<Pool>,
}

impl Common {
    fn new() -> Common {
        Common {
            files: Pool::new("uthread-file", Config::of(FILE_THREADS_MAX), true),
            starts: Pool::new("uthread-start", FOR_GOOD, false),
            waits: Pool::new("uthread-wait", Config::of(WAIT_THREADS_MAX), false),
        }
    }

    fn get() -> &'static Common {
        static COMMON: PerProcess<LazyLock<Common>> =
            PerProcess::new(LazyLock::new(Common::new), || LazyLock::new(Common::new));
        COMMON.get()
    }
}

/// Returns the pool for calls on files.
pub(crate) fn files() -> &'static Arc<Pool> {
    &Common::get().files
}

/// Returns the pool for calls that start programs. To the kernel the thread is the parent of the
/// child: its end is what `PR_SET_PDEATHSIG` waits for.
pub(crate) fn starts() -> &'static Arc<Pool> {
    &Common::get().starts
}

/// Returns the pool for calls that wait for others.
pub(crate) fn waits() -> &'static Arc<Pool> {
    &Common::get().waits
}

/// The pool of a runtime. Its threads end with it.
pub(crate) struct OwnPool(Arc<Pool>);

impl OwnPool {
    pub(crate) fn new(config: Config) -> OwnPool {
        OwnPool(Pool::new("uthread-call", config, false))
    }

    pub(crate) fn get(&self) -> &Arc<Pool> {
        &self.0
    }
}

impl Drop for OwnPool {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.work.notify_all();
    }
}

impl Queues {
    fn new() -> Queues {
        Queues {
            jobs: [const { Queue::new() }; 3],
            arbiter: Arbiter::new(),
            is_closed: false,
            usage: Usage::default(),
        }
    }

    fn push(&mut self, job: Job, priority: Priority) -> Ticket {
        let ticket = self.jobs[priority as usize].push((job, Instant::now()));
        Ticket { priority, ticket }
    }

    /// Removes the job whose turn it is, to run it. Returns it with its priority.
    fn begin(&mut self) -> Option<(Job, Priority)> {
        let waiting = self.jobs.each_ref().map(|jobs| !jobs.is_empty());
        let priority = self.arbiter.next(waiting)?;
        let (job, since) = self.jobs[priority as usize].begin()?;
        self.usage.begun += 1;
        self.usage.waited += since.elapsed();
        Some((job, priority))
    }

    fn withdraw(&mut self, Ticket { priority, ticket }: Ticket) -> Option<Job> {
        let (job, _) = self.jobs[priority as usize].withdraw(ticket)?;
        Some(job)
    }

    /// Returns the number of queued jobs.
    fn queued(&self) -> usize {
        self.jobs.iter().map(Queue::len).sum()
    }
}

impl Pool {
    fn new(name: &'static str, config: Config, sets_io_priority: bool) -> Arc<Pool> {
        Arc::new(Pool {
            name,
            config,
            sets_io_priority,
            queues: Mutex::new(Queues::new()),
            work: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        lock(&self.queues)
    }

    /// Queues a job of this priority for a thread of the pool and returns its ticket. Runs it on
    /// the calling thread if no thread can be started.
    pub(crate) fn run(self: &Arc<Pool>, job: Job, priority: Priority) -> Ticket {
        let mut queues = self.lock();
        let ticket = queues.push(job, priority);
        let threads = queues.usage.threads;
        if queues.usage.idle >= queues.queued() || threads >= self.config.threads_max {
            self.work.notify_one();
            return ticket;
        }
        let own = Arc::clone(self);
        let name = format!("{}-{threads}", self.name);
        let body: Job = Box::new(move || own.serve());
        match forked::spawn(thread::Builder::new().name(name), body) {
            Ok(_) => queues.usage.threads += 1,
            Err(_) if threads > 0 => self.work.notify_one(),
            // Without any thread the call would wait forever; blocking the worker is better.
            Err(_) => {
                let job = queues.withdraw(ticket);
                drop(queues);
                if let Some(job) = job {
                    job();
                }
            }
        }
        ticket
    }

    /// Withdraws a job that has not started. Returns `None` if it has.
    pub(crate) fn withdraw(&self, ticket: Ticket) -> Option<Job> {
        self.lock().withdraw(ticket)
    }

    pub(crate) fn usage(&self) -> Usage {
        let queues = self.lock();
        Usage {
            queued: queues.queued(),
            ..queues.usage
        }
    }

    fn serve(&self) {
        let mut io_priority = self.sets_io_priority.then(IoPriority::of_thread);
        let mut queues = self.lock();
        loop {
            if let Some((job, priority)) = queues.begin() {
                drop(queues);
                if let Some(io_priority) = &mut io_priority {
                    io_priority.set(priority);
                }
                job();
                queues = self.lock();
                continue;
            }
            let mut has_waited_in_vain = queues.is_closed;
            if !has_waited_in_vain {
                queues.usage.idle += 1;
                let (next, waited) = self
                    .work
                    .wait_timeout(queues, self.config.keep_alive)
                    .unwrap_or_else(PoisonError::into_inner);
                queues = next;
                queues.usage.idle -= 1;
                has_waited_in_vain = waited.timed_out();
            }
            if has_waited_in_vain && queues.queued() == 0 {
                queues.usage.threads -= 1;
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
        let mut queues = Queues::new();
        let begun = Arc::new(Mutex::new(Vec::new()));
        let mut tickets = Vec::new();
        for priority in Priority::ALL.into_iter().rev() {
            for _ in 0..EACH {
                let begun = Arc::clone(&begun);
                let job = Box::new(move || lock(&begun).push(priority));
                tickets.push(queues.push(job, priority));
            }
        }
        assert_eq!(queues.queued(), 3 * EACH);
        // The last ticket is that of an urgent call.
        assert!(
            tickets
                .pop()
                .and_then(|ticket| queues.withdraw(ticket))
                .is_some()
        );
        while let Some((job, _)) = queues.begin() {
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

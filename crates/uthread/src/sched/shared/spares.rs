//! Spare threads, where fibers have thread-local storage of their own: each waits for a worker that
//! is [handed over](super::handover), and goes on with it. A thread whose worker was taken becomes a
//! spare one when its fiber has left it. The first spare thread starts with the runtime, others when
//! all are in use. They end with the runtime: the kernel cancels what a thread has submitted when
//! that ends.

use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use super::handover::Moved;
use crate::atomic::lock;
use crate::driver::native::standard_error;

/// Maximum number of spare threads that a runtime starts: as many fibers may block at once, each on
/// a thread, as a program of threads usually has threads. Linux has room for 32,768 by default.
const SPARES_MAX: usize = 4096;

/// Time until the next attempt after a thread could not start. It doubles with each failure in a
/// row.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(10);

/// Starts a spare thread with this number.
pub(crate) type StartThread =
    Box<dyn Fn(usize) -> io::Result<thread::JoinHandle<()>> + Send + Sync>;

#[derive(Default)]
pub(crate) struct Spares {
    inner: Mutex<Inner>,
    /// Signalled when a worker was handed over, and at the end.
    changed: Condvar,
    /// Set before the first fiber runs, if there are to be any.
    start: OnceLock<StartThread>,
}

#[derive(Default)]
struct Inner {
    threads: Vec<thread::JoinHandle<()>>,
    /// Number of threads that were started.
    started: usize,
    /// Number of threads that wait, or soon will, for which no worker was handed over.
    free: usize,
    moved: Vec<Moved>,
    is_over: bool,
    /// `true` once a thread could not start.
    has_failed: bool,
    /// After such a failure: when the next one may start, and how long that is after the failure.
    retry_at: Option<Instant>,
    delay: Duration,
}

impl Spares {
    /// Returns `true` if there are spare threads.
    pub(crate) fn may_be(&self) -> bool {
        self.start.get().is_some()
    }

    /// Starts the first thread.
    ///
    /// # Errors
    ///
    /// The error of `start`.
    pub(crate) fn begin(&self, start: StartThread) -> io::Result<()> {
        let mut inner = lock(&self.inner);
        let start = self.start.get_or_init(|| start);
        inner.start(start)
    }

    /// Starts a thread if none is free, so that the next worker that is taken need not wait for one.
    /// Called by the monitor.
    pub(in crate::sched) fn prepare(&self) {
        self.with_free(|_| ());
    }

    /// Takes the place of a free thread for a worker that is about to be taken. Returns `false` if
    /// there is none.
    pub(in crate::sched) fn reserve(&self) -> bool {
        self.with_free(|inner| inner.free -= 1)
    }

    /// Calls `action` if a thread is free, and returns `true`. Starts one before if none is.
    fn with_free(&self, action: impl FnOnce(&mut Inner)) -> bool {
        let Some(start) = self.start.get() else {
            return false;
        };
        let mut inner = lock(&self.inner);
        if inner.free == 0 && !inner.is_delayed() {
            let started = inner.start(start);
            started.unwrap_or_else(|error| inner.record_failure(&error));
        }
        let is_free = inner.free > 0;
        if is_free {
            action(&mut inner);
        }
        is_free
    }

    /// Hands a worker over to the reserved thread or, if it was not taken, frees that again.
    pub(in crate::sched) fn hand(&self, moved: Option<Moved>) {
        let mut inner = lock(&self.inner);
        match moved {
            Some(moved) => {
                inner.moved.push(moved);
                self.changed.notify_one();
            }
            None => inner.free += 1,
        }
    }

    /// Adds the calling thread, whose worker was taken, to the free ones.
    pub(in crate::sched) fn add_thread(&self) {
        lock(&self.inner).free += 1;
    }

    /// Waits for a worker. Returns `None` at the end of the runtime.
    pub(in crate::sched) fn wait(&self) -> Option<Moved> {
        let mut inner = lock(&self.inner);
        loop {
            if let Some(moved) = inner.moved.pop() {
                return Some(moved);
            }
            if inner.is_over {
                return None;
            }
            let waited = self.changed.wait(inner);
            inner = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets all threads end. Called when the last worker has ended.
    pub(in crate::sched) fn end(&self) {
        lock(&self.inner).is_over = true;
        self.changed.notify_all();
    }

    /// Takes the threads, to join them.
    pub(crate) fn take_threads(&self) -> Vec<thread::JoinHandle<()>> {
        std::mem::take(&mut lock(&self.inner).threads)
    }
}

impl Inner {
    fn start(&mut self, start: &StartThread) -> io::Result<()> {
        if self.started == SPARES_MAX {
            let what = format!("all {SPARES_MAX} spare threads of the runtime are in use");
            return Err(io::Error::other(what));
        }
        self.threads.push(start(self.started)?);
        self.started += 1;
        self.free += 1;
        self.delay = Duration::ZERO;
        Ok(())
    }

    fn is_delayed(&self) -> bool {
        self.is_over || self.retry_at.is_some_and(|at| Instant::now() < at)
    }

    /// Says once why a fiber that blocks its thread keeps its worker, and delays the next attempt.
    fn record_failure(&mut self, error: &io::Error) {
        self.delay = (self.delay * 2).clamp(RETRY_MIN, RETRY_MAX);
        self.retry_at = Some(Instant::now() + self.delay);
        if !std::mem::replace(&mut self.has_failed, true) {
            standard_error::print(format_args!(
                "uthread: no other thread goes on for one that is blocked: {error}\n"
            ));
        }
    }
}

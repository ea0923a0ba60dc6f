//! The limit of time for a test: a test that takes longer is cancelled, and fails with a list of its
//! fibers.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{io, process, thread};

use super::{Backend, Runtime};
use crate::driver::native::standard_error;
use crate::fiber::Grouped;
use crate::forked;
use crate::pool::Job;
use crate::sched::features::listing;
use crate::sched::shared::Shared;
use crate::sched::threads::Threads;

/// How long a worker may take to list its fibers: it does not if one of them keeps it.
const LIST_TIME_MAX: Duration = Duration::from_secs(1);

/// How long a test may take to end once it is cancelled.
const END_TIME_MAX: Duration = Duration::from_secs(5);

/// The limit of a test that runs.
pub(super) struct Limit {
    has_ended: Sender<()>,
    thread: thread::JoinHandle<()>,
    verdict: Arc<OnceLock<String>>,
}

/// The fibers of a test.
enum Fibers {
    OnWorkers(Arc<Shared>),
    Threads(Arc<Threads>),
}

impl Limit {
    /// Begins the limit of a test that is about to run.
    ///
    /// # Errors
    ///
    /// The errors of `pthread_create(3)`.
    pub(super) fn begin(runtime: &Runtime, limit: Duration) -> io::Result<Limit> {
        let fibers = match &runtime.backend {
            Backend::Workers(workers) => Fibers::OnWorkers(Arc::clone(&workers.shared)),
            Backend::Threads(threads) => Fibers::Threads(Arc::clone(threads)),
        };
        let (has_ended, end) = mpsc::channel();
        let verdict = Arc::new(OnceLock::new());
        let theirs = Arc::clone(&verdict);
        let body: Job = Box::new(move || watch(&fibers, limit, &end, &theirs));
        let thread = thread::Builder::new().name("uthread-limit".to_owned());
        Ok(Limit {
            has_ended,
            thread: forked::spawn(thread, body)?,
            verdict,
        })
    }

    /// Ends the limit, as the test has ended. Returns what to say if it has taken longer.
    pub(super) fn end(self) -> Option<String> {
        drop(self.has_ended);
        // It does not panic.
        let _ = self.thread.join();
        self.verdict.get().cloned()
    }
}

/// Waits for the end of the test, and cancels it if that does not come in time.
fn watch(fibers: &Fibers, limit: Duration, end: &Receiver<()>, verdict: &OnceLock<String>) {
    let is_late = |limit| end.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
    if !is_late(limit) {
        return;
    }
    let list = match fibers {
        Fibers::OnWorkers(shared) => match listing::fibers(shared, LIST_TIME_MAX) {
            Some(fibers) => Grouped(&fibers).to_string(),
            None => "    a fiber keeps its worker\n".to_owned(),
        },
        Fibers::Threads(_) => String::new(),
    };
    let verdict = verdict
        .get_or_init(|| format!("the test has not ended within its limit of {limit:?}\n{list}"));
    match fibers {
        Fibers::OnWorkers(shared) => shared.shut_down(),
        Fibers::Threads(threads) => {
            let threads = Arc::clone(threads);
            // If it cannot start, the process ends below.
            let _ = forked::spawn(thread::Builder::new(), Box::new(move || threads.end()));
        }
    }
    if is_late(END_TIME_MAX) {
        standard_error::print(format_args!(
            "uthread: {verdict}uthread: it was cancelled, but goes on: the process is aborted\n"
        ));
        process::abort();
    }
}

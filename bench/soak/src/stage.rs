//! The state that the fibers of an epoch share: counters, the request to stop, and violations.

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use uthread::JoinHandle;
use uthread::thread::Cancelled;

pub(crate) struct Stage {
    pub(crate) tally: Tally,
    /// Where files go; gone with the epoch.
    pub(crate) directory: PathBuf,
    stopping: AtomicBool,
    cut: AtomicBool,
    next_id: AtomicU64,
    violations: Mutex<Vec<String>>,
}

/// The events of an epoch.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) fibers: Count,
    pub(crate) fibers_ended: Count,
    pub(crate) sent: Count,
    pub(crate) received: Count,
    /// Messages sent into streams that were reset or cut off, and not received.
    pub(crate) lost: Count,
    pub(crate) bytes: Count,
    pub(crate) timeouts: Count,
    pub(crate) resets: Count,
    pub(crate) refused: Count,
    pub(crate) panics: Count,
}

#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Stage {
    pub(crate) fn new(directory: PathBuf) -> Stage {
        Stage {
            tally: Tally::default(),
            directory,
            stopping: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            next_id: AtomicU64::new(1),
            violations: Mutex::default(),
        }
    }

    /// A number that nothing else of the epoch has.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Scenarios that run come to their ends, and none begins.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst) || self.is_cut()
    }

    /// From now on whatever waits may be cancelled.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }

    pub(crate) fn violation(&self, what: impl Display) {
        self.lock().push(what.to_string());
    }

    /// Notes an error that nobody expected. Expected at the end are cancellation, and a peer that is gone
    /// because it was cancelled first.
    pub(crate) fn judge(&self, what: &str, error: &io::Error) {
        if !(self.is_cut() && (is_cancelled(error) || is_reset(error))) {
            self.violation(format_args!("{what}: {error}"));
        }
    }

    /// Fails with the sentence if the condition does not hold: for what rests on waits that have come to
    /// their ends. At the end of a runtime such a wait may return early, beside fibers that unwind.
    pub(crate) fn expect_waited(&self, holds: bool, what: impl Display) -> io::Result<()> {
        expect(holds || self.is_cut(), what)
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.lock().clone()
    }

    /// Poisoned without need where a fiber of the same thread unwinds.
    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.violations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a fiber: to be moved into its closure, and so dropped when it has ended or never will
    /// begin.
    pub(crate) fn life(self: &Arc<Self>) -> Life {
        self.tally.fibers.add(1);
        Life(Arc::clone(self))
    }
}

/// A fiber that was spawned and has not ended.
pub(crate) struct Life(Arc<Stage>);

impl Drop for Life {
    fn drop(&mut self) {
        self.0.tally.fibers_ended.add(1);
    }
}

/// Starts a fiber that is counted.
#[track_caller]
pub(crate) fn spawn<T: Send + 'static>(
    stage: &Arc<Stage>,
    body: impl FnOnce(&Arc<Stage>) -> T + Send + 'static,
) -> JoinHandle<T> {
    let life = stage.life();
    uthread::spawn(move || {
        let life = life;
        body(&life.0)
    })
}

/// The result of a fiber that shall not panic.
pub(crate) fn join<T>(handle: JoinHandle<T>) -> io::Result<T> {
    handle
        .join()
        .map_err(|payload| match payload.is::<Cancelled>() {
            true => Errno::CANCELED.into(),
            false => broken("a fiber panicked"),
        })
}

/// Joins fibers that can fail. All of them, also after an error, so that each one's end is seen.
pub(crate) fn join_all<T>(
    handles: impl IntoIterator<Item = JoinHandle<io::Result<T>>>,
) -> io::Result<()> {
    let results: Vec<_> = handles.into_iter().map(join).collect();
    results.into_iter().try_for_each(|result| result?.map(drop))
}

fn is_cancelled(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::CANCELED.raw_os_error())
}

/// Returns `true` if the peer's reset may cause this error.
pub(crate) fn is_reset(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe
            | ErrorKind::NotConnected
            | ErrorKind::UnexpectedEof
    )
}

/// A promise that the library broke.
pub(crate) fn broken(what: impl Display) -> io::Error {
    io::Error::other(what.to_string())
}

/// Fails with the sentence if the condition does not hold.
pub(crate) fn expect(holds: bool, what: impl Display) -> io::Result<()> {
    if holds { Ok(()) } else { Err(broken(what)) }
}

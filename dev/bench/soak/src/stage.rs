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
    /// Folder of the files, removed with the epoch.
    pub(crate) directory: PathBuf,
    /// `true` if fibers may block their workers' threads.
    pub(crate) may_block: bool,
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
    /// Resets that the kernel has lost.
    pub(crate) resets_lost: Count,
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
    pub(crate) fn new(directory: PathBuf, may_block: bool) -> Stage {
        Stage {
            tally: Tally::default(),
            directory,
            may_block,
            stopping: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            next_id: AtomicU64::new(1),
            violations: Mutex::default(),
        }
    }

    /// Returns a number that is unique in the epoch.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Lets running scenarios finish, and starts no others.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst) || self.is_cut()
    }

    /// Announces that the runtime is about to be dropped: from now on waits may be cancelled.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }

    pub(crate) fn violation(&self, what: impl Display) {
        self.lock().push(what.to_string());
    }

    /// Records an unexpected error. At the end, cancellation and a reset by a cancelled peer are
    /// expected.
    pub(crate) fn judge(&self, what: &str, error: &io::Error) {
        if !(self.is_cut() && (is_cancelled(error) || is_reset(error))) {
            self.violation(format_args!("{what}: {error}"));
        }
    }

    /// Fails if the condition does not hold, for conditions that depend on finished waits. While a
    /// runtime is dropped, such a wait may return early, beside fibers that unwind.
    pub(crate) fn expect_waited(&self, holds: bool, what: impl Display) -> io::Result<()> {
        expect(holds || self.is_cut(), what)
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        lock(&self.violations)
    }

    /// Counts a fiber. The value is moved into its closure, and so dropped when the fiber has ended
    /// or will never start.
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

/// Joins a fiber that must not panic.
pub(crate) fn join<T>(handle: JoinHandle<T>) -> io::Result<T> {
    handle.join().map_err(|payload| {
        if payload.is::<Cancelled>() {
            Errno::CANCELED.into()
        } else {
            broken("a fiber panicked")
        }
    })
}

/// Joins all fibers, also after an error, so that the end of each is observed.
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

/// Returns an error for a broken guarantee of the library.
pub(crate) fn broken(what: impl Display) -> io::Error {
    io::Error::other(what.to_string())
}

/// Fails with this message if the condition does not hold.
pub(crate) fn expect(holds: bool, what: impl Display) -> io::Result<()> {
    if holds { Ok(()) } else { Err(broken(what)) }
}

/// Locks a mutex of `std`. Ignores poisoning, which a fiber causes when it unwinds.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

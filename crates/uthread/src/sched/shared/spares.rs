//! Spare workers, where fibers have thread-local storage of their own: such a fiber may block its
//! worker's thread anywhere.
//!
//! ```text
//!   active    runs fibers, or sleeps until there are some: as many workers as the runtime was built with
//!   away      its fiber blocks the thread, or computes for long, while others wait; a spare worker is active instead
//!   benched   runs nothing; it collects what its own ring and timers still have, and passes that on
//! ```
//!
//! A worker is away from the moment at which its fiber announces a blocking call, or the
//! [monitor](super::monitor) finds it stuck. When its loop goes on, it takes a free place among the
//! active ones, or is benched. A benched worker is the next to become active. The first spare
//! worker starts with the runtime, others when all are in use; they end with the runtime.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};
use std::{io, thread};

use crate::atomic::lock;
use crate::driver::native::standard_error;

/// Maximum number of spare workers of a runtime, each with a thread and a ring.
pub(in crate::sched) const SPARES_MAX: usize = 256;

/// Time until the next attempt after a spare worker could not start. It doubles with each failure
/// in a row, as each uses up one of the spare workers.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(10);

/// The spare workers of a runtime, of type `W`, and what starts one.
pub(in crate::sched) struct Spares<W, S> {
    /// Empty if fibers have no thread-local storage of their own.
    slots: Box<[OnceLock<Arc<W>>]>,
    /// Number of slots in use.
    used: AtomicUsize,
    roster: Mutex<Roster>,
    /// Set before the first spare worker starts.
    pub(in crate::sched) start: OnceLock<S>,
}

/// The workers that are away or benched. A worker's [`Duty`] changes under this lock.
#[derive(Default)]
pub(in crate::sched) struct Roster {
    /// Number of workers that are away.
    pub(in crate::sched) away: usize,
    /// Number of workers by which fewer are active than the runtime was built with.
    pub(in crate::sched) free: usize,
    /// The benched workers.
    pub(in crate::sched) benched: Vec<usize>,
    pub(in crate::sched) threads: Vec<thread::JoinHandle<()>>,
    /// `true` once a spare worker could not start.
    has_failed: bool,
    /// After such a failure: when the next one may start, and how long that is after the failure.
    pub(in crate::sched) retry_at: Option<Instant>,
    pub(in crate::sched) delay: Duration,
}

/// A worker's part in running fibers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::sched) enum State {
    Active,
    Away,
    Benched,
}

/// The [`State`] of one worker.
#[derive(Debug, Default)]
pub(in crate::sched) struct Duty(AtomicU8);

impl Duty {
    pub(in crate::sched) fn is(&self, state: State) -> bool {
        // Acquire pairs with the release in `set`.
        self.0.load(Ordering::Acquire) == state as u8
    }

    pub(in crate::sched) fn set(&self, state: State) {
        self.0.store(state as u8, Ordering::Release);
    }

    pub(in crate::sched) fn is_away(&self) -> bool {
        self.is(State::Away)
    }

    pub(in crate::sched) fn is_benched(&self) -> bool {
        self.is(State::Benched)
    }
}

impl<W, S> Spares<W, S> {
    /// Returns an empty set. It stays empty unless there `may_be` spare workers.
    pub(in crate::sched) fn new(may_be: bool) -> Spares<W, S> {
        let slots = if may_be { SPARES_MAX } else { 0 };
        Spares {
            slots: (0..slots).map(|_| OnceLock::new()).collect(),
            used: AtomicUsize::new(0),
            roster: Mutex::default(),
            start: OnceLock::new(),
        }
    }

    /// Returns `true` if there may be spare workers.
    pub(in crate::sched) fn may_be(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Adds a spare worker, and returns its index among them, or `None` if there are too many.
    /// Called under the lock of the roster.
    pub(in crate::sched) fn add(&self, worker: Arc<W>) -> Option<usize> {
        let used = self.len();
        let _ = self.slots.get(used)?.set(worker);
        // Release pairs with the acquire in `len`.
        self.used.store(used + 1, Ordering::Release);
        Some(used)
    }

    /// Returns the number of spare workers that were started.
    pub(in crate::sched) fn len(&self) -> usize {
        // Acquire pairs with the release in `add`.
        self.used.load(Ordering::Acquire)
    }

    /// Returns the spare workers that were started.
    pub(in crate::sched) fn iter(&self) -> impl Iterator<Item = &Arc<W>> {
        self.slots[..self.len()].iter().filter_map(OnceLock::get)
    }

    /// Returns the spare worker with this index among them.
    pub(in crate::sched) fn get(&self, index: usize) -> &Arc<W> {
        self.slots[index].get().expect("the worker was started")
    }

    pub(in crate::sched) fn roster(&self) -> MutexGuard<'_, Roster> {
        lock(&self.roster)
    }
}

impl Roster {
    /// Says once why a fiber that blocks its thread keeps its worker, and delays the next attempt.
    pub(in crate::sched) fn record_failure(&mut self, error: &io::Error) {
        self.delay = (self.delay * 2).clamp(RETRY_MIN, RETRY_MAX);
        self.retry_at = Some(Instant::now() + self.delay);
        if !std::mem::replace(&mut self.has_failed, true) {
            standard_error::print(format_args!(
                "uthread: no other worker goes on for one that is blocked: {error}\n"
            ));
        }
    }
}

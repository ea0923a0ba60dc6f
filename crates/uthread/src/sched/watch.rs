//! The watch: one thread of the runtime that looks whether a fiber keeps its worker to itself.
//!
//! A fiber that computes for long, or blocks outside of the runtime, holds up all who wait for the same
//! worker. Nothing can stop it from outside, but it can be named. And where fibers migrate, the watch wakes
//! another worker to take over what waits there.
//!
//! It looks from time to time, and not at all while every worker sleeps.

use std::fmt;
use std::panic::{self, AssertUnwindSafe, Location};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::shared::Shared;
use crate::driver::native::blocked::Blocked;

/// A stall is noticed at most a quarter of the threshold late.
const LOOKS_PER_THRESHOLD: u32 = 4;
/// A look costs some microseconds: as often as this it takes a percent of a CPU.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// Thresholds that every worker must be kept for before it counts as a stall that fibers cannot start: a batch of computations
/// that takes turns is none.
const UNSTARTED_THRESHOLDS: u32 = 10;

/// Looks at nothing but sleep before the watch stops. Whoever wakes up next then wakes the watch, which
/// shall not happen with every request of a server that has little to do.
const IDLE_LOOKS_MAX: u32 = 10;

/// The default report prints a line per second at most.
const LINES_APART: Duration = Duration::from_secs(1);

/// A fiber that keeps its worker while others wait for it; see the example of [`Builder::on_stall`].
///
/// [`Builder::on_stall`]: crate::Builder::on_stall
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// The worker: the number in its thread's name.
    pub worker: usize,
    /// The fiber's id, as its thread handle shows it.
    pub fiber: u64,
    /// The fiber's name, if it has one.
    pub name: Option<Box<str>>,
    /// Where it was spawned.
    pub spawn_site: &'static Location<'static>,
    /// How long it has run without a call that suspends it, at least.
    pub duration: Duration,
    /// What it does with the worker.
    pub cause: StallCause,
}

/// What a fiber that keeps its worker does with it.
///
/// ```
/// use uthread::{Stall, StallCause};
///
/// fn advice(stall: &Stall) -> &'static str {
///     match stall.cause {
///         StallCause::Runs => "let it yield",
///         StallCause::WaitsForLock => "take a lock of uthread",
///         _ => "make the call in uthread::blocking",
///     }
/// }
///
/// let report = |stall: &Stall| eprintln!("{stall}: {}", advice(stall));
/// let runtime = uthread::Runtime::builder().on_stall(report).build()?;
/// # drop(runtime);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallCause {
    /// It runs, or the kernel does not tell what it does.
    Runs,
    /// It is blocked in a futex: mostly by a lock or a channel of `std`, perhaps one that another fiber of this
    /// worker has, which then never goes on.
    WaitsForLock,
    /// It is blocked in another system call.
    WaitsInKernel,
}

impl fmt::Display for Stall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "fiber {} ", self.fiber)?;
        if let Some(name) = &self.name {
            write!(formatter, "\"{name}\" ")?;
        }
        write!(
            formatter,
            "(spawned at {}) has kept worker {} for {} ms while others wait",
            self.spawn_site,
            self.worker,
            self.duration.as_millis()
        )?;
        formatter.write_str(match self.cause {
            StallCause::Runs => {
                ": let it call yield_now now and then, or run what blocks in uthread::blocking"
            }
            StallCause::WaitsForLock => {
                ", blocked by a lock that does not suspend it: a std lock? use uthread::sync::Mutex \
                 (or RwLock, Condvar, mpsc), also where another fiber holds one across a call that waits"
            }
            StallCause::WaitsInKernel => {
                ", blocked in a system call: use the call of uthread by that name, or run it in \
                 uthread::blocking"
            }
        })
    }
}

/// Whom to tell of stalls.
pub(crate) type Report = Arc<dyn Fn(&Stall) + Send + Sync>;

/// What the watch is to notice.
#[derive(Clone)]
pub(crate) struct Orders {
    /// From when on a stall counts; none if it never does.
    pub(crate) threshold: Option<Duration>,
    /// None prints them.
    pub(crate) report: Option<Report>,
}

/// By what the watch is woken.
#[derive(Default)]
pub(crate) struct Bell {
    /// Whether the watch has stopped looking. Sequentially consistent, as is the state of a sleeper: of a
    /// worker that wakes up and a watch that stops, one sees the other.
    stopped: AtomicBool,
    dismissed: AtomicBool,
    watch: OnceLock<Thread>,
}

impl Bell {
    /// A worker is up: somebody has to look.
    pub(super) fn ring(&self) {
        if self.stopped.load(Ordering::SeqCst) {
            self.watch.get().inspect(|watch| watch.unpark());
        }
    }

    /// Ends the watch, if there is one, and does not wait for that.
    pub(crate) fn dismiss_own(&self) {
        self.dismissed.store(true, Ordering::Relaxed);
        self.watch.get().inspect(|watch| watch.unpark());
    }

    /// Ends the watch, which is this thread.
    pub(crate) fn dismiss(&self, watch: &Thread) {
        // Relaxed: the unpark orders it.
        self.dismissed.store(true, Ordering::Relaxed);
        watch.unpark();
    }
}

pub(crate) struct Watch {
    shared: Arc<Shared>,
    orders: Orders,
    posts: Vec<Post>,
    last_line: Option<Instant>,
    lines_left_out: u64,
}

/// What was last seen of a worker.
#[derive(Clone, Copy)]
struct Post {
    switches: u64,
    since: Instant,
    /// How long the stall must last to be told of (again).
    told_from: Duration,
}

impl Watch {
    /// None where there is nothing to look for.
    pub(crate) fn new(shared: Arc<Shared>, orders: Orders) -> Option<Watch> {
        (orders.threshold.is_some() || shared.is_migrating()).then(|| Watch {
            shared,
            orders,
            posts: Vec::new(),
            last_line: None,
            lines_left_out: 0,
        })
    }

    /// Looks until it is dismissed.
    pub(crate) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let bell = &shared.bell;
        let _ = bell.watch.set(thread::current());
        let pause = self.pause();
        let mut idle_looks = 0;
        while !bell.dismissed.load(Ordering::Relaxed) {
            idle_looks = if self.look(Instant::now()) {
                0
            } else {
                idle_looks + 1
            };
            if idle_looks < IDLE_LOOKS_MAX {
                thread::park_timeout(pause);
                continue;
            }
            bell.stopped.store(true, Ordering::SeqCst);
            if !shared.is_anybody_awake() {
                thread::park();
            }
            bell.stopped.store(false, Ordering::SeqCst);
            idle_looks = 0;
        }
    }

    fn pause(&self) -> Duration {
        match self.orders.threshold {
            Some(threshold) if !self.shared.is_migrating() => {
                (threshold / LOOKS_PER_THRESHOLD).max(PAUSE_MIN)
            }
            _ => PAUSE_MIN,
        }
    }

    /// Looks at each worker; whether one is awake.
    fn look(&mut self, now: Instant) -> bool {
        let shared = Arc::clone(&self.shared);
        let mut awake = false;
        let mut all_stall_since = Some(Duration::MAX);
        for index in 0..shared.workers() {
            let remote = shared.remote(index);
            let switches = remote.counters.switches.get();
            let runs = !remote.sleeper.is_asleep() && remote.counters.running.get() != 0;
            awake |= remote.is_awake();
            let fresh = Post {
                switches,
                since: now,
                told_from: self.orders.threshold.unwrap_or(Duration::MAX),
            };
            if self.posts.len() == index {
                self.posts.push(fresh);
            }
            let post = &mut self.posts[index];
            if !runs || post.switches != switches {
                *post = fresh;
                all_stall_since = None;
                continue;
            }
            let duration = now.saturating_duration_since(post.since);
            if shared.is_migrating() && !duration.is_zero() && remote.has_something_waiting(now) {
                shared.wake_one();
            }
            all_stall_since = all_stall_since.map(|since| since.min(duration));
            if duration >= post.told_from && shared.do_others_wait_for(remote) {
                self.note_stall(index, duration);
            }
        }
        if let (Some(threshold), Some(duration)) = (self.orders.threshold, all_stall_since)
            && duration >= threshold * UNSTARTED_THRESHOLDS
            && shared.do_unstarted_wait()
        {
            for index in 0..shared.workers() {
                let Post {
                    since, told_from, ..
                } = self.posts[index];
                let duration = now.saturating_duration_since(since);
                if duration >= told_from {
                    self.note_stall(index, duration);
                }
            }
        }
        awake
    }

    fn note_stall(&mut self, index: usize, duration: Duration) {
        let post = &mut self.posts[index];
        let first = Some(post.told_from) == self.orders.threshold;
        post.told_from = duration * 2;
        self.tell(index, duration, first);
    }

    fn tell(&mut self, index: usize, duration: Duration, first: bool) {
        let remote = self.shared.remote(index);
        let fiber = remote.counters.running.get();
        let Some(spawn_site) = remote.counters.spawn_site.load() else {
            return;
        };
        if first {
            remote.counters.stalls.add(1);
        }
        let stall = Stall {
            worker: index,
            fiber,
            name: self.shared.name_of(fiber),
            spawn_site,
            duration,
            cause: match remote.task.get().and_then(|task| task.blocked()) {
                None => StallCause::Runs,
                Some(Blocked::Futex) => StallCause::WaitsForLock,
                Some(Blocked::Other) => StallCause::WaitsInKernel,
            },
        };
        match &self.orders.report {
            // Whatever it does, the watch goes on.
            Some(report) => drop(panic::catch_unwind(AssertUnwindSafe(|| report(&stall)))),
            None => self.print(&stall),
        }
    }

    fn print(&mut self, stall: &Stall) {
        if self
            .last_line
            .is_some_and(|last| last.elapsed() < LINES_APART)
        {
            self.lines_left_out += 1;
            return;
        }
        self.last_line = Some(Instant::now());
        match std::mem::take(&mut self.lines_left_out) {
            0 => eprintln!("uthread: {stall}"),
            count => eprintln!("uthread: {stall} ({count} more such stalls since the last line)"),
        }
    }
}

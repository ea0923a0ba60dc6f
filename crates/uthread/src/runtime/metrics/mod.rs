//! Counters of a runtime's activity and the lengths of its queues, per worker, readable at any
//! time. [`delays`] has the distribution of scheduling delays.

mod delays;

use std::fmt;
use std::iter::Sum;
use std::ops::Add;
use std::time::Duration;

use crate::pool::{self, Pool};
use crate::sched::caller;
use crate::sched::shared::Reading;

pub use self::delays::Delays;

/// The activity of a runtime's workers since it started; see [`Runtime::metrics`].
///
/// The counters are read while the workers run. Each is exact for some recent moment, but not all
/// for the same moment.
///
/// [`Runtime::metrics`]: crate::Runtime::metrics
///
/// ```
/// let runtime = uthread::Runtime::builder().workers(2).build()?;
/// runtime.run(|| uthread::spawn(|| ()).join()).unwrap();
/// let metrics = runtime.metrics();
/// assert_eq!(metrics.workers.len(), 2);
/// assert_eq!(metrics.total().fibers, 2);
/// println!("{metrics}");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// One entry per worker, in the order of the numbers in their threads' names.
    pub workers: Vec<WorkerMetrics>,
    /// Number of fibers that wait for any worker: new ones that were spawned outside the workers,
    /// or have a priority.
    pub injector: usize,
    /// The threads of this runtime that run calls passed to [`blocking`](crate::blocking).
    pub blocking: PoolMetrics,
    /// The threads that run calls of this crate on files which the driver does not support. The
    /// runtimes of the process share them.
    pub files: PoolMetrics,
    /// The threads on which calls of this crate wait for others: for the resolution of a name, a
    /// file lock, or the end of a thread or process. The runtimes of the process share them.
    pub waits: PoolMetrics,
}

/// The activity of a pool of threads.
///
/// ```
/// let runtime = uthread::Runtime::builder().lean().build()?;
/// runtime.run(|| uthread::blocking(|| ()));
/// let pool = runtime.metrics().blocking;
/// assert_eq!((pool.threads, pool.queued, pool.calls), (1, 0, 1));
/// println!("calls waited for {:?} in total", pool.waited);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolMetrics {
    /// Number of threads.
    pub threads: usize,
    /// Number of these that wait for a call.
    pub idle: usize,
    /// Number of calls that wait for a thread.
    pub queued: usize,
    /// Number of calls that a thread has begun.
    pub calls: u64,
    /// Total time for which these calls were queued.
    pub waited: Duration,
}

/// The activity of one worker. See the example of [`Metrics::total`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerMetrics {
    /// Number of fibers that are ready to run on this worker now, without the one that runs. A
    /// fiber whose operation has completed is ready once the worker has collected the result.
    pub ready: usize,
    /// Number of new fibers that are queued at this worker now.
    pub new: usize,
    /// Scheduling delays, if [`Builder::sample_delays`](crate::runtime::Builder::sample_delays)
    /// asks for them.
    pub delays: Delays,
    /// Number of fibers started.
    pub fibers: u64,
    /// Number of fibers ended.
    pub ended: u64,
    /// Number of switches to a fiber, including the first switch to each.
    pub switches: u64,
    /// Number of times that this worker stole new fibers from another, and of started fibers that
    /// others gave to it.
    pub steals: u64,
    /// Number of times that this worker took new fibers that were spawned outside the workers.
    pub injected: u64,
    /// Number of times that this worker woke another one to run new fibers.
    pub wakes_sent: u64,
    /// Number of times that this worker had such fibers and did not have to wake another one.
    pub wakes_spared: u64,
    /// Number of system calls made by the driver.
    pub enters: u64,
    /// Number of operations submitted to the kernel.
    pub submissions: u64,
    /// Number of operations whose results this worker collected.
    pub completions: u64,
    /// Number of times that a fiber occupied this worker for longer than
    /// [`Builder::stall_threshold`](crate::runtime::Builder::stall_threshold) while others waited.
    pub stalls: u64,
    /// Number of times that the worker had no work and slept.
    pub sleeps: u64,
    /// Total time that the worker has slept. A sleep is counted when it ends.
    pub idle: Duration,
}

impl Metrics {
    /// Returns the metrics of the runtime whose fiber is the caller, such as that of
    /// [`main`](macro@crate::main). `None` outside of fibers.
    ///
    /// ```
    /// use uthread::runtime::Metrics;
    ///
    /// assert!(Metrics::current().is_none());
    /// let metrics = uthread::spawn(|| Metrics::current().unwrap()).join().unwrap();
    /// assert!(metrics.total().fibers >= 1);
    /// ```
    #[must_use]
    pub fn current() -> Option<Metrics> {
        caller::with_readings(Metrics::new)
    }

    pub(crate) fn new(
        workers: &mut dyn Iterator<Item = Reading<'_>>,
        injector: usize,
        blocking: Option<&Pool>,
    ) -> Metrics {
        Metrics {
            workers: workers.map(WorkerMetrics::of).collect(),
            injector,
            blocking: blocking.map(PoolMetrics::read).unwrap_or_default(),
            files: PoolMetrics::read(pool::files()),
            waits: PoolMetrics::read(pool::waits()),
        }
    }

    fn pools(&self) -> [(&'static str, PoolMetrics); 3] {
        [
            ("blocking", self.blocking),
            ("files", self.files),
            ("waits", self.waits),
        ]
    }

    /// Returns the sum over all workers.
    ///
    /// ```
    /// let runtime = uthread::Runtime::builder().workers(2).build()?;
    /// runtime.run(|| uthread::spawn(|| ()).join().unwrap());
    /// let total = runtime.metrics().total();
    /// assert_eq!(total.fibers, 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn total(&self) -> WorkerMetrics {
        self.workers.iter().copied().sum()
    }
}

impl PoolMetrics {
    fn read(pool: &Pool) -> PoolMetrics {
        let usage = pool.usage();
        PoolMetrics {
            threads: usage.threads,
            idle: usage.idle,
            queued: usage.queued,
            calls: usage.begun,
            waited: usage.waited,
        }
    }
}

impl WorkerMetrics {
    fn of(reading: Reading<'_>) -> WorkerMetrics {
        let Reading { counters, .. } = reading;
        let driver = counters.driver();
        WorkerMetrics {
            ready: reading.ready,
            new: reading.new,
            delays: reading.delays.map(Delays::read).unwrap_or_default(),
            fibers: counters.fibers.get(),
            ended: counters.ended.get(),
            switches: counters.switches.get(),
            steals: counters.steals.get(),
            injected: counters.injected.get(),
            wakes_sent: counters.wakes_sent.get(),
            wakes_spared: counters.wakes_spared.get(),
            enters: driver.enters,
            submissions: driver.submissions,
            completions: counters.completions.get(),
            stalls: counters.stalls.get(),
            sleeps: counters.sleeps.get(),
            idle: Duration::from_nanos(counters.idle_ns.get()),
        }
    }

    /// Returns the columns of the table in order.
    fn columns(&self) -> [(&'static str, u64); 14] {
        [
            ("fibers", self.fibers),
            ("ended", self.ended),
            ("switches", self.switches),
            ("steals", self.steals),
            ("injected", self.injected),
            ("wakes", self.wakes_sent),
            ("spared", self.wakes_spared),
            ("enters", self.enters),
            ("submissions", self.submissions),
            ("completions", self.completions),
            ("stalls", self.stalls),
            ("sleeps", self.sleeps),
            ("ready", self.ready as u64),
            ("new", self.new as u64),
        ]
    }
}

impl Add for WorkerMetrics {
    type Output = WorkerMetrics;

    fn add(self, other: WorkerMetrics) -> WorkerMetrics {
        WorkerMetrics {
            ready: self.ready + other.ready,
            new: self.new + other.new,
            delays: self.delays + other.delays,
            fibers: self.fibers + other.fibers,
            ended: self.ended + other.ended,
            switches: self.switches + other.switches,
            steals: self.steals + other.steals,
            injected: self.injected + other.injected,
            wakes_sent: self.wakes_sent + other.wakes_sent,
            wakes_spared: self.wakes_spared + other.wakes_spared,
            enters: self.enters + other.enters,
            submissions: self.submissions + other.submissions,
            completions: self.completions + other.completions,
            stalls: self.stalls + other.stalls,
            sleeps: self.sleeps + other.sleeps,
            idle: self.idle + other.idle,
        }
    }
}

impl Sum for WorkerMetrics {
    fn sum<I: Iterator<Item = WorkerMetrics>>(metrics: I) -> WorkerMetrics {
        metrics.fold(WorkerMetrics::default(), Add::add)
    }
}

/// Formats a table with one line per worker and, if there are several workers, a line with their
/// sum; and a table of those pools that have run a call.
impl fmt::Display for Metrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "worker")?;
        for (name, _) in WorkerMetrics::default().columns() {
            write!(formatter, " {name:>11}")?;
        }
        write!(formatter, " {:>11}", "idle ms")?;
        for (index, worker) in self.workers.iter().enumerate() {
            write_line(formatter, &index.to_string(), worker)?;
        }
        if self.workers.len() > 1 {
            write_line(formatter, "all", &self.total())?;
        }
        let pools = self.pools();
        let mut used = pools.iter().filter(|(_, pool)| pool.calls > 0).peekable();
        if used.peek().is_some() {
            write!(formatter, "\n    pool")?;
            for column in ["threads", "idle", "queued", "calls", "waited ms"] {
                write!(formatter, " {column:>11}")?;
            }
        }
        for (name, pool) in used {
            write!(formatter, "\n{name:>8}")?;
            for count in [pool.threads, pool.idle, pool.queued] {
                write!(formatter, " {count:>11}")?;
            }
            let waited_ms = pool.waited.as_millis();
            write!(formatter, " {:>11} {waited_ms:>11}", pool.calls)?;
        }
        Ok(())
    }
}

fn write_line(
    formatter: &mut fmt::Formatter<'_>,
    name: &str,
    worker: &WorkerMetrics,
) -> fmt::Result {
    write!(formatter, "\n{name:>6}")?;
    for (_, count) in worker.columns() {
        write!(formatter, " {count:>11}")?;
    }
    write!(formatter, " {:>11}", worker.idle.as_millis())
}

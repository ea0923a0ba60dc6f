//! Configuration of a runtime, and the start of its workers.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use std::{env, fmt, io, thread};

use super::driver::{self, MakeDriver, Mechanism, Reason};
use super::starts::{Reporter, Starts};
use super::workers::Counts;
use super::{Backend, Driver, DriverInfo, Runtime, Workers, dump, panic_hook, shortage};
use crate::clock::VirtualClock;
use crate::driver::uring;
use crate::fiber::{AnyContext, FiberContext};
use crate::forked;
use crate::pool::{self, Job};
use crate::sched::caller;
use crate::sched::features::fork;
use crate::sched::monitor::{self, Monitor, Stall};
use crate::sched::shared::spares::StartThread;
use crate::sched::shared::{LocalEnds, Settings, SharePolicy, Shared};
use crate::sched::threads::Threads;
use crate::sched::worker::thread as worker_thread;
use crate::sched::worker::{Worker, current};
use crate::stack::overflow::{self, AlternateStack};
use crate::stack::sizes::STACK_SIZE_MAX;
use crate::tls::{self, donor};

/// Default stack size of a fiber, guard included. It is address space, of which only touched pages
/// take memory (plus page tables of a five hundredth). Release builds have enough for formatting,
/// TLS handshakes and a panic with a backtrace. Without optimization frames are several times as
/// large, so debug builds use the stack size of a `std` thread.
const STACK_SIZE: usize = if cfg!(debug_assertions) {
    2 * 1024 * 1024
} else {
    256 * 1024
};

/// Default threshold of a stall: longer than a request computes, shorter than the latency that its
/// client calls slow.
const STALL_THRESHOLD: Duration = Duration::from_millis(100);

/// The shortest interval of samples of the scheduling delay: at this one, the monitor takes a
/// percent of a CPU.
const DELAY_INTERVAL_MIN: Duration = Duration::from_millis(1);

/// The limit of a test with virtual time, which takes no longer than its fibers compute.
const VIRTUAL_TEST_TIME_MAX: Duration = Duration::from_secs(60);

pub(super) const fn is_stack_size(bytes: usize) -> bool {
    bytes <= STACK_SIZE_MAX
}

/// A builder that configures a [`Runtime`].
///
/// ```
/// let runtime = uthread::Runtime::builder()
///     .workers(2)
///     .stack_size(128 * 1024)
///     .name("pool")
///     .build()?;
/// assert_eq!(runtime.workers(), 2);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Builder {
    driver: Option<Driver>,
    workers: Option<usize>,
    max_workers: Option<usize>,
    stack_size: usize,
    name: String,
    is_lean: bool,
    dumps_on_quit: bool,
    pub(super) rings: uring::Options,
    pub(super) calls: pool::Config,
    context: Option<Arc<dyn AnyContext>>,
    monitor: monitor::Config,
    virtual_time: Option<fn()>,
    seed: Option<u64>,
    pub(super) limit: Option<Duration>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Builder")
            .field("driver", &self.driver)
            .field("workers", &self.workers)
            .field("max_workers", &self.max_workers)
            .field("stack_size", &self.stack_size)
            .field("name", &self.name)
            .field("is_lean", &self.is_lean)
            .field("dumps_on_quit", &self.dumps_on_quit)
            .field("kernel_polling", &self.rings.kernel_polling)
            .field("io_polling", &self.rings.io_polling)
            .field("kernel_workers", &self.rings.kernel_workers)
            .field("blocking_threads", &self.calls.threads_max)
            .field("blocking_keep_alive", &self.calls.keep_alive)
            .field("stall_threshold", &self.monitor.threshold)
            .field("sample_delays", &self.monitor.delay_interval)
            .field("has_virtual_time", &self.virtual_time.is_some())
            .field("seed", &self.seed)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl Builder {
    pub(super) fn new() -> Builder {
        Builder {
            driver: None,
            workers: None,
            max_workers: None,
            stack_size: STACK_SIZE,
            name: "uthread".to_owned(),
            is_lean: false,
            dumps_on_quit: false,
            rings: uring::Options::default(),
            calls: pool::Config::default(),
            context: None,
            monitor: monitor::Config {
                threshold: Some(STALL_THRESHOLD),
                report: None,
                delay_interval: None,
            },
            virtual_time: None,
            seed: None,
            limit: None,
        }
    }

    /// Makes time virtual, and limits tests. A seed decides what may happen in several ways. The worker's thread
    /// calls `begin` first.
    pub(crate) fn virtual_time(mut self, seed: Option<u64>, begin: fn()) -> Builder {
        self.virtual_time = Some(begin);
        self.seed = seed;
        self.limit.get_or_insert(VIRTUAL_TEST_TIME_MAX);
        self
    }

    /// Sets the driver that carries the calls of fibers to the kernel.
    ///
    /// By default the environment variable `UTHREAD_DRIVER` (`uring`, `epoll` or `threads`) selects
    /// it. If that is not set, the runtime tries io_uring and falls back to epoll if the kernel or
    /// a container refuses it. [`Runtime::driver`] reports the result.
    ///
    /// ```
    /// use uthread::Driver;
    ///
    /// let runtime = uthread::Runtime::builder().driver(Driver::Threads).build()?;
    /// assert_eq!(runtime.driver().driver(), Driver::Threads);
    /// let name = || std::thread::current().name().map(str::to_owned);
    /// assert_eq!(runtime.run(name).as_deref(), Some("main"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn driver(mut self, driver: Driver) -> Builder {
        self.driver = Some(driver);
        self
    }

    /// Sets the number of workers. Default: one per CPU that the process may use, and at most
    /// [`max_workers`](Builder::max_workers). [`Runtime::set_workers`] changes it later. See the
    /// example of [`Builder`].
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Builder {
        self.workers = Some(workers);
        self
    }

    /// Sets the maximum for [`Runtime::set_workers`]. Default: the number of
    /// [`workers`](Builder::workers).
    ///
    /// The threads and rings of all of them start with the runtime. Those beyond the number of
    /// workers sleep.
    ///
    /// ```
    /// let runtime = uthread::Runtime::builder().workers(1).max_workers(4).build()?;
    /// assert_eq!((runtime.workers(), runtime.max_workers()), (1, 4));
    /// runtime.set_workers(3)?;
    /// assert_eq!(runtime.workers(), 3);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn max_workers(mut self, max_workers: usize) -> Builder {
        self.max_workers = Some(max_workers);
        self
    }

    /// Sets the size of each fiber's stack in bytes, guard included.
    ///
    /// The size is rounded up to whole pages and to at least 64 KiB plus the guard; the maximum is
    /// 1 GiB. It is address space: a page takes memory only once a fiber uses it. Default: 256 KiB,
    /// and 2 MiB in a build with debug assertions, as code without optimization needs more stack.
    /// See the example of [`Builder`].
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack_size = bytes;
        self
    }

    /// Sets the name of the worker threads, to which the number of each is appended. Default:
    /// `uthread`. See the example of [`Builder`].
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = name.into();
        self
    }

    /// Sets how long a fiber may occupy its worker while other fibers wait before it is reported as
    /// stalled. `None` disables the reports, and with one worker also the trimming of the stacks of
    /// fibers that wait, as both need the monitor, a thread of its own. Default: 100 ms.
    ///
    /// A fiber stalls its worker if it computes, or blocks in a call that the runtime does not know
    /// of. Stalls are counted in [`WorkerMetrics::stalls`](crate::runtime::WorkerMetrics::stalls)
    /// and reported to [`on_stall`](Builder::on_stall), again each time that their duration has
    /// doubled. If only fibers that have not started wait, which any worker could start, a stall is
    /// reported when all workers are occupied for ten times as long.
    ///
    /// ```
    /// let builder = uthread::Runtime::builder();
    /// let runtime = builder.stall_threshold(None).build()?; // Its fibers compute, and may.
    /// # drop(runtime);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn stall_threshold(mut self, threshold: impl Into<Option<Duration>>) -> Builder {
        self.monitor.threshold = threshold.into();
        self
    }

    /// Sets the function that receives reports of stalled fibers. It is called on a thread of its
    /// own, one report at a time. By default reports are printed to standard error, at most one
    /// line per second.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let (sender, stalls) = mpsc::channel();
    /// let runtime = uthread::Runtime::builder()
    ///     .workers(1)
    ///     .lean()
    ///     .stall_threshold(Duration::from_millis(10))
    ///     .on_stall(move |stall| drop(sender.send(stall.clone())))
    ///     .build()?;
    /// runtime.run(|| {
    ///     let waits = uthread::spawn(|| uthread::sleep(Duration::from_millis(20)));
    ///     uthread::sleep(Duration::from_millis(1)); // It begins.
    ///     // Blocks the whole worker, where `uthread::sleep` would not.
    ///     std::thread::sleep(Duration::from_millis(100));
    ///     waits.join().unwrap();
    /// });
    /// // Another may be that of a worker that had to wait for a CPU.
    /// let stall = stalls.iter().find(|stall| stall.name.as_deref() == Some("main"));
    /// assert!(stall.unwrap().duration >= Duration::from_millis(10));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn on_stall(mut self, report: impl Fn(&Stall) + Send + Sync + 'static) -> Builder {
        self.monitor.report = Some(Arc::new(report));
        self
    }

    /// Measures the scheduling delay: how long a fiber that becomes ready waits until it runs. The
    /// results are in [`WorkerMetrics::delays`](crate::runtime::WorkerMetrics::delays).
    ///
    /// At this interval, of at least a millisecond, the monitor, a thread of its own, sends each
    /// worker that is awake a probe. The worker takes it as a fiber of normal priority that another
    /// thread has woken: it looks for that after a batch of fibers, and queues it behind the ready
    /// ones. The time until such a fiber would run is recorded. So the results are a sample over
    /// the time in which a worker is awake, and not over fibers. A worker that sleeps gets no
    /// probe, so the time to wake one is not included.
    ///
    /// By default nothing is measured. A probe costs some microseconds: at an interval of 10 ms, a
    /// thousandth of a CPU for each worker. [`Driver::Threads`], which has no workers, ignores the
    /// setting.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let builder = uthread::Runtime::builder().workers(1);
    /// let runtime = builder.sample_delays(Duration::from_millis(1)).build()?;
    /// runtime.run(|| {
    ///     // Keeps the worker busy, and lets others run, until a probe was taken.
    ///     while runtime.metrics().total().delays.count == 0 {
    ///         uthread::yield_now();
    ///     }
    /// });
    /// let delays = runtime.metrics().total().delays;
    /// assert!(delays.max <= Duration::from_secs(60));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn sample_delays(mut self, interval: Duration) -> Builder {
        self.monitor.delay_interval = Some(interval.max(DELAY_INTERVAL_MIN));
        self
    }

    /// Makes fibers *lean*: they share the thread-local storage of the thread that runs them, and may
    /// not block it. They take half the memory, and less time to start and to switch. The
    /// environment variable `UTHREAD_LEAN` does the same for any program: any value but `0`.
    ///
    /// By default a fiber cannot tell that it is not a thread. It has thread-local storage of its
    /// own: values of [`thread_local!`](std::thread_local), `errno`, thread-locals of C and C++,
    /// keys of `pthread_key_create(3)` and [`std::thread::current`] belong to the fiber. They are
    /// dropped at its end, before a join returns, and their destructors may wait, as in a
    /// [`shield`](crate::shield). An initializer of a thread-local may wait, too, and code that
    /// keeps a reference to a thread-local across a call that waits is right. A fiber may [block
    /// its thread](crate::guide::blocking) by any call, or compute: after a millisecond, its worker
    /// goes on with the other fibers on another thread. All fibers share what the kernel keeps per
    /// thread, such as signal masks and CPU affinity; the [guide](crate::guide::soundness) has the
    /// list.
    ///
    /// With lean fibers, none of that holds, and the guide says [what they must
    /// avoid](crate::guide::blocking). Use them where millions of fibers wait, and each call of the
    /// program is known; or where the program has an [allocator of its
    /// own](crate::guide::tuning#allocators), which keeps a cache for each other fiber.
    ///
    /// Storage of its own works on x86-64 with glibc and with musl, and on an emulated aarch64; the
    /// [guide](crate::guide::soundness) tells what was run. Where it does not, all fibers are lean:
    /// [`Runtime::is_lean`] tells, and [`diagnose`](crate::runtime::diagnose) why. With the driver
    /// `threads` fibers are threads anyway.
    ///
    /// ```
    /// use std::thread;
    /// use uthread::Runtime;
    ///
    /// let differ = || {
    ///     let own = thread::current().id();
    ///     uthread::spawn(move || thread::current().id() != own).join().unwrap()
    /// };
    /// assert!(Runtime::builder().build()?.run(differ));
    /// assert!(!Runtime::builder().workers(1).lean().build()?.run(differ));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn lean(mut self) -> Builder {
        self.is_lean = true;
        self
    }

    /// Handles `SIGQUIT`, which is Ctrl-\ on a terminal: prints a short list of the
    /// [fibers](crate::runtime::fibers()) on standard error, and goes on. The environment variable
    /// `UTHREAD_DUMP=1` has the same effect.
    ///
    /// A thread of the process waits for the signal. With [`Driver::Threads`] there is no list.
    ///
    /// ```
    /// let runtime = uthread::Runtime::builder().dump_on_quit().build()?;
    /// rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::QUIT)?;
    /// assert_eq!(runtime.run(|| 6 * 7), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn dump_on_quit(mut self) -> Builder {
        self.dumps_on_quit = true;
        self
    }

    /// Saves and restores context that code which does not know of fibers keeps in thread-locals,
    /// at each switch between fibers. A second call replaces the first. See the example of
    /// [`FiberContext`].
    ///
    /// By default nothing is saved: fibers on a worker share its thread-locals.
    #[must_use]
    pub fn context(mut self, context: impl FiberContext) -> Builder {
        self.context = Some(Arc::new(context));
        self
    }

    /// Starts the workers and returns the runtime.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the number of workers or its maximum is zero or more than 1024, if the
    /// number is more than its maximum, if the stack size is more than 1 GiB, if there is to be no
    /// thread for blocking calls, if the name contains a NUL byte, or if `UTHREAD_DRIVER` is not
    /// the name of a driver. Any other error is that of the kernel if it refuses a driver that was
    /// requested by name, or if it has no more threads, descriptors or memory; the message contains
    /// a remedy.
    ///
    /// ```
    /// let none = uthread::Runtime::builder().workers(0).build();
    /// assert_eq!(none.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    /// let two = uthread::Runtime::builder().workers(2).build()?;
    /// assert_eq!(two.run(|| 6 * 7), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn build(self) -> io::Result<Runtime> {
        let counts = self.check()?;
        caller::escape("builds a runtime, with threads of its own")?;
        panic_hook::install();
        fork::register_handlers();
        self.choose(counts).map_err(shortage::explain)
    }

    /// Starts the runtime with the requested driver, or with the best available one.
    fn choose(&self, counts: Counts) -> io::Result<Runtime> {
        match driver::asked_for(self.driver)? {
            Some((driver, reason)) => self.start(counts, driver, reason),
            None => match self.start(counts, Driver::DEFAULT, Reason::Best) {
                Err(error) if uring::is_refusal(&error) => {
                    self.start(counts, Driver::REPLACEMENT, Reason::Refused(error))
                }
                result => result,
            },
        }
    }

    fn start(&self, counts: Counts, driver: Driver, reason: Reason) -> io::Result<Runtime> {
        let (backend, details) = match driver.mechanism() {
            Mechanism::Workers(make) => {
                let (workers, details) = self.start_workers(counts, make)?;
                (Backend::Workers(workers), details)
            }
            Mechanism::Threads if self.virtual_time.is_some() => {
                let what =
                    "there is no virtual time with the driver `threads`: choose `uring` or `epoll`";
                return Err(io::Error::new(io::ErrorKind::Unsupported, what));
            }
            Mechanism::Threads => {
                let details = "a thread of the system for each fiber".to_owned();
                (Backend::Threads(Threads::new(self.stack_size)), details)
            }
        };
        let details = self.with_ring_options(driver, details);
        Ok(Runtime {
            backend,
            max_workers: counts.max,
            nominal_workers: AtomicUsize::new(counts.active),
            driver: DriverInfo::new(driver, details, reason),
            generation: forked::generation(),
        })
    }

    /// Validates the settings and returns the numbers of workers.
    fn check(&self) -> io::Result<Counts> {
        let only = self.virtual_time.map(|_| 1);
        let counts = Counts::new(self.workers.or(only), self.max_workers)?;
        let refused = |what: String| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        if self.virtual_time.is_some() && counts.max > 1 {
            let max = counts.max;
            return refused(format!("{max} workers with virtual time: choose 1"));
        }
        if !is_stack_size(self.stack_size) {
            let given = self.stack_size;
            return refused(format!(
                "stacks of {given} bytes: choose at most {STACK_SIZE_MAX}"
            ));
        }
        if self.calls.threads_max == 0 {
            let what = "no thread for blocking calls: choose at least 1";
            return refused(what.to_owned());
        }
        if self.name.contains('\0') {
            return refused("a runtime's name must not contain a NUL byte".to_owned());
        }
        Ok(counts)
    }

    /// Returns `true` if fibers have thread-local storage of their own.
    ///
    /// # Errors
    ///
    /// The errors of [`tls::support`] but `Unsupported`: fibers are lean then.
    fn has_own_tls(&self) -> io::Result<bool> {
        if self.is_lean || is_asked_for("UTHREAD_LEAN") {
            return Ok(false);
        }
        match tls::support() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Starts the workers, all with the same driver. Returns also the description of that.
    fn start_workers(&self, counts: Counts, make: MakeDriver) -> io::Result<(Workers, String)> {
        let count = counts.max;
        let own_tls = self.has_own_tls()?;
        let rings = uring::Options {
            moves: own_tls,
            is_only: count == 1,
            ..self.rings
        };
        overflow::install(current::find_overflow);
        donor::install(current::leave_for_good);
        let (shared, queues) = Shared::new(Settings {
            workers: count,
            active: counts.active,
            stack_size: self.stack_size,
            own_tls,
            sharing: if own_tls {
                SharePolicy::IfLong
            } else {
                SharePolicy::Never
            },
            calls: self.calls,
            context: self.context.clone().filter(|_| !own_tls),
            clock: self
                .virtual_time
                .map(|begin| Arc::new(VirtualClock::new(self.seed, begin))),
        });
        // If a worker fails to start below, dropping this ends those that have started.
        let mut workers = Workers {
            shared: Arc::new(shared),
            threads: Vec::with_capacity(count),
            monitor: None,
            generation: forked::generation(),
        };
        let starts = Arc::new(Starts::default());
        for (index, queues) in queues.into_iter().enumerate() {
            let shared = Arc::clone(&workers.shared);
            let reporter = Reporter::new(&starts);
            let report = Box::new(move |started| reporter.send(started));
            let body: Job = Box::new(move || work(index, shared, queues, (make, rings), report));
            let thread = name_worker(&self.name, index);
            workers.threads.push(forked::spawn(thread, body)?);
        }
        // Usually one entry; the kernel may refuse a worker a feature that another one got.
        let details = starts.wait(count)?.join("; ");
        if own_tls {
            let start = start_spare(&self.name, &workers.shared);
            workers.shared.spares.begin(start)?;
        }
        if let Some(monitor) = Monitor::new(Arc::clone(&workers.shared), self.monitor.clone()) {
            let thread = thread::Builder::new().name(format!("{}-monitor", self.name));
            let body: Job = Box::new(|| monitor.run());
            workers.monitor = Some(forked::spawn(thread, body)?);
        }
        if self.dumps_on_quit || is_asked_for("UTHREAD_DUMP") {
            dump::on_quit(&workers.shared)?;
        }
        Ok((workers, details))
    }
}

/// Returns `true` if an environment variable asks for what it names, by any value but `0`.
fn is_asked_for(variable: &str) -> bool {
    env::var_os(variable).is_some_and(|value| !value.is_empty() && value != "0")
}

fn name_worker(runtime: &str, index: usize) -> thread::Builder {
    thread::Builder::new().name(format!("{runtime}-{index}"))
}

/// Returns what starts the spare threads of a runtime.
fn start_spare(name: &str, shared: &Arc<Shared>) -> StartThread {
    let name = name.to_owned();
    // The state must not keep itself.
    let shared = Arc::downgrade(shared);
    Box::new(move |number| {
        let ended = || io::Error::other("the runtime has ended");
        let shared = shared.upgrade().ok_or_else(ended)?;
        let thread = thread::Builder::new().name(format!("{name}-spare-{number}"));
        let body: Job = Box::new(move || {
            // Without it, an overflow ends the process without a report.
            let _alternate_stack = AlternateStack::install();
            worker_thread::run_spare(&shared);
        });
        forked::spawn(thread, body)
    })
}

/// Runs a worker, as the main function of its thread. Reports once whether the worker could start,
/// and its driver.
fn work(
    index: usize,
    shared: Arc<Shared>,
    queues: LocalEnds,
    (make, rings): (MakeDriver, uring::Options),
    report: Box<dyn FnOnce(io::Result<String>)>,
) {
    let prepared = AlternateStack::install().and_then(|stack| {
        let own = Arc::clone(&shared);
        let worker = |driver| Worker::new(index, own, queues, driver);
        Ok((stack, shared.with_clock(make(rings)?, worker)?))
    });
    // The worker is dropped before the alternate stack: destructors of fibers may still overflow
    // their stacks.
    let (_alternate_stack, worker) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            return report(Err(error));
        }
    };
    report(Ok(worker.driver_description()));
    worker_thread::run(worker);
}

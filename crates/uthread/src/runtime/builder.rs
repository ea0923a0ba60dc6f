//! How a runtime is configured, and how its workers start.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{fmt, io, thread};

use super::driver::{self, Reason};
use super::panic_hook;
use super::shortage;
use super::{Backend, Driver, DriverInfo, Runtime, Workers};
use crate::driver::{Pair, epoll, uring};
use crate::forked;
use crate::sched::current;
use crate::sched::fork;
use crate::sched::monitor::{self, Monitor, Stall};
use crate::sched::shared::{Queues, Shared};
use crate::sched::threads::Threads;
use crate::sched::worker::Worker;
use crate::stack::overflow::{self, AlternateStack};
use crate::stack::pool::STACK_SIZE_MAX;

/// The stack of a fiber, guard included: address space, of which only the touched pages cost memory, and a five hundredth of it
/// page tables. Enough for formatting, TLS handshakes and a panic with its backtrace. Without optimization the same code has
/// frames several times as large, so there it is what a thread of `std` has: what runs on that runs in a fiber.
const STACK_SIZE: usize = match cfg!(debug_assertions) {
    false => 256 * 1024,
    true => 2 * 1024 * 1024,
};

/// Longer than what a request computes, shorter than what its client calls slow.
const STALL_THRESHOLD: Duration = Duration::from_millis(100);

/// More workers than any machine has CPUs are a mistake in the argument.
const WORKERS_MAX: usize = 1024;

pub(super) const fn is_count_of_workers(count: usize) -> bool {
    1 <= count && count <= WORKERS_MAX
}

pub(super) const fn is_stack_size(bytes: usize) -> bool {
    bytes <= STACK_SIZE_MAX
}

/// Configures a [`Runtime`].
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
    stack_size: usize,
    name: String,
    migrating: bool,
    pub(super) rings: uring::Options,
    monitor: monitor::Config,
}

impl fmt::Debug for Builder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Builder")
            .field("driver", &self.driver)
            .field("workers", &self.workers)
            .field("stack_size", &self.stack_size)
            .field("name", &self.name)
            .field("migrating", &self.migrating)
            .field("kernel_polling", &self.rings.kernel_polling)
            .field("io_polling", &self.rings.io_polling)
            .field("stall_threshold", &self.monitor.threshold)
            .finish_non_exhaustive()
    }
}

impl Builder {
    pub(super) fn new() -> Builder {
        Builder {
            driver: None,
            workers: None,
            stack_size: STACK_SIZE,
            name: "uthread".to_owned(),
            migrating: false,
            rings: uring::Options::default(),
            monitor: monitor::Config {
                threshold: Some(STALL_THRESHOLD),
                report: None,
            },
        }
    }

    /// What carries the fibers' calls to the kernel. By default whoever runs the program chooses, by the
    /// environment variable `UTHREAD_DRIVER` (`uring`, `epoll` or `threads`); else it is found out by trying:
    /// io_uring, or epoll where the kernel or a container refuses that.
    /// [`Runtime::driver`] tells what it has come to.
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

    /// The number of workers. Default: one per CPU that the process may use. See the example of [`Builder`].
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Builder {
        self.workers = Some(workers);
        self
    }

    /// The size of each fiber's stack in bytes, guard included, rounded up to whole pages and to what a
    /// guard and 64 KiB take. It is address space: memory is used page by page, as a fiber goes deeper. At most 1 GiB.
    /// Default: 256 KiB, and in a build with debug assertions 2 MiB, as a thread of `std` has: without optimization code needs
    /// more. See the example of [`Builder`].
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack_size = bytes;
        self
    }

    /// The name of the workers' threads, to which their number is added. Default: `uthread`.
    /// See the example of [`Builder`].
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = name.into();
        self
    }

    /// From when on a fiber counts as stalled that keeps its worker while others wait for it, because it
    /// computes, or blocks in a way that the runtime knows nothing of. It is counted in
    /// [`WorkerMetrics::stalls`](crate::WorkerMetrics::stalls) and told to [`on_stall`](Builder::on_stall),
    /// again whenever it has lasted twice as long. Where only fibers wait that have not started, which any worker could
    /// start, a stall is that every worker is kept for ten times as long. `None` never looks. Default: 100 ms.
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

    /// Whom to tell of stalled fibers: called on a thread of its own, one call after the other. By default
    /// they are printed to the standard error stream, a line per second at most.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let (sender, stalls) = mpsc::channel();
    /// let runtime = uthread::Runtime::builder()
    ///     .workers(1)
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
    /// let stall = stalls.recv().unwrap();
    /// assert_eq!(stall.name.as_deref(), Some("main"));
    /// assert!(stall.duration >= Duration::from_millis(10));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn on_stall(mut self, report: impl Fn(&Stall) + Send + Sync + 'static) -> Builder {
        self.monitor.report = Some(Arc::new(report));
        self
    }

    /// Lets fibers migrate: whichever worker is idle goes on with one that another worker cannot get to,
    /// and collects the results of its operations. By default a fiber stays on the worker that started it.
    ///
    /// Worth it where fibers that wait for I/O also compute for long between their calls. What only
    /// computes is better split by [`join`](crate::join) and [`scope`](crate::scope), and everything
    /// else costs a little more: each worker's ring and queues are then made for others to take from.
    ///
    /// # Safety
    ///
    /// With every call that suspends it, a fiber may come back on another thread, and the compiler knows
    /// nothing of that. For all code that its fibers run, own and foreign, the program promises:
    ///
    /// - No value that is not [`Send`] lives across such a call: no `Rc` that others share, no guard of a
    ///   `std` lock (`std`'s standard streams have one too), no raw pointer into what belongs to a thread. Nor
    ///   is one the value of a [`local!`](crate::local!), which moves with its fiber.
    /// - No reference to a thread-local lives across such a call, nor a value that was read from one in
    ///   the belief that it still holds afterwards, such as the thread's id.
    /// - No function that suspends accesses a thread-local, by itself or in what is inlined into it: the
    ///   compiler may compute the address once for the whole function. What does access one is called
    ///   out of line (`#[inline(never)]`).
    ///
    /// What suspends is every call of this crate that may wait, and every call that leads to one. The crate
    /// itself keeps the promise. A fiber that waits while it unwinds stays where it is until it has ended, as
    /// `std` counts panics per thread.
    ///
    /// ```
    /// // SAFETY: the fibers below share nothing but an atomic, and use no thread-local.
    /// let runtime = unsafe { uthread::Runtime::builder().workers(2).migrating() }.build()?;
    /// let sum = std::sync::atomic::AtomicU32::new(0);
    /// runtime.run(|| {
    ///     uthread::scope(|scope| {
    ///         for number in 1..=10 {
    ///             let sum = &sum;
    ///             scope.spawn(move || {
    ///                 uthread::yield_now();
    ///                 sum.fetch_add(number, std::sync::atomic::Ordering::Relaxed);
    ///             });
    ///         }
    ///     });
    /// });
    /// assert_eq!(sum.into_inner(), 55);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    #[allow(unsafe_code, reason = "a promise that the compiler cannot check")]
    pub unsafe fn migrating(mut self) -> Builder {
        self.migrating = true;
        self
    }

    /// Starts the workers.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] for zero or more than 1,024 workers, a stack size of more than
    /// 1 GiB, a NUL byte in the name, and where `UTHREAD_DRIVER` names no driver. Otherwise the kernel's:
    /// where it refuses the driver that was asked for by name, or more threads or descriptors; the message
    /// says what to do.
    ///
    /// ```
    /// let none = uthread::Runtime::builder().workers(0).build();
    /// assert_eq!(none.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    /// let two = uthread::Runtime::builder().workers(2).build()?;
    /// assert_eq!(two.run(|| 6 * 7), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn build(self) -> io::Result<Runtime> {
        let workers = self.check()?;
        panic_hook::install();
        fork::attend();
        self.choose(workers).map_err(shortage::explain)
    }

    /// Starts them with the driver that is asked for, or the best there is.
    fn choose(&self, workers: usize) -> io::Result<Runtime> {
        match driver::asked_for(self.driver)? {
            Some((Driver::Uring, reason)) => self.start(workers, Driver::Uring, reason),
            Some((Driver::Epoll, reason)) => self.start(workers, Driver::Epoll, reason),
            Some((Driver::Threads, reason)) => {
                let details = "a thread of the system for each fiber".to_owned();
                let details = self.with_polling(Driver::Threads, details);
                Ok(Runtime {
                    backend: Backend::Threads(Threads::new(self.stack_size)),
                    workers,
                    driver: DriverInfo::new(Driver::Threads, details, reason),
                    generation: forked::generation(),
                })
            }
            None => match self.start(workers, Driver::Uring, Reason::Best) {
                Err(error) if uring::is_refusal(&error) => {
                    self.start(workers, Driver::Epoll, Reason::Refused(error))
                }
                result => result,
            },
        }
    }

    /// The number of workers, if all that was asked for makes sense.
    fn check(&self) -> io::Result<usize> {
        let count = match self.workers {
            Some(count) => count,
            None => thread::available_parallelism().map_or(1, NonZeroUsize::get),
        };
        let refused = |what: String| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        if !is_count_of_workers(count) {
            return refused(format!("{count} workers: choose from 1 to {WORKERS_MAX}"));
        }
        if !is_stack_size(self.stack_size) {
            let given = self.stack_size;
            return refused(format!(
                "stacks of {given} bytes: choose at most {STACK_SIZE_MAX}"
            ));
        }
        if self.name.contains('\0') {
            return refused("a runtime's name must not contain a NUL byte".to_owned());
        }
        Ok(count)
    }

    /// Starts the workers, all with the same driver.
    fn start(&self, count: usize, driver: Driver, reason: Reason) -> io::Result<Runtime> {
        let rings = uring::Options {
            shared: self.migrating,
            ..self.rings
        };
        let make = move || match driver {
            Driver::Epoll => epoll::make(rings.shared),
            _ => uring::make(rings),
        };
        overflow::install(current::find_overflow);
        let (shared, queues) = Shared::new(self.stack_size, count, self.migrating);
        // Dropped on an error below, it ends the workers that have started.
        let mut workers = Workers {
            shared: Arc::new(shared),
            threads: Vec::with_capacity(count),
            monitor: None,
            generation: forked::generation(),
        };
        let (sender, started) = mpsc::channel();
        for (index, queues) in queues.into_iter().enumerate() {
            let shared = Arc::clone(&workers.shared);
            let sender = sender.clone();
            let thread = thread::Builder::new()
                .name(format!("{}-{index}", self.name))
                .spawn(move || work(index, shared, queues, make, &sender))?;
            workers.threads.push(thread);
        }
        drop(sender);
        // Most often one: a worker may be refused what another one got.
        let mut details = BTreeSet::new();
        for _ in 0..count {
            details.insert(started.recv().map_err(io::Error::other)??);
        }
        let details = self.with_polling(driver, Vec::from_iter(details).join("; "));
        if let Some(monitor) = Monitor::new(Arc::clone(&workers.shared), self.monitor.clone()) {
            let thread = thread::Builder::new().name(format!("{}-monitor", self.name));
            workers.monitor = Some(thread.spawn(|| monitor.run())?);
        }
        Ok(Runtime {
            backend: Backend::Workers(workers),
            workers: count,
            driver: DriverInfo::new(driver, details, reason),
            generation: forked::generation(),
        })
    }
}

/// The life of a worker's thread. Reports once whether it could start, and its driver.
fn work(
    index: usize,
    shared: Arc<Shared>,
    queues: Queues,
    make: impl FnOnce() -> io::Result<Pair>,
    started: &mpsc::Sender<io::Result<String>>,
) {
    let prepared = AlternateStack::install()
        .and_then(|stack| Ok((stack, Worker::new(index, shared, queues, make()?)?)));
    // The worker goes first: until then a fiber's destructor may overflow its stack.
    let (_alternate_stack, worker) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    let _ = started.send(Ok(worker.driver_description()));
    worker.run();
}

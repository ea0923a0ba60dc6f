//! The runtime: a set of workers, started by a builder, ended by dropping it.

use std::mem;
use std::num::NonZeroUsize;
use std::panic::{self, Location};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;
use std::{fmt, io, thread};

use crate::driver::uring;
use crate::fiber::{Control, Fiber, FiberRef, Identity};
use crate::metrics::Metrics;
use crate::sched::current;
use crate::sched::offload;
use crate::sched::shared::{Queues, Shared};
use crate::sched::wait;
use crate::sched::watch::{Orders, Stall, Watch};
use crate::sched::worker::Worker;
use crate::stack::overflow::{self, AlternateStack};
use crate::thread::JoinHandle;

/// The stack of a fiber, guard page included: address space, of which only the touched pages cost
/// memory. Enough for formatting, TLS handshakes and a panic with its backtrace.
const STACK_SIZE: usize = 256 * 1024;

/// Larger stacks than any thread has are a mistake in the argument, and the arithmetic of the pool, which
/// maps up to 4,096 at once, has to fit the address space.
const STACK_SIZE_MAX: usize = 1024 * 1024 * 1024;

/// Longer than what a request computes, shorter than what its client calls slow.
const STALL_THRESHOLD: Duration = Duration::from_millis(100);

/// More workers than any machine has CPUs are a mistake in the argument.
const WORKERS_MAX: usize = 1024;

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
    workers: Option<usize>,
    stack_size: usize,
    name: String,
    migrating: bool,
    watch: Orders,
}

impl fmt::Debug for Builder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Builder")
            .field("workers", &self.workers)
            .field("stack_size", &self.stack_size)
            .field("name", &self.name)
            .field("migrating", &self.migrating)
            .field("stall_threshold", &self.watch.threshold)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// The number of workers. Default: one per CPU that the process may use.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Builder {
        self.workers = Some(workers);
        self
    }

    /// The size of each fiber's stack in bytes, guard included, rounded up to whole pages and to what a
    /// guard and 64 KiB take. It is address space: memory is used page by page, as a fiber goes deeper. At most 1 GiB.
    /// Default: 256 KiB.
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack_size = bytes;
        self
    }

    /// The name of the workers' threads, to which their number is added. Default: `uthread`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = name.into();
        self
    }

    /// From when on a fiber counts as stalled that keeps its worker while others wait for it, because it
    /// computes, or blocks in a way that the runtime knows nothing of. It is counted in
    /// [`WorkerMetrics::stalls`](crate::WorkerMetrics::stalls) and told to [`on_stall`](Builder::on_stall),
    /// again whenever it has lasted twice as long. `None` never looks. Default: 100 ms.
    #[must_use]
    pub fn stall_threshold(mut self, threshold: impl Into<Option<Duration>>) -> Builder {
        self.watch.threshold = threshold.into();
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
        self.watch.report = Some(Arc::new(report));
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
    ///   `std` lock (`std`'s standard streams have one too), no raw pointer into what belongs to a thread.
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
    /// 1 GiB, and a NUL byte in the name. Otherwise the kernel's: where it allows no io_uring, or no
    /// more threads; the message says what to do.
    pub fn build(self) -> io::Result<Runtime> {
        let count = match self.workers {
            Some(count) => count,
            None => thread::available_parallelism().map_or(1, NonZeroUsize::get),
        };
        let refused = |what: String| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        if !(1..=WORKERS_MAX).contains(&count) {
            return refused(format!("{count} workers: choose from 1 to {WORKERS_MAX}"));
        }
        if self.stack_size > STACK_SIZE_MAX {
            let given = self.stack_size;
            return refused(format!(
                "stacks of {given} bytes: choose at most {STACK_SIZE_MAX}"
            ));
        }
        if self.name.contains('\0') {
            return refused("a runtime's name must not contain a NUL byte".to_owned());
        }
        overflow::install(current::find_overflow);
        let (shared, queues) = Shared::new(self.stack_size, count, self.migrating);
        // Dropped on an error below, it ends the workers that have started.
        let mut runtime = Runtime {
            shared: Arc::new(shared),
            threads: Vec::with_capacity(count),
            watch: None,
            driver: String::new(),
        };
        let (sender, started) = mpsc::channel();
        for (index, queues) in queues.into_iter().enumerate() {
            let shared = Arc::clone(&runtime.shared);
            let sender = sender.clone();
            let thread = thread::Builder::new()
                .name(format!("{}-{index}", self.name))
                .spawn(move || work(index, shared, queues, &sender))?;
            runtime.threads.push(thread);
        }
        drop(sender);
        for _ in 0..count {
            let worker = started.recv().map_err(io::Error::other)?;
            runtime.driver = worker?;
        }
        if let Some(watch) = Watch::new(Arc::clone(&runtime.shared), self.watch) {
            let thread = thread::Builder::new().name(format!("{}-watch", self.name));
            runtime.watch = Some(thread.spawn(|| watch.run())?);
        }
        Ok(runtime)
    }
}

/// The life of a worker's thread. Reports once whether it could start, and its driver.
fn work(
    index: usize,
    shared: Arc<Shared>,
    queues: Queues,
    started: &mpsc::Sender<io::Result<String>>,
) {
    let prepared = AlternateStack::install().and_then(|stack| {
        let (driver, completions) = uring::new(shared.is_migrating())?;
        let driver = (Box::new(driver) as _, Box::new(completions) as _);
        Ok((stack, Worker::new(index, shared, queues, driver)?))
    });
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

/// A set of workers that run fibers.
///
/// Most programs need none of their own: [`run`](crate::run) makes one, and
/// [`spawn`](crate::spawn) outside of any starts a process-wide default.
///
/// # Dropping
///
/// Dropping a runtime cancels what is left and returns when every fiber has ended: blocking calls
/// return `ECANCELED`, those that cannot return an error unwind the fiber, fibers that have not
/// started never do. Dropped by a fiber of its own, it does not wait for that one's worker or, where fibers
/// migrate, for any. It waits for a fiber that computes without end, or that joins one of another
/// runtime, as joining a thread would. In a program built with `panic = "abort"` nothing unwinds:
/// calls without an error return at once.
pub struct Runtime {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
    watch: Option<thread::JoinHandle<()>>,
    driver: String,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Runtime")
            .field("workers", &self.threads.len())
            .field("driver", &self.driver)
            .finish_non_exhaustive()
    }
}

impl Runtime {
    /// A runtime with the defaults.
    ///
    /// # Errors
    ///
    /// As [`Builder::build`].
    pub fn new() -> io::Result<Runtime> {
        Runtime::builder().build()
    }

    /// A builder with the defaults.
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            workers: None,
            stack_size: STACK_SIZE,
            name: "uthread".to_owned(),
            migrating: false,
            watch: Orders {
                threshold: Some(STALL_THRESHOLD),
                report: None,
            },
        }
    }

    /// The number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.threads.len()
    }

    /// What carries operations to the kernel, for people to read.
    #[must_use]
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// What the workers have done since they started.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics::new(self.shared.counters())
    }

    /// Starts a fiber on this runtime; see [`spawn`](crate::spawn).
    #[track_caller]
    pub fn spawn<F, T>(&self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        wait::note_spawn();
        let fiber = Fiber::new(
            Control::new(Identity::anonymous(Location::caller())),
            f,
            None,
        );
        self.shared.inject(fiber.clone());
        JoinHandle::new(fiber)
    }

    /// Runs `f` as a fiber of this runtime and returns its result, blocking the calling thread
    /// (or suspending the calling fiber). `f` may borrow from the caller.
    ///
    /// # Panics
    ///
    /// With the panic of `f`.
    ///
    /// ```
    /// let runtime = uthread::Runtime::new()?;
    /// let words = vec!["plain", "blocking", "code"];
    /// assert_eq!(runtime.run(|| words.len()), 3);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn run<F, T>(&self, f: F) -> T
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        wait::note_spawn();
        let identity = Identity {
            name: Some("main".into()),
            spawn_site: Location::caller(),
        };
        let (body, joinable) = Fiber::borrowing(Control::new(identity), f, None);
        self.shared.inject(body);
        // Joined right here, before anything that `f` borrows can end.
        match JoinHandle::new(joinable).join() {
            Ok(value) => value,
            Err(payload) => panic::resume_unwind(payload),
        }
    }

    /// The process-wide default runtime, started on first use.
    ///
    /// # Panics
    ///
    /// When the kernel allows no runtime, with its reason and the remedy.
    pub(crate) fn default_runtime() -> &'static Runtime {
        static DEFAULT: OnceLock<Runtime> = OnceLock::new();
        DEFAULT.get_or_init(|| match Runtime::new() {
            Ok(runtime) => runtime,
            Err(error) => panic!("the default runtime cannot start: {error}"),
        })
    }

    /// Queues a fiber from outside the workers.
    pub(crate) fn inject(&self, fiber: FiberRef) {
        self.shared.inject(fiber);
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.shared.shut_down();
        let mut threads = mem::take(&mut self.threads);
        if self.shared.is_migrating() && self.shared.is_called_from_inside() {
            // Any worker may have to go on with the caller: they end by themselves, after it.
            threads.clear();
        }
        let watch = self.watch.take();
        let own = thread::current().id();
        let end = || {
            join_all(threads, own);
            // Last: what keeps a runtime from its end is a stall too.
            if let Some(watch) = watch {
                self.shared.bell.dismiss(watch.thread());
                join(watch);
            }
        };
        if wait::in_fiber() {
            // The worker must go on meanwhile: others' fibers may need its own to end.
            offload::run(end);
        } else {
            end();
        }
    }
}

/// Joins all threads but `own`: a fiber that drops its own runtime cannot outlive itself, so its
/// worker ends later.
fn join_all(threads: Vec<thread::JoinHandle<()>>, own: thread::ThreadId) {
    for thread in threads {
        if thread.thread().id() != own {
            join(thread);
        }
    }
}

fn join(thread: thread::JoinHandle<()>) {
    let joined = thread.join();
    debug_assert!(joined.is_ok(), "a failed worker aborts the process");
}

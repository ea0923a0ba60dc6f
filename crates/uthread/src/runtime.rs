//! The runtime: a set of workers, started by a builder, ended by dropping it.

use std::mem;
use std::num::NonZeroUsize;
use std::panic::{self, Location};
use std::sync::{Arc, OnceLock, mpsc};
use std::{fmt, io, thread};

use crossbeam_deque::Worker as Deque;

use crate::driver::uring;
use crate::fiber::{Control, Fiber, FiberRef, Identity};
use crate::metrics::Metrics;
use crate::sched::current;
use crate::sched::offload;
use crate::sched::shared::Shared;
use crate::sched::wait;
use crate::sched::worker::Worker;
use crate::stack::overflow::{self, AlternateStack};
use crate::thread::JoinHandle;

/// The stack of a fiber, guard page included: address space, of which only the touched pages cost
/// memory. Enough for formatting, TLS handshakes and a panic with its backtrace.
const STACK_SIZE: usize = 256 * 1024;

/// Larger stacks than any thread has are a mistake in the argument, and the arithmetic of the pool, which
/// maps up to 4,096 at once, has to fit the address space.
const STACK_SIZE_MAX: usize = 1024 * 1024 * 1024;

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
#[derive(Debug, Clone)]
pub struct Builder {
    workers: Option<usize>,
    stack_size: usize,
    name: String,
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
        let deques: Vec<_> = (0..count).map(|_| Deque::new_lifo()).collect();
        let shared = Arc::new(Shared::new(self.stack_size, deques.iter()));
        // Dropped on an error below, it ends the workers that have started.
        let mut runtime = Runtime {
            shared,
            threads: Vec::with_capacity(count),
            driver: String::new(),
        };
        let (sender, started) = mpsc::channel();
        for (index, deque) in deques.into_iter().enumerate() {
            let shared = Arc::clone(&runtime.shared);
            let sender = sender.clone();
            let thread = thread::Builder::new()
                .name(format!("{}-{index}", self.name))
                .spawn(move || work(index, shared, deque, &sender))?;
            runtime.threads.push(thread);
        }
        drop(sender);
        for _ in 0..count {
            let worker = started.recv().map_err(io::Error::other)?;
            runtime.driver = worker?;
        }
        Ok(runtime)
    }
}

/// The life of a worker's thread. Reports once whether it could start, and its driver.
fn work(
    index: usize,
    shared: Arc<Shared>,
    deque: Deque<FiberRef>,
    started: &mpsc::Sender<io::Result<String>>,
) {
    let prepared = AlternateStack::install().and_then(|stack| {
        let (driver, completions) = uring::new()?;
        let driver = (Box::new(driver) as _, Box::new(completions) as _);
        Ok((stack, Worker::new(index, shared, deque, driver)?))
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
/// started never do. It waits for a fiber that computes without end, or that joins one of another
/// runtime, as joining a thread would. In a program built with `panic = "abort"` nothing unwinds:
/// calls without an error return at once.
pub struct Runtime {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
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
        let threads = mem::take(&mut self.threads);
        if wait::in_fiber() {
            // The worker must go on meanwhile: others' fibers may need its own to end.
            let own = thread::current().id();
            offload::run(move || join_all(threads, own));
        } else {
            join_all(threads, thread::current().id());
        }
    }
}

/// Joins all threads but `own`: a fiber that drops its own runtime cannot outlive itself, so its
/// worker ends later.
fn join_all(threads: Vec<thread::JoinHandle<()>>, own: thread::ThreadId) {
    for thread in threads {
        if thread.thread().id() != own {
            let joined = thread.join();
            debug_assert!(joined.is_ok(), "a failed worker aborts the process");
        }
    }
}

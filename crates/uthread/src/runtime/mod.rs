//! The runtime: a set of workers, started by a builder, ended by dropping it.

mod builder;
mod driver;
mod entry;
mod panic_hook;
mod polling;
mod shortage;
mod shutdown;

use std::panic::{self, Location};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::{fmt, io, iter, thread};

pub use self::builder::Builder;
pub use self::driver::{Driver, DriverInfo, ParseDriverError};
pub use self::shutdown::Shutdown;
use crate::fiber::{Control, Fiber, FiberRef, Identity};
use crate::forked::{self, PerProcess};
use crate::metrics::Metrics;
use crate::sched::shared::Shared;
use crate::sched::threads::Threads;
use crate::sched::wait;
use crate::stack::Stack;
use crate::thread::JoinHandle;

/// A set of workers that run fibers.
///
/// Most programs need none of their own: [`run`](crate::run) makes one, and
/// [`spawn`](crate::spawn) outside of any starts a process-wide default.
///
/// # Panics of its fibers
///
/// A panic is the result of its fiber, from [`JoinHandle::join`]. To its message, which names the worker's thread,
/// the process's first runtime adds a line that names the fiber: by a hook in front of the one that is there
/// then. To replace both, call [`std::panic::set_hook`] afterwards, in a fiber for instance; there
/// [`current`](crate::current) is the fiber that panics.
///
/// ```
/// use std::panic;
/// use std::sync::Mutex;
/// use uthread::thread::Builder;
///
/// static FAILED: Mutex<Option<String>> = Mutex::new(None);
///
/// uthread::run(|| {
///     panic::set_hook(Box::new(|_| {
///         *FAILED.lock().unwrap() = uthread::current().name().map(str::to_owned);
///     }));
///     let fiber = Builder::new().name("bee".into()).spawn(|| panic!("on purpose"));
///     assert!(fiber.unwrap().join().is_err());
/// });
/// assert_eq!(FAILED.lock().unwrap().as_deref(), Some("bee"));
/// ```
///
/// # Dropping
///
/// Dropping a runtime cancels what is left and returns when every fiber has ended: blocking calls
/// return `ECANCELED`, those that cannot return an error unwind the fiber, fibers that have not
/// started never do. [`shutdown`](Runtime::shutdown) offers other ends, and under [`#[uthread::main]`](macro@crate::main) fibers
/// vanish with the process.
///
/// Fibers end in no particular order: what one waits for in a destructor may be unwound before it. What is in a
/// [`shield`](crate::shield) is waited for, and so is a fiber that computes, a call in [`blocking`](crate::blocking()), and a
/// fiber of another runtime that [`Runtime::run`] has started. Dropped by a fiber of its own, or on another thread in a `blocking`
/// call of such a fiber, it does not wait for that one's worker or, where fibers migrate, for any.
///
/// The drop does not wait for ever: a fiber is *abandoned*, as [`Shutdown::Abandon`] describes it, and named on the standard error
/// stream, if it goes on after it was unwound a hundred times (a loop around
/// [`catch_unwind`](std::panic::catch_unwind)), and if nothing goes on in the whole runtime for two seconds (it waits for a lock that
/// it has itself): no fiber can run, none waits for the kernel, for a time or for what the drop waits for.
///
/// In a program built with `panic = "abort"` nothing unwinds: calls without an error return at once.
///
/// # Children made by `fork`
///
/// A child has none of the workers. There [`run`](Runtime::run) and [`spawn`](Runtime::spawn) of this runtime panic, and
/// dropping it does nothing; a runtime built in the child works. [The guide](crate::guide::soundness) tells what a fiber that
/// forks can do in the child.
pub struct Runtime {
    backend: Backend,
    workers: usize,
    driver: DriverInfo,
    /// Of the process that has built it.
    generation: u32,
}

/// Who runs the fibers.
enum Backend {
    Workers(Workers),
    /// Each runs itself.
    Threads(Arc<Threads>),
}

struct Workers {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
    monitor: Option<thread::JoinHandle<()>>,
    /// Of the process that has started them.
    generation: u32,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Runtime")
            .field("workers", &self.workers)
            .field("driver", &format_args!("{}", self.driver))
            .finish_non_exhaustive()
    }
}

impl Runtime {
    /// A runtime with the defaults.
    ///
    /// # Errors
    ///
    /// As [`Builder::build`].
    ///
    /// ```
    /// let runtime = uthread::Runtime::new()?;
    /// assert_eq!(runtime.run(|| 6 * 7), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new() -> io::Result<Runtime> {
        Runtime::builder().build()
    }

    /// A builder with the defaults; see the example of [`Builder`].
    #[must_use]
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// The number of workers; with [`Driver::Threads`], which has none, how many there would be.
    /// See the example of [`Builder`].
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// What carries calls to the kernel, and why this.
    ///
    /// ```
    /// let runtime = uthread::Runtime::new()?;
    /// // Such as: uring (single issuer, deferred task work, wake by ring message), the best there is
    /// eprintln!("driver: {}", runtime.driver());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn driver(&self) -> &DriverInfo {
        &self.driver
    }

    /// What the workers have done since they started. With [`Driver::Threads`] one entry counts the
    /// fibers.
    ///
    /// ```
    /// let runtime = uthread::Runtime::builder().workers(2).build()?;
    /// runtime.run(|| ());
    /// assert_eq!(runtime.metrics().total().fibers, 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        match &self.backend {
            Backend::Workers(workers) => Metrics::new(workers.shared.counters()),
            Backend::Threads(threads) => Metrics::new(iter::once(threads.counters())),
        }
    }

    /// Starts a fiber on this runtime; see [`spawn`](crate::spawn).
    ///
    /// ```
    /// let runtime = uthread::Runtime::new()?;
    /// let fiber = runtime.spawn(|| 6 * 7);
    /// assert_eq!(fiber.join().unwrap(), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
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
        // An error is the fiber's result as well.
        let _ = self.inject(fiber.clone(), None);
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
        let control = Control::with_deadline(identity, wait::deadline_to_inherit());
        let (body, joinable) = Fiber::borrowing(control, f, None);
        // An error is the fiber's end as well, which is joined below.
        let _ = self.inject(body, None);
        // Joined right here, before anything that `f` borrows can end.
        match JoinHandle::new(joinable).join_elsewhere() {
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
        match Runtime::try_default() {
            Ok(runtime) => runtime,
            Err(error) => panic!("the default runtime cannot start: {error}"),
        }
    }

    /// The same.
    ///
    /// # Errors
    ///
    /// As [`Builder::build`].
    pub(crate) fn try_default() -> io::Result<&'static Runtime> {
        static DEFAULT: PerProcess<Default> = PerProcess::new(Default::new(), Default::new);
        let Default { runtime, starting } = DEFAULT.get();
        if let Some(runtime) = runtime.get() {
            return Ok(runtime);
        }
        let _one_at_a_time = starting.lock().unwrap_or_else(PoisonError::into_inner);
        match runtime.get() {
            Some(runtime) => Ok(runtime),
            None => Runtime::new().map(|made| runtime.get_or_init(|| made)),
        }
    }

    /// Whether this is the process that has built it, and no child made by `fork`.
    fn is_of_this_process(&self) -> bool {
        self.generation == forked::generation()
    }

    /// A stack for a new fiber that needs so many bytes, where that is more than this runtime gives each.
    ///
    /// # Errors
    ///
    /// `ENOMEM` where there is no memory for it.
    pub(crate) fn take_larger_stack(&self, bytes: usize) -> io::Result<Option<Stack>> {
        match &self.backend {
            Backend::Workers(workers) => workers.shared.stacks.take_larger(bytes),
            Backend::Threads(_) => Ok(None),
        }
    }

    /// Queues a fiber from outside the workers, or starts it where fibers are threads, there with a stack of
    /// so many bytes, if that is said.
    ///
    /// # Errors
    ///
    /// The system's, where it has no thread for the fiber, which is abandoned then.
    ///
    /// # Panics
    ///
    /// In a child made by `fork` where this is a runtime of its parent.
    pub(crate) fn inject(&self, fiber: FiberRef, stack_size: Option<usize>) -> io::Result<()> {
        assert!(
            self.is_of_this_process(),
            "this runtime belongs to the parent of this process, which is a child made by fork: build another one"
        );
        match &self.backend {
            Backend::Workers(workers) => workers.shared.inject(fiber),
            Backend::Threads(threads) => return threads.spawn(fiber, stack_size),
        }
        Ok(())
    }
}

/// The default runtime, and who may start it.
struct Default {
    runtime: OnceLock<Runtime>,
    starting: Mutex<()>,
}

impl Default {
    const fn new() -> Default {
        Default {
            runtime: OnceLock::new(),
            starting: Mutex::new(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::sleep;
    use std::time::Duration;

    #[test]
    fn a_cancel_after_the_end_keeps_no_fiber() {
        // The hook that comes with a runtime is there for the other tests, too.
        panic_hook::capture();
        for driver in [None, Some(Driver::Epoll), Some(Driver::Threads)] {
            let mut builder = Runtime::builder().workers(1);
            if let Some(driver) = driver {
                builder = builder.driver(driver);
            }
            let runtime = builder.build().unwrap();
            let spawn = || {
                // A call that waits, which is where the cancellation turns to.
                let call = || drop(crate::fs::metadata("Cargo.toml"));
                let control = Control::new(Identity::anonymous(Location::caller()));
                let fiber = Fiber::new(control, call, None);
                let _ = runtime.inject(fiber.clone(), None);
                (Arc::downgrade(&fiber), JoinHandle::new(fiber))
            };
            let fibers: Vec<_> = (0..10).map(|_| spawn()).collect();
            runtime.run(|| sleep(Duration::from_millis(1)));
            drop(runtime);
            for (fiber, handle) in fibers {
                handle.cancel();
                drop(handle);
                assert_eq!(fiber.strong_count(), 0, "{driver:?}");
            }
        }
    }
}

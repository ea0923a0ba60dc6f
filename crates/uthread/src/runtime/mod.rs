//! The runtime: a set of workers, started by a builder and ended by drop.
//!
//! Most programs need none of this: [`#[uthread::main]`](macro@crate::main) and
//! [`run`](crate::run()) start a runtime with default settings.
//!
//! | to | use |
//! | --- | --- |
//! | choose workers, driver, stacks and limits | [`Builder`], [`Driver`] |
//! | change the number of workers | [`Runtime::set_workers`] |
//! | learn which driver runs, and why | [`Runtime::driver`], [`DriverInfo`], [`diagnose`] |
//! | end a runtime without cancelling its fibers | [`Runtime::shutdown`] |
//! | watch it | [`Runtime::metrics`], [`fibers`], [`Builder::sample_delays`], [`Builder::on_stall`] |
//! | follow the fiber that a worker runs | [`FiberContext`] |
//!
//! [`Runtime`] and [`Driver`] are also in the root of the crate, because most programs that build a
//! runtime name no other item of this module.

mod builder;
mod calls;
mod diagnosis;
mod driver;
mod dump;
mod entry;
mod kernel_workers;
mod limit;
mod metrics;
mod panic_hook;
mod polling;
mod shortage;
mod shutdown;
mod starts;
mod workers;

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use std::{fmt, io, iter, thread};

pub use self::builder::Builder;
pub use self::diagnosis::{Diagnosis, Feature, Usage, diagnose};
pub use self::driver::{Driver, DriverInfo, ParseDriverError};
pub use self::metrics::{Delays, Metrics, PoolMetrics, WorkerMetrics};
pub use self::shutdown::Shutdown;
pub use crate::fiber::{FiberContext, FiberInfo, FiberState};
pub use crate::root::WaitsFor;
#[cfg(feature = "backtrace")]
pub use crate::sched::monitor::StallBacktrace;
pub use crate::sched::monitor::{Stall, StallCause};

use crate::atomic::lock;
use crate::fiber::{FiberRef, Reserved};
use crate::forked::{self, PerProcess};
use crate::sched::caller;
use crate::sched::features::{dedicated, listing};
use crate::sched::shared::{Reading, Shared};
use crate::sched::threads::Threads;

/// A set of workers that run fibers.
///
/// Most programs need not create one: [`run`](crate::run) creates a runtime for one closure, and
/// [`spawn`](crate::spawn) outside of a runtime starts a process-wide default.
///
/// # Panics of its fibers
///
/// A panic in a fiber is returned by [`JoinHandle::join`](crate::JoinHandle::join). The standard
/// panic message names the worker's thread; the first runtime of a process installs a hook that
/// prints a line with the fiber's name before it, and then calls the previous hook. To replace
/// both, call [`std::panic::set_hook`] later, for example in a fiber. In the hook,
/// [`current`](crate::current) returns the fiber that panics.
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
/// Dropping a runtime cancels the remaining fibers and returns when all of them have ended.
/// Blocking calls return `ECANCELED`; calls that cannot return an error unwind the fiber; fibers
/// that have not started never run. [`shutdown`](Runtime::shutdown) offers other ways to end, and
/// under [`#[uthread::main]`](macro@crate::main) fibers vanish with the process.
///
/// Fibers end in no particular order: a fiber that a destructor waits for may have been unwound
/// already. The drop waits for code in a [`shield`](crate::shield), for fibers that compute, for
/// calls in [`blocking`](crate::blocking()), and for fibers of other runtimes started by
/// [`Runtime::run`]. If a fiber of the runtime itself drops it, or a thread in a `blocking` call of
/// such a fiber, the drop does not wait for any worker; if fibers are [lean](Builder::lean), and the
/// fiber is not [dedicated](crate::thread::Builder::dedicated), it does not wait for that fiber's
/// worker only.
///
/// The drop does not wait forever. A fiber is *abandoned*, as described for [`Shutdown::Abandon`],
/// and named on standard error in two cases: if it continues after it was unwound a hundred times
/// (a loop around [`catch_unwind`](std::panic::catch_unwind)), and if the whole runtime makes no
/// progress for two seconds, for example because a fiber waits for a lock that it holds itself. The
/// runtime makes no progress if no fiber can run and none waits for the kernel, for a time, or for
/// anything else that the drop waits for.
///
/// In a program built with `panic = "abort"` nothing unwinds: calls that cannot return an error
/// return at once.
///
/// # Children made by `fork`
///
/// A forked child has none of the workers. There, [`run`](Runtime::run) and
/// [`spawn`](Runtime::spawn) of this runtime panic, and dropping it does nothing. A runtime built
/// in the child works. [The guide](crate::guide::soundness) describes what a fiber that forks may
/// do in the child.
pub struct Runtime {
    backend: Backend,
    max_workers: usize,
    /// The number of workers that was set last, for a driver without workers.
    nominal_workers: AtomicUsize,
    driver: DriverInfo,
    /// The process that has built the runtime.
    generation: u32,
}

/// The threads that run the fibers.
enum Backend {
    Workers(Workers),
    /// Each fiber has a thread of its own.
    Threads(Arc<Threads>),
}

struct Workers {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
    monitor: Option<thread::JoinHandle<()>>,
    /// The process that has started the workers.
    generation: u32,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Runtime")
            .field("workers", &self.workers())
            .field("driver", &format_args!("{}", self.driver))
            .finish_non_exhaustive()
    }
}

impl Runtime {
    /// Starts a runtime with default settings.
    ///
    /// # Errors
    ///
    /// The errors of [`Builder::build`].
    ///
    /// ```
    /// let runtime = uthread::Runtime::new()?;
    /// assert_eq!(runtime.run(|| 6 * 7), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new() -> io::Result<Runtime> {
        Runtime::builder().build()
    }

    /// Creates a builder with default settings. See the example of [`Builder`].
    #[must_use]
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Returns `true` if fibers are [lean](Builder::lean): on request, or because they cannot have
    /// thread-local storage of their own here. [`diagnose`] tells.
    ///
    /// ```
    /// let runtime = uthread::Runtime::builder().lean().build()?;
    /// assert!(runtime.is_lean());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn is_lean(&self) -> bool {
        match &self.backend {
            Backend::Workers(workers) => !workers.shared.has_own_tls(),
            Backend::Threads(_) => false,
        }
    }

    /// Returns the driver that carries calls to the kernel, and why it was chosen.
    ///
    /// ```
    /// let runtime = uthread::Runtime::new()?;
    /// // Such as: uring (single issuer, deferred task work, wake by ring message), the default
    /// eprintln!("driver: {}", runtime.driver());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn driver(&self) -> &DriverInfo {
        &self.driver
    }

    /// Returns counters of the activity of all workers, up to the maximum, since they started. With
    /// [`Driver::Threads`] there is one entry, which counts the fibers.
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
            Backend::Workers(workers) => {
                let shared = &workers.shared;
                Metrics::new(
                    &mut shared.readings(),
                    shared.injected(),
                    Some(shared.calls.get()),
                )
            }
            Backend::Threads(threads) => {
                let reading = Reading::of_threads(threads.counters());
                Metrics::new(&mut iter::once(reading), 0, None)
            }
        }
    }

    /// Lists the started fibers, like [`fibers`](fibers()).
    ///
    /// # Errors
    ///
    /// The errors of [`fibers`](fibers()).
    ///
    /// ```
    /// let runtime = uthread::Runtime::new()?;
    /// assert!(runtime.fibers()?.is_empty());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn fibers(&self) -> io::Result<Vec<FiberInfo>> {
        match &self.backend {
            Backend::Workers(workers) => list(Some(&workers.shared)),
            Backend::Threads(_) => list(None),
        }
    }

    /// Returns the process-wide default runtime, which is started at the first call.
    ///
    /// # Panics
    ///
    /// Panics with the reason and a remedy if the runtime cannot start.
    pub(crate) fn default_runtime() -> &'static Runtime {
        match Runtime::try_default() {
            Ok(runtime) => runtime,
            Err(error) => panic!("the default runtime cannot start: {error}"),
        }
    }

    /// Returns the process-wide default runtime, which is started at the first call, or an error if
    /// it cannot start.
    ///
    /// # Errors
    ///
    /// The errors of [`Builder::build`].
    pub(crate) fn try_default() -> io::Result<&'static Runtime> {
        static DEFAULT: PerProcess<Default> = PerProcess::new(Default::new(), Default::new);
        let Default { runtime, starting } = DEFAULT.get();
        if let Some(runtime) = runtime.get() {
            return Ok(runtime);
        }
        let _one_at_a_time = lock(starting);
        match runtime.get() {
            Some(runtime) => Ok(runtime),
            None => Runtime::new().map(|made| runtime.get_or_init(|| made)),
        }
    }

    /// Returns `true` in the process that has built the runtime, and `false` in a forked child.
    fn is_of_this_process(&self) -> bool {
        self.generation == forked::generation()
    }

    /// Returns a stack of at least `bytes` bytes for a new fiber, or `None` if the runtime's
    /// default stacks are large enough.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory for the stack.
    pub(crate) fn take_larger_stack(&self, bytes: usize) -> io::Result<Option<Reserved>> {
        match &self.backend {
            Backend::Workers(workers) => workers.shared.take_larger_stack(bytes),
            Backend::Threads(_) => Ok(None),
        }
    }

    /// Queues a fiber from outside the workers. With the threads driver, starts its thread instead,
    /// with a stack of `stack_size` bytes if that is given.
    ///
    /// # Errors
    ///
    /// Any error that `pthread_create(3)` reports for the fiber's thread. The fiber is abandoned
    /// then.
    ///
    /// # Panics
    ///
    /// Panics in a forked child if the runtime belongs to its parent.
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

    /// Starts a dedicated fiber from outside the workers, with a stack of `stack_size` bytes if
    /// that is given.
    ///
    /// # Errors
    ///
    /// Any error that `pthread_create(3)` reports for the fiber's thread. The fiber is abandoned
    /// then.
    pub(crate) fn start_dedicated(
        &self,
        fiber: FiberRef,
        stack_size: Option<usize>,
    ) -> io::Result<()> {
        match &self.backend {
            Backend::Workers(workers) => dedicated::start(&workers.shared, fiber, stack_size),
            Backend::Threads(threads) => threads.spawn(fiber, stack_size),
        }
    }
}

/// Time for which a worker may take to list its fibers: it answers between two fibers.
const LIST_TIME_MAX: Duration = Duration::from_secs(1);
const NO_LIST: &str = "a worker does not list its fibers, as one of them does not let others run";

/// Lists the started fibers of the caller's runtime in the order of their ids; outside of fibers,
/// those of the default runtime. Each worker adds its own between two fibers, so that their states
/// are of one moment for each worker. `uthread dump` shows the calls of each fiber, too.
///
/// # Errors
///
/// `TimedOut` if a worker has not answered for a second, as its fiber does not let others run, or
/// if the caller may not wait; `Unsupported` with [`Driver::Threads`], where fibers are threads.
///
/// ```
/// use uthread::runtime::{FiberState, fibers};
/// use uthread::sync::mpsc;
/// use uthread::thread::{Builder, yield_now};
///
/// uthread::run(|| {
///     let (sender, messages) = mpsc::channel::<()>();
///     let receive = move || messages.recv().is_ok();
///     let receiver = Builder::new().name("receiver".into()).spawn(receive).unwrap();
///     let is_parked = || {
///         let list = fibers().unwrap();
///         let mut named = list.iter().filter(|fiber| fiber.name.as_deref() == Some("receiver"));
///         named.any(|fiber| fiber.state == FiberState::Parked)
///     };
///     while !is_parked() {
///         yield_now();
///     }
///     for fiber in fibers().unwrap() {
///         // A parked fiber waits for no descriptor. One that waits for a socket is shown as:
///         // fiber 128, operation on fd 9 for 1.5s on worker 0, spawned at src/main.rs:9:5
///         // One that joins it is shown with `waits_for`: Some(WaitsFor::End(128)).
///         assert_eq!(fiber.descriptor, None);
///         println!("{fiber}"); // Such as: fiber 64 "main", parked for 1.5s on worker 0, spawned at src/main.rs:7:1
///     }
///     drop(sender);
///     assert!(!receiver.join().unwrap());
/// });
/// ```
pub fn fibers() -> io::Result<Vec<FiberInfo>> {
    if !caller::is_inside() {
        return Runtime::try_default()?.fibers();
    }
    list(caller::runtime().as_deref())
}

/// Lists the fibers of a runtime with workers.
fn list(shared: Option<&Shared>) -> io::Result<Vec<FiberInfo>> {
    let Some(shared) = shared else {
        let what = "the driver `threads` has no list of fibers: each is a thread";
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    };
    let list = listing::fibers(shared, LIST_TIME_MAX);
    list.ok_or_else(|| io::Error::new(io::ErrorKind::TimedOut, NO_LIST))
}

/// The default runtime, and the lock that serializes its start.
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
    use std::panic::Location;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::fiber::{Children, Fiber, Identity};
    use crate::sched::caller;
    use crate::thread::{JoinHandle, sleep};

    #[test]
    fn a_cancel_after_the_end_keeps_no_fiber() {
        // The hook that the runtime installs affects the other tests, too.
        panic_hook::capture();
        for driver in [None, Some(Driver::Epoll), Some(Driver::Threads)] {
            let mut builder = Runtime::builder().workers(1);
            if let Some(driver) = driver {
                builder = builder.driver(driver);
            }
            let runtime = builder.build().unwrap();
            let spawn = || {
                // A call that waits, which is where a cancellation takes effect.
                let call = || drop(crate::fs::metadata("Cargo.toml"));
                let identity = Identity::anonymous(Location::caller());
                // Dropped with the fiber.
                let children = Arc::new(Children::new(caller::wake_handle()));
                let (fiber, joinable) =
                    Fiber::borrowing(identity, None, call, Some(children.clone()));
                let _ = runtime.inject(fiber, None);
                (children, JoinHandle::new(joinable))
            };
            let fibers: Vec<_> = (0..10).map(|_| spawn()).collect();
            runtime.run(|| sleep(Duration::from_millis(1)));
            drop(runtime);
            for (children, handle) in fibers {
                handle.cancel();
                drop(handle);
                // With the threads driver, a thread releases its fiber after the runtime has ended.
                let deadline = Instant::now() + Duration::from_secs(10);
                while Arc::strong_count(&children) > 1 {
                    assert!(Instant::now() < deadline, "{driver:?}");
                    std::thread::yield_now();
                }
            }
        }
    }
}

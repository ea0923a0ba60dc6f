//! `spawn`, and the builder that sets the name, the stack size and the priority of a fiber.

use std::io;
use std::panic::Location;

use super::{JoinHandle, Scope, ScopedJoinHandle};
use crate::fiber::{Fiber, FiberRef, Identity};
use crate::priorities::Priority;
use crate::runtime::Runtime;
use crate::sched::caller::{self, cancellation, spawn};
use crate::sched::features::dedicated;
use crate::stack::sizes::STACK_SIZE_MAX;

/// Spawns a fiber and returns a handle to join it. Dropping the handle detaches the fiber.
///
/// A fiber that is spawned by another fiber is queued on the same worker. An idle worker may steal
/// it before it starts. Once started, it stays on its worker, unless it would wait for long there
/// and another worker is idle; a [lean](crate::runtime::Builder::lean) one always stays. Outside a
/// runtime, the first call starts a process-wide default runtime.
///
/// # Panics
///
/// Panics if the default runtime is needed and cannot start.
///
/// ```
/// let answer = uthread::spawn(|| 6 * 7);
/// assert_eq!(answer.join().unwrap(), 42);
/// ```
#[track_caller]
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let identity = Identity::anonymous(Location::caller());
    start(|| fiber(identity, f))
}

/// Creates a fiber that is not queued yet, as a reference for the queues and a handle for the
/// caller.
fn fiber<F, T>(identity: Identity, f: F) -> (FiberRef, JoinHandle<T>)
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (fiber, joinable) = Fiber::owning(identity, f);
    (fiber, JoinHandle::new(joinable))
}

/// Creates a fiber and queues it in the runtime of the caller. If no runtime can start, panics
/// before the fiber exists, as it would never end.
pub(super) fn start<R>(make: impl FnOnce() -> (FiberRef, R)) -> R {
    let is_ordinary = cancellation::is_unlimited();
    if !is_ordinary {
        prepare();
    }
    let (fiber, handle) = make();
    if is_ordinary {
        spawn::ordinary(fiber);
    } else {
        start_other(fiber);
    }
    handle
}

/// Starts the runtime for the new fiber of a caller that belongs to none. Counts the spawn of a
/// caller that has limits.
#[cold]
fn prepare() {
    if !caller::is_inside() {
        Runtime::default_runtime();
    }
    cancellation::count_spawn();
}

/// Queues the new fiber of a caller that has limits or a priority, or that belongs to no runtime.
#[cold]
fn start_other(fiber: FiberRef) {
    let runtime = (!caller::is_inside()).then(Runtime::default_runtime);
    caller::pass_priority(&fiber, None);
    // The fiber's outcome holds the error as well.
    let _ = queue(runtime, fiber, None);
}

/// Creates a fiber and queues it in the runtime of the caller, or returns an error. If the fiber
/// cannot be queued, it has ended, and `forget` disposes of its handle.
fn try_start<R>(
    Settings {
        stack_size,
        priority,
        dedicated,
    }: Settings,
    runtime: Option<&Runtime>,
    make: impl FnOnce() -> (FiberRef, R),
    forget: impl FnOnce(R),
) -> io::Result<R> {
    if let Some(bytes) = stack_size.filter(|bytes| *bytes > STACK_SIZE_MAX) {
        let what = format!("a stack of {bytes} bytes: choose at most {STACK_SIZE_MAX}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    if dedicated {
        caller::escape("starts a thread, for a dedicated fiber")?;
    }
    let runtime = match runtime {
        None if !caller::is_inside() => Some(Runtime::try_default()?),
        runtime => runtime,
    };
    cancellation::count_spawn();
    let stack = match (stack_size, runtime) {
        (None, _) => None,
        // A dedicated fiber has the stack of its thread.
        (Some(_), _) if dedicated => None,
        (Some(bytes), Some(runtime)) => runtime.take_larger_stack(bytes)?,
        (Some(bytes), None) => spawn::take_larger_stack(bytes)?,
    };
    let (fiber, handle) = make();
    caller::pass_priority(&fiber, priority);
    if let Some(stack) = stack {
        fiber.control().reserve(stack);
    }
    let queued = match (dedicated, runtime) {
        (false, _) => queue(runtime, fiber, stack_size),
        (true, Some(runtime)) => runtime.start_dedicated(fiber, stack_size),
        (true, None) => dedicated::start_here(fiber, stack_size),
    };
    match queued {
        Ok(()) => Ok(handle),
        Err(error) => {
            forget(handle);
            Err(error)
        }
    }
}

fn queue(runtime: Option<&Runtime>, fiber: FiberRef, stack_size: Option<usize>) -> io::Result<()> {
    match runtime {
        Some(runtime) => runtime.inject(fiber, stack_size),
        None => spawn::here(fiber, stack_size),
    }
}

/// A builder that configures a fiber before it starts; the counterpart of [`std::thread::Builder`].
///
/// ```
/// use uthread::thread;
///
/// let builder = thread::Builder::new().name("worker bee".into());
/// let named = builder.spawn(|| thread::current().name().map(str::to_owned))?;
/// assert_eq!(named.join().unwrap().as_deref(), Some("worker bee"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until `spawn` is called"]
pub struct Builder {
    name: Option<Box<str>>,
    settings: Settings,
}

/// The settings of a builder beside the name.
#[derive(Debug, Clone, Copy, Default)]
struct Settings {
    stack_size: Option<usize>,
    /// `None` is that of the spawning fiber.
    priority: Option<Priority>,
    dedicated: bool,
}

impl Builder {
    /// Creates a builder with the defaults.
    ///
    /// ```
    /// let builder = uthread::thread::Builder::new().name("bee".into()).stack_size(1 << 20);
    /// let fiber = builder.spawn(|| "buzz")?;
    /// assert_eq!(fiber.join().unwrap(), "buzz");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Sets the name of the fiber, which appears in reports and dumps. Unlike the name of a thread,
    /// it may contain a NUL byte.
    ///
    /// ```
    /// use uthread::thread::Builder;
    ///
    /// let named = Builder::new().name("foo".into()).spawn(|| {
    ///     assert_eq!(uthread::thread::current().name(), Some("foo"));
    /// })?;
    /// named.join().unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn name(mut self, name: String) -> Builder {
        self.name = Some(name.into_boxed_str());
        self
    }

    /// Sets the minimum stack size of the fiber in bytes. It has no effect if the [runtime's stack
    /// size](crate::runtime::Builder::stack_size) is larger.
    ///
    /// The size is rounded up to a power of two, and a guard region is added; the maximum is 1 GiB.
    /// The size is address space: pages take memory only once the fiber uses them, and are returned
    /// when it ends, but for 32 KiB of stacks that are kept for the next fibers.
    ///
    /// ```
    /// fn depth(levels: u32) -> u32 {
    ///     let frame = std::hint::black_box([levels; 256]);
    ///     if levels == 0 { 0 } else { 1 + depth(frame[7] - 1) }
    /// }
    ///
    /// let deep = uthread::thread::Builder::new().stack_size(32 * 1024 * 1024);
    /// assert_eq!(deep.spawn(|| depth(10_000))?.join().unwrap(), 10_000);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.settings.stack_size = Some(bytes);
        self
    }

    /// Sets the [priority](crate::priority) of the fiber. Without this, it is that of the fiber
    /// that spawns it.
    ///
    /// ```
    /// use uthread::priority::{self, Priority};
    /// use uthread::thread::Builder;
    ///
    /// let fiber = Builder::new().priority(Priority::Background).spawn(|| {
    ///     let child = uthread::spawn(priority::current);
    ///     (priority::current(), child.join().unwrap())
    /// })?;
    /// assert_eq!(fiber.join().unwrap(), (Priority::Background, Priority::Background));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn priority(mut self, priority: Priority) -> Builder {
        self.settings.priority = Some(priority);
        self
    }

    /// Makes the fiber run on a thread of its own, for code that blocks for its whole life: the
    /// event loop of a library, an audio callback, a reader of a device, or a dependency that keeps
    /// much in thread-locals.
    ///
    /// Such code would keep a worker, and with it other fibers, and would take a thread of the pool
    /// of [`blocking`](crate::blocking()) for good. Use `blocking` for single calls, as its threads
    /// are reused.
    ///
    /// The fiber is one of its runtime like any other: it is joined, cancelled and counted, belongs
    /// to scopes, and has fiber-local values and deadlines. These are different:
    ///
    /// - Its calls of this crate block the thread by ordinary system calls, and
    ///   [`blocking`](crate::blocking()) runs its closure right there. A cancellation interrupts
    ///   them by a signal. Other calls, as those of `std`, are not interrupted: the drop of the
    ///   runtime waits until they return.
    /// - The fibers that it spawns run on the workers, unless they are dedicated, too.
    /// - There is no ring: the functions of [`ring`](crate::ring) return `Unsupported`.
    /// - Joining it waits for the destructors of its thread-locals, as in `std`.
    /// - It costs a thread of the system, with a stack of 2 MiB unless
    ///   [`stack_size`](Builder::stack_size) sets another size. Waking it, and being woken by it,
    ///   takes a switch of threads.
    ///
    /// With [`Driver::Threads`](crate::Driver::Threads) each fiber has a thread, so that this has
    /// no effect.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use uthread::sync::oneshot;
    /// use uthread::thread::Builder;
    ///
    /// // Its requests come by a channel of `std`, which blocks.
    /// let (requests, inbox) = mpsc::channel::<(u32, oneshot::Sender<u32>)>();
    /// let device = Builder::new().name("device".into()).dedicated().spawn(move || {
    ///     for (number, answer) in inbox {
    ///         let _ = answer.send(number * 7);
    ///     }
    /// })?;
    /// let asking = uthread::spawn(move || {
    ///     let (answer, answered) = oneshot::channel();
    ///     requests.send((6, answer)).unwrap();
    ///     answered.recv()
    /// });
    /// assert_eq!(asking.join().unwrap(), Ok(42));
    /// device.join().unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn dedicated(mut self) -> Builder {
        self.settings.dedicated = true;
        self
    }

    /// Spawns the fiber; see [`spawn`].
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a stack of more than 1 GiB; `ENOMEM` if there is no address space for a
    /// stack of that size; the error of [`Runtime::new`](crate::Runtime::new) if the default
    /// runtime is needed and cannot start; for a [dedicated](Builder::dedicated) fiber and with
    /// [`Driver::Threads`](crate::Driver::Threads), any error that `pthread_create(3)` reports.
    /// After an error, `f` has been dropped.
    ///
    /// ```
    /// let handle = uthread::thread::Builder::new().spawn(|| 6 * 7)?;
    /// assert_eq!(handle.join().unwrap(), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn spawn<F, T>(self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (identity, settings) = self.split(Location::caller());
        try_start(settings, None, || fiber(identity, f), drop)
    }

    /// Spawns the fiber on this runtime, wherever the caller runs; see [`Runtime::spawn`].
    ///
    /// # Errors
    ///
    /// The errors of [`Builder::spawn`].
    ///
    /// # Panics
    ///
    /// Panics in a child made by `fork`, if its parent has built the runtime.
    ///
    /// ```
    /// let runtime = uthread::Runtime::new()?;
    /// let deep = uthread::thread::Builder::new().stack_size(4 << 20);
    /// let fiber = deep.spawn_on(&runtime, || 6 * 7)?;
    /// assert_eq!(fiber.join().unwrap(), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn spawn_on<F, T>(self, runtime: &Runtime, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (identity, settings) = self.split(Location::caller());
        try_start(settings, Some(runtime), || fiber(identity, f), drop)
    }

    /// Spawns the fiber without requiring that its borrows are `'static`.
    ///
    /// # Errors
    ///
    /// The errors of [`Builder::spawn`].
    ///
    /// # Safety
    ///
    /// The fiber must not outlive anything that `f` borrows, nor may its return value if it is not
    /// joined. Join the fiber before any of the borrows end, also if the caller unwinds.
    ///
    /// ```
    /// let x = 1;
    /// let builder = uthread::thread::Builder::new();
    /// // SAFETY: `x` lives until the join below, and nothing before that panics.
    /// let handle = unsafe { builder.spawn_unchecked(|| x + 1) }?;
    /// assert_eq!(handle.join().unwrap(), 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[allow(unsafe_code, reason = "a lifetime that the compiler cannot check")]
    #[track_caller]
    pub unsafe fn spawn_unchecked<F, T>(self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        let (identity, settings) = self.split(Location::caller());
        let make = || {
            let (fiber, joinable) = Fiber::borrowing(identity, None, f, None);
            (fiber, JoinHandle::new(joinable))
        };
        try_start(settings, None, make, drop)
    }

    /// Spawns a fiber in a scope; see [`Scope::spawn`].
    ///
    /// # Errors
    ///
    /// The errors of [`Builder::spawn`].
    ///
    /// ```
    /// use uthread::thread;
    ///
    /// let mut a = vec![1, 2, 3];
    /// thread::scope(|scope| {
    ///     let first = thread::Builder::new().name("first".into());
    ///     first.spawn_scoped(scope, || a.push(4)).map(drop)
    /// })?;
    /// assert_eq!(a.len(), 4);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn spawn_scoped<'scope, F, T>(
        self,
        scope: &'scope Scope<'scope, '_>,
        f: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let (identity, settings) = self.split(Location::caller());
        // Joined, so that the failure does not count as a panic in the scope.
        let forget = |handle: ScopedJoinHandle<'_, T>| drop(handle.join());
        try_start(settings, None, || scope.fiber(identity, f), forget)
    }

    fn split(self, spawn_site: &'static Location<'static>) -> (Identity, Settings) {
        let identity = Identity {
            name: self.name,
            spawn_site,
        };
        (identity, self.settings)
    }
}

//! Fibers by the names of `std::thread`: `spawn`, `scope`, `sleep`, `yield_now`, `park`, `current`.
//!
//! Each works inside a fiber and outside the runtime alike: outside, waiting blocks the thread.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::panic::{self, AssertUnwindSafe, Location};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use std::thread::Result;

pub use crate::fiber::Cancelled;
use crate::fiber::{Children, Control, Fiber, FiberRef, Identity, Joinable, Waiter};
use crate::runtime::Runtime;
use crate::sched::{offload, wait};

/// Starts a fiber and returns a handle to join it; dropping the handle detaches the fiber.
///
/// Called from a fiber, the new one is queued on the same worker, from where an idle worker may
/// take it before it starts; once started, it stays. Called from outside any runtime, a
/// process-wide default runtime is started on first use.
///
/// # Panics
///
/// When the default runtime is needed and the kernel allows none.
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
    spawn_fiber(Identity::anonymous(Location::caller()), f)
}

fn spawn_fiber<F, T>(identity: Identity, f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    start(|| {
        let fiber = Fiber::new(Control::new(identity), f, None);
        (fiber.clone(), JoinHandle::new(fiber))
    })
}

/// Makes a fiber and queues it where the caller's are queued. Where no runtime can start, it panics
/// before there is a fiber that would never end.
fn start<R>(make: impl FnOnce() -> (FiberRef, R)) -> R {
    let runtime = (!wait::is_inside()).then(Runtime::default_runtime);
    wait::note_spawn();
    let (fiber, handle) = make();
    match runtime {
        Some(runtime) => runtime.inject(fiber),
        None => wait::spawn_here(fiber),
    }
    handle
}

/// Configures a fiber before it starts.
///
/// ```
/// let named = uthread::thread::Builder::new().name("worker bee").spawn(|| {
///     uthread::current().name().map(str::to_owned)
/// });
/// assert_eq!(named.join().unwrap().as_deref(), Some("worker bee"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Builder {
    name: Option<Box<str>>,
}

impl Builder {
    /// A builder with the defaults.
    #[must_use]
    pub fn new() -> Builder {
        Builder::default()
    }

    /// The fiber's name, in reports and dumps.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = Some(name.into().into_boxed_str());
        self
    }

    /// Starts the fiber; see [`spawn`].
    ///
    /// # Panics
    ///
    /// As [`spawn`].
    #[track_caller]
    pub fn spawn<F, T>(self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let identity = Identity {
            name: self.name,
            spawn_site: Location::caller(),
        };
        spawn_fiber(identity, f)
    }
}

/// A handle to wait for a fiber and take its result. Dropping it detaches the fiber.
pub struct JoinHandle<T> {
    fiber: Arc<dyn Joinable<T>>,
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("JoinHandle")
            .field("id", &self.fiber.control().id())
            .field("name", &self.fiber.control().name())
            .field("is_finished", &self.is_finished())
            .finish()
    }
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(fiber: Arc<dyn Joinable<T>>) -> JoinHandle<T> {
        JoinHandle { fiber }
    }

    /// Waits for the fiber to end.
    ///
    /// # Errors
    ///
    /// The payload of the fiber's panic, as of [`std::thread::JoinHandle::join`]; [`Cancelled`] if
    /// its runtime was dropped before the fiber could end.
    pub fn join(self) -> Result<T> {
        let outcome = self.fiber.outcome();
        if !outcome.is_done() && outcome.await_done(wait::waiter()) {
            wait::park_until(|| outcome.is_done());
        }
        outcome.take()
    }

    /// Whether the fiber has ended, so that [`join`](JoinHandle::join) will not wait.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.fiber.outcome().is_done()
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        self.fiber.outcome().detach();
    }
}

/// Runs `f` with a scope in which fibers may borrow from the caller; returns when all of them have
/// ended, also when `f` panics.
///
/// # Panics
///
/// With the panic of `f`, or, if a fiber panicked that was not joined by hand, saying so.
///
/// ```
/// let mut numbers = [1, 2, 3, 4];
/// let (left, right) = numbers.split_at_mut(2);
/// uthread::scope(|scope| {
///     scope.spawn(|| left[0] = 10);
///     scope.spawn(|| right[0] = 30);
/// });
/// assert_eq!(numbers, [10, 2, 30, 4]);
/// ```
///
/// What a scope's fiber borrows must outlive the scope:
///
/// ```compile_fail,E0373
/// uthread::scope(|scope| {
///     let inside = 1;
///     scope.spawn(|| println!("{inside}"));
/// });
/// ```
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let scope = Scope {
        children: Arc::new(Children::new(wait::waiter())),
        scope: PhantomData,
        env: PhantomData,
    };
    let result = panic::catch_unwind(AssertUnwindSafe(|| f(&scope)));
    // Soundness rests on this wait: no child runs after it, so no borrow is used after it.
    wait::park_until(|| scope.children.have_ended());
    match result {
        Err(payload) => panic::resume_unwind(payload),
        Ok(value) if !scope.children.panicked() => value,
        Ok(value) if wait::is_shut_down() => {
            // Cut off like its children, and as quietly.
            wait::unwind_if_shut_down();
            value
        }
        Ok(_) => panic!("a fiber of the scope panicked"),
    }
}

/// A scope to spawn borrowing fibers in; see [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    children: Arc<Children>,
    /// Invariant in both, as `std`'s: shrinking `'scope` would let a fiber outlive its borrows.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Scope").finish_non_exhaustive()
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a fiber of this scope.
    ///
    /// # Panics
    ///
    /// As [`spawn`].
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let identity = Identity::anonymous(Location::caller());
        let children = Arc::clone(&self.children);
        let joinable = start(|| Fiber::borrowing(Control::new(identity), f, Some(children)));
        ScopedJoinHandle {
            handle: JoinHandle::new(joinable),
            children: Arc::clone(&self.children),
            scope: PhantomData,
        }
    }
}

/// A handle to join a fiber of a scope.
pub struct ScopedJoinHandle<'scope, T> {
    handle: JoinHandle<T>,
    children: Arc<Children>,
    scope: PhantomData<&'scope ()>,
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(formatter)
    }
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the fiber to end. A panic returned here is the caller's: the scope does not panic
    /// for it any more.
    ///
    /// # Errors
    ///
    /// As [`JoinHandle::join`].
    pub fn join(self) -> Result<T> {
        let result = self.handle.join();
        if result.is_err() {
            self.children.take_panic();
        }
        result
    }

    /// Whether the fiber has ended, so that [`join`](ScopedJoinHandle::join) will not wait.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

/// The identity of a fiber, or of a thread outside the runtime.
#[derive(Clone)]
pub struct Thread(Waiter);

/// Identifies a fiber or thread among all of the process, for its whole life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ThreadId(Id);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Id {
    Fiber(NonZeroU64),
    Native(std::thread::ThreadId),
}

impl Thread {
    /// Its identifier.
    #[must_use]
    pub fn id(&self) -> ThreadId {
        ThreadId(match &self.0 {
            Waiter::Fiber(fiber) => Id::Fiber(fiber.control().id()),
            Waiter::Thread(thread) => Id::Native(thread.id()),
        })
    }

    /// Its name, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Waiter::Fiber(fiber) => fiber.control().name(),
            Waiter::Thread(thread) => thread.name(),
        }
    }

    /// Ends its present [`park`], or its next.
    pub fn unpark(&self) {
        self.0.unpark();
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Thread")
            .field("id", &self.id())
            .field("name", &self.name())
            .finish()
    }
}

/// The identity of the calling fiber, or of the calling thread outside the runtime.
///
/// ```
/// let outside = uthread::current().id();
/// let inside = uthread::spawn(|| uthread::current().id()).join().unwrap();
/// assert_ne!(outside, inside);
/// ```
#[must_use]
pub fn current() -> Thread {
    Thread(wait::waiter())
}

/// Waits until [`Thread::unpark`] is called for the caller; may return without, so check in a loop.
///
/// Like `std`'s: an `unpark` that comes first is remembered, once.
pub fn park() {
    wait::park_cancellable(None);
}

/// As [`park`], for at most `duration`.
///
/// ```
/// use std::time::Duration;
/// uthread::spawn(|| uthread::thread::park_timeout(Duration::from_millis(1))).join().unwrap();
/// ```
pub fn park_timeout(duration: Duration) {
    wait::park_cancellable(Some(wait::after(wait::now(), duration)));
}

/// Lets the other fibers of this worker run.
#[inline]
pub fn yield_now() {
    wait::yield_now();
}

/// Waits for at least `duration`, and in a fiber at most about a millisecond longer.
///
/// ```
/// use std::time::{Duration, Instant};
/// let start = Instant::now();
/// uthread::spawn(|| uthread::sleep(Duration::from_millis(5))).join().unwrap();
/// assert!(start.elapsed() >= Duration::from_millis(5));
/// ```
///
/// When its runtime is dropped, the fiber is unwound. Only one that unwinds already, or that cannot be told
/// from others which do, returns early then.
pub fn sleep(duration: Duration) {
    wait::sleep_until(wait::after(wait::now(), duration));
}

/// Waits until `deadline`, as [`sleep`] does. A deadline that has passed lets the others run once.
///
/// ```
/// use std::time::{Duration, Instant};
/// let deadline = Instant::now() + Duration::from_millis(5);
/// uthread::spawn(move || uthread::thread::sleep_until(deadline)).join().unwrap();
/// assert!(Instant::now() >= deadline);
/// ```
pub fn sleep_until(deadline: Instant) {
    wait::sleep_until(deadline);
}

/// Runs `call` on a thread where it may block, while the worker runs other fibers: for system calls
/// and libraries that wait in a way of their own. Outside the runtime it is called right here.
///
/// The threads are shared by the process, at most 64; what comes above waits its turn. `call` may
/// borrow from the caller. Thread-locals are those of the other thread.
///
/// # Panics
///
/// With the panic of `call`.
///
/// ```
/// let hosts = uthread::spawn(|| uthread::blocking(|| std::fs::read_to_string("/proc/version")));
/// assert!(hosts.join().unwrap()?.starts_with("Linux"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn blocking<F, T>(call: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    wait::unwind_if_shut_down();
    offload::run(call)
}

//! `spawn`, and the builder that gives a fiber its name and the size of its stack.

use std::io;
use std::panic::Location;

use super::{JoinHandle, Scope, ScopedJoinHandle};
use crate::fiber::{Control, Fiber, FiberRef, Identity};
use crate::runtime::Runtime;
use crate::sched::wait;
use crate::stack::pool::STACK_SIZE_MAX;

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
    let identity = Identity::anonymous(Location::caller());
    start(|| fiber(identity, f))
}

/// A new fiber that nobody runs yet, in the forms that queues and callers hold.
fn fiber<F, T>(identity: Identity, f: F) -> (FiberRef, JoinHandle<T>)
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let fiber = Fiber::new(Control::new(identity), f, None);
    (fiber.clone(), JoinHandle::new(fiber))
}

/// Makes a fiber and queues it where the caller's are queued. Where no runtime can start, it panics
/// before there is a fiber that would never end.
pub(super) fn start<R>(make: impl FnOnce() -> (FiberRef, R)) -> R {
    let runtime = (!wait::is_inside()).then(Runtime::default_runtime);
    wait::note_spawn();
    let (fiber, handle) = make();
    // An error is the fiber's result as well.
    let _ = queue(runtime, fiber, None);
    handle
}

/// The same, but for a caller who can be told of an error: `forget` gets the handle then, of a fiber
/// that has ended.
fn try_start<R>(
    stack_size: Option<usize>,
    make: impl FnOnce() -> (FiberRef, R),
    forget: impl FnOnce(R),
) -> io::Result<R> {
    if let Some(bytes) = stack_size.filter(|bytes| *bytes > STACK_SIZE_MAX) {
        let what = format!("a stack of {bytes} bytes: choose at most {STACK_SIZE_MAX}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let runtime = match wait::is_inside() {
        true => None,
        false => Some(Runtime::try_default()?),
    };
    wait::note_spawn();
    let stack = match (stack_size, runtime) {
        (None, _) => None,
        (Some(bytes), Some(runtime)) => runtime.take_larger_stack(bytes)?,
        (Some(bytes), None) => wait::take_larger_stack(bytes)?,
    };
    let (fiber, handle) = make();
    fiber.control().reserved.set(stack.map(Box::new));
    match queue(runtime, fiber, stack_size) {
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
        None => wait::spawn_here(fiber, stack_size),
    }
}

/// Configures a fiber before it starts, by the methods of [`std::thread::Builder`].
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
#[must_use = "it starts the fiber with `spawn`"]
pub struct Builder {
    name: Option<Box<str>>,
    stack_size: Option<usize>,
}

impl Builder {
    /// A builder with the defaults.
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

    /// The fiber's name, in reports and dumps. Unlike a thread's it may contain a NUL byte.
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

    /// The size of the fiber's stack in bytes, at least, where that is more than the runtime
    /// [gives each](crate::Builder::stack_size): rounded up to a power of two, a guard beside it. It is address
    /// space: memory is used page by page, as the fiber goes deeper, and given back when it has ended. At
    /// most 1 GiB.
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
        self.stack_size = Some(bytes);
        self
    }

    /// Starts the fiber; see [`spawn`].
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) for a stack of more than 1 GiB, and `ENOMEM` where there is no
    /// address space for one larger than the others; where the default runtime is needed and cannot start, its
    /// error; with [`Driver::Threads`](crate::Driver::Threads) the system's, if it has no more threads. `f` is
    /// dropped then.
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
        let (identity, stack_size) = self.split(Location::caller());
        try_start(stack_size, || fiber(identity, f), drop)
    }

    /// Starts the fiber without asking that what it borrows lives for ever.
    ///
    /// # Errors
    ///
    /// As [`Builder::spawn`].
    ///
    /// # Safety
    ///
    /// The fiber, and its value where that is not taken by a join, must not outlive what they borrow:
    /// join it before any of that ends, also when the caller unwinds.
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
        let (identity, stack_size) = self.split(Location::caller());
        let make = || {
            let (fiber, joinable) = Fiber::borrowing(Control::new(identity), f, None);
            (fiber, JoinHandle::new(joinable))
        };
        try_start(stack_size, make, drop)
    }

    /// Starts a fiber of a scope; see [`Scope::spawn`].
    ///
    /// # Errors
    ///
    /// As [`Builder::spawn`].
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
        let (identity, stack_size) = self.split(Location::caller());
        // Joined, its end is no panic of the scope.
        let forget = |handle: ScopedJoinHandle<'_, T>| drop(handle.join());
        try_start(stack_size, || scope.fiber(identity, f), forget)
    }

    fn split(self, spawn_site: &'static Location<'static>) -> (Identity, Option<usize>) {
        let identity = Identity {
            name: self.name,
            spawn_site,
        };
        (identity, self.stack_size)
    }
}

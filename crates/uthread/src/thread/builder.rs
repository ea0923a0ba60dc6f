//! `spawn`, and the builder that names a fiber before it starts.

use std::io;
use std::panic::Location;

use super::{JoinHandle, Scope, ScopedJoinHandle};
use crate::fiber::{Control, Fiber, FiberRef, Identity};
use crate::runtime::Runtime;
use crate::sched::wait;

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
    let _ = queue(runtime, fiber);
    handle
}

/// The same, but for a caller who can be told of an error: `forget` gets the handle then, of a fiber
/// that has ended.
fn try_start<R>(make: impl FnOnce() -> (FiberRef, R), forget: impl FnOnce(R)) -> io::Result<R> {
    let runtime = match wait::is_inside() {
        true => None,
        false => Some(Runtime::try_default()?),
    };
    wait::note_spawn();
    let (fiber, handle) = make();
    match queue(runtime, fiber) {
        Ok(()) => Ok(handle),
        Err(error) => {
            forget(handle);
            Err(error)
        }
    }
}

fn queue(runtime: Option<&Runtime>, fiber: FiberRef) -> io::Result<()> {
    match runtime {
        Some(runtime) => runtime.inject(fiber),
        None => wait::spawn_here(fiber),
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
}

impl Builder {
    /// A builder with the defaults.
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

    /// Starts the fiber; see [`spawn`].
    ///
    /// # Errors
    ///
    /// Where the default runtime is needed and cannot start, its error; with
    /// [`Driver::Threads`](crate::Driver::Threads) the system's, if it has no more threads. `f` is dropped
    /// then.
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
        let identity = self.identity(Location::caller());
        try_start(|| fiber(identity, f), drop)
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
        let control = Control::new(self.identity(Location::caller()));
        let make = || {
            let (fiber, joinable) = Fiber::borrowing(control, f, None);
            (fiber, JoinHandle::new(joinable))
        };
        try_start(make, drop)
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
        let identity = self.identity(Location::caller());
        // Joined, its end is no panic of the scope.
        try_start(|| scope.fiber(identity, f), |handle| drop(handle.join()))
    }

    fn identity(self, spawn_site: &'static Location<'static>) -> Identity {
        Identity {
            name: self.name,
            spawn_site,
        }
    }
}

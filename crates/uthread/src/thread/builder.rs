//! `spawn`, and the builder that names a fiber before it starts.

use std::panic::Location;

use super::JoinHandle;
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
pub(super) fn start<R>(make: impl FnOnce() -> (FiberRef, R)) -> R {
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

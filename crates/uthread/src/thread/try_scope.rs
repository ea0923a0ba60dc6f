//! Scopes that end at the first failure and cancel their other fibers.

use std::fmt;
use std::marker::PhantomData;
use std::panic::{self, Location};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::builder::start;
use super::{JoinHandle, scope};
use crate::atomic::lock;
use crate::fiber::{Cancelled, Children, Identity, drop_quietly, is_cut_off};
use crate::sched::caller::{self, cancellation, panics, turn};

/// Runs `f` with a scope whose fibers may borrow from the caller and may fail. The first error, of
/// a fiber or of `f`, cancels the other fibers and the calls of `f`, and is returned when all
/// fibers have ended. Otherwise it works like [`scope`](super::scope).
///
/// If `try_scope` is called on a thread outside the runtime, a failure does not interrupt a system
/// call in which `f` waits.
///
/// # Errors
///
/// The first error that a fiber or `f` returns.
///
/// # Panics
///
/// Panics with the payload of `f` if it panics, or if a fiber panicked. A panic cancels the other
/// fibers, too.
///
/// ```
/// use std::io;
/// use uthread::{sleep, try_scope};
///
/// let sizes = try_scope(|scope| {
///     let manifest = scope.spawn(|| uthread::fs::metadata("Cargo.toml"));
///     let sources = scope.spawn(|| uthread::fs::metadata("src"));
///     Ok::<_, io::Error>((manifest.join()?.len(), sources.join()?.len()))
/// })?;
/// assert!(sizes.0 > 0);
///
/// let failed = try_scope(|scope| {
///     scope.spawn(|| uthread::fs::metadata("no such file"));
///     scope.spawn(|| Ok(sleep(std::time::Duration::from_secs(3600))));
///     Ok(())
/// });
/// assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::NotFound);
/// # Ok::<(), io::Error>(())
/// ```
pub fn try_scope<'env, F, T, E>(f: F) -> Result<T, E>
where
    F: for<'scope> FnOnce(&'scope TryScope<'scope, 'env, E>) -> Result<T, E>,
    E: Send,
{
    turn::spend_try();
    let failure = Failure {
        children: Arc::new(Children::new(caller::wake_handle())),
        over: Arc::default(),
        error: Mutex::new(None),
    };
    let within = cancellation::Within::enter(|limits| limits.enter_region(&failure.over));
    let scope = TryScope {
        failure: Arc::new(failure),
        scope: PhantomData,
        env: PhantomData,
    };
    let result = panics::catch_unwind(|| f(&scope));
    drop(within);
    let failure = &scope.failure;
    // No user code, not even a destructor, runs from here until the fibers have ended: it could
    // unwind, or wait and be cancelled, while the fibers still borrow.
    let (result, second) = match result {
        Ok(Ok(value)) => (Ok(Some(value)), None),
        Ok(Err(error)) => (Ok(None), failure.fail(error)),
        Err(payload) => {
            failure.end();
            (Err(payload), None)
        }
    };
    let panics = result.as_ref().is_err_and(|payload| !is_cut_off(payload));
    scope::await_end(&failure.children, panics);
    drop_quietly(second);
    match (result, failure.take_error()) {
        (Err(payload), first) if panics => {
            drop_quietly(first);
            panic::resume_unwind(payload)
        }
        (result, Some(first)) => {
            drop_quietly(result);
            Err(first)
        }
        (Err(payload), None) => panic::resume_unwind(payload),
        (Ok(Some(value)), None) => {
            if failure.children.any_cut_off() {
                cancellation::unwind_if_ending();
            }
            Ok(value)
        }
        (Ok(None), None) => unreachable!("a scope without a value has an error"),
    }
}

/// A scope in which fibers may borrow from the caller and may fail. See the example of
/// [`try_scope`].
pub struct TryScope<'scope, 'env: 'scope, E> {
    failure: Arc<Failure<E>>,
    /// Invariant in both lifetimes, as for [`Scope`](super::Scope).
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<E> fmt::Debug for TryScope<'_, '_, E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TryScope").finish_non_exhaustive()
    }
}

impl<'scope, E: Send> TryScope<'scope, '_, E> {
    /// Spawns a fiber in this scope, which may return an error.
    ///
    /// # Panics
    ///
    /// Panics if the default runtime is needed and cannot start.
    ///
    /// ```
    /// let sum = uthread::try_scope(|scope| {
    ///     let number = scope.spawn(|| "40".parse::<u32>());
    ///     Ok(2 + number.join().expect("the text is a number"))
    /// });
    /// assert_eq!(sum, Ok(42));
    /// ```
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, f: F) -> TryJoinHandle<'scope, T>
    where
        F: FnOnce() -> Result<T, E> + Send + 'scope,
        T: Send + 'scope,
        E: 'scope,
    {
        let identity = Identity::anonymous(Location::caller());
        let failure = Arc::clone(&self.failure);
        let run = move || match panics::catch_unwind(f) {
            Ok(Ok(value)) => Some(value),
            Ok(Err(error)) => {
                drop(failure.fail(error));
                None
            }
            Err(payload) => {
                if !is_cut_off(&payload) {
                    failure.end();
                }
                panic::resume_unwind(payload)
            }
        };
        TryJoinHandle {
            handle: start(|| scope::child(identity, &self.failure.children, run)),
            scope: PhantomData,
        }
    }
}

/// A handle to join a fiber of a [`TryScope`]. See the example of [`TryScope::spawn`].
pub struct TryJoinHandle<'scope, T> {
    handle: JoinHandle<Option<T>>,
    scope: PhantomData<&'scope ()>,
}

impl<T> fmt::Debug for TryJoinHandle<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(formatter)
    }
}

impl<T> TryJoinHandle<'_, T> {
    /// Waits for the fiber to end and returns its value.
    ///
    /// # Errors
    ///
    /// [`Cancelled`] if the fiber failed, panicked or was cancelled. The scope reports the reason.
    ///
    /// ```
    /// let number = uthread::try_scope(|scope| {
    ///     let number = scope.spawn(|| "many".parse::<u32>());
    ///     assert!(number.join().is_err(), "the text is no number");
    ///     Ok(0)
    /// });
    /// assert!(number.is_err(), "and why");
    /// ```
    pub fn join(self) -> Result<T, Cancelled> {
        self.handle.join().ok().flatten().ok_or(Cancelled)
    }

    /// Requests the fiber to end; see [`JoinHandle::cancel`]. The scope does not count this as a
    /// failure.
    ///
    /// ```
    /// use uthread::thread::{Cancelled, park};
    ///
    /// let done = uthread::try_scope(|scope| {
    ///     let endless = scope.spawn(|| -> Result<(), Cancelled> {
    ///         loop {
    ///             park();
    ///         }
    ///     });
    ///     endless.cancel();
    ///     Ok("done")
    /// });
    /// assert_eq!(done, Ok("done"));
    /// ```
    pub fn cancel(&self) {
        self.handle.cancel();
    }

    /// Returns `true` if the fiber has ended, so that [`join`](TryJoinHandle::join) will not wait.
    ///
    /// ```
    /// use std::convert::Infallible;
    ///
    /// let done = uthread::try_scope(|scope| {
    ///     let fiber = scope.spawn(|| Ok::<_, Infallible>(()));
    ///     while !fiber.is_finished() {
    ///         uthread::yield_now();
    ///     }
    ///     Ok("done")
    /// });
    /// assert_eq!(done, Ok("done"));
    /// ```
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

/// The first failure of a scope, and the fibers that it cancels.
struct Failure<E> {
    children: Arc<Children>,
    /// Set once the scope has failed: ends the calls of `f`. Relaxed: the wake-up and the
    /// cancellations that follow order it.
    over: Arc<AtomicBool>,
    error: Mutex<Option<E>>,
}

impl<E> Failure<E> {
    /// Fails the scope with `error`. Returns `error` if the scope has failed before.
    fn fail(&self, error: E) -> Option<E> {
        let mut first = lock(&self.error);
        let second = match *first {
            None => {
                *first = Some(error);
                None
            }
            Some(_) => Some(error),
        };
        drop(first);
        self.end();
        second
    }

    fn end(&self) {
        if !self.over.swap(true, Ordering::Relaxed) {
            self.children.parent().end_wait();
            self.children.cancel();
        }
    }

    fn take_error(&self) -> Option<E> {
        lock(&self.error).take()
    }
}

//! Scopes, in which fibers may borrow from their spawner: all of them end before `scope` returns.

use std::fmt;
use std::marker::PhantomData;
use std::panic::{self, Location, RefUnwindSafe};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::builder::start;
use super::{JoinHandle, Result, Thread};
use crate::fiber::{Children, Fiber, FiberRef, Identity};
use crate::sched::caller::{self, cancellation, panics, turn, wait};
use crate::sync::selection::{ArmHandle, Joins};

/// Runs `f` with a scope whose fibers may borrow from the caller. Returns, or unwinds if `f`
/// panics, when all fibers of the scope have ended.
///
/// The fibers inherit the deadline of the fiber that spawns them. If the caller is cancelled, they
/// are cancelled when `f` has returned, and so are those that they spawn in the scope later.
/// [`try_scope`](super::try_scope) cancels the fibers when one of them fails.
///
/// # Panics
///
/// Panics with the payload of `f` if it panics, or if a fiber panicked that was not joined by its
/// handle.
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
/// Data borrowed by a fiber must outlive the scope:
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
    turn::spend_try();
    let scope = Scope {
        children: Arc::new(Children::new(caller::wake_handle())),
        scope: PhantomData,
        env: PhantomData,
    };
    let result = panics::catch_unwind(|| f(&scope));
    await_end(&scope.children, result.is_err());
    match result {
        Err(payload) => panic::resume_unwind(payload),
        Ok(value) => {
            if scope.children.any_cut_off() {
                // The caller is unwound like its fibers, without a panic message.
                cancellation::unwind_if_ending();
            }
            value
        }
    }
}

/// Waits for the fibers of a scope.
///
/// # Panics
///
/// Panics if a fiber panicked that was not joined, unless the caller is unwinding already.
pub(super) fn await_end(children: &Children, unwinds: bool) {
    // Soundness depends on this wait: no fiber of the scope, and so no borrow, is used after it.
    wait::park_until_or_cancel(|| children.all_ended(), || children.cancel());
    assert!(
        unwinds || !children.panicked(),
        "a fiber of the scope panicked"
    );
}

/// A scope in which fibers may borrow from the caller. See the example of [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    children: Arc<Children>,
    /// Invariant in both lifetimes, as in `std`: a shorter `'scope` would let a fiber outlive its
    /// borrows.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl RefUnwindSafe for Scope<'_, '_> {}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Scope").finish_non_exhaustive()
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Spawns a fiber in this scope.
    ///
    /// # Panics
    ///
    /// Panics if the default runtime is needed and cannot start.
    ///
    /// ```
    /// let words = ["plain", "blocking", "code"];
    /// let lengths = uthread::scope(|scope| {
    ///     let fibers = words.map(|word| scope.spawn(move || word.len()));
    ///     fibers.map(|fiber| fiber.join().unwrap())
    /// });
    /// assert_eq!(lengths, [5, 8, 4]);
    /// ```
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let identity = Identity::anonymous(Location::caller());
        start(|| self.fiber(identity, f))
    }

    /// Creates a fiber of this scope that is not queued yet.
    pub(super) fn fiber<F, T>(
        &'scope self,
        identity: Identity,
        f: F,
    ) -> (FiberRef, ScopedJoinHandle<'scope, T>)
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let (fiber, handle) = child(identity, &self.children, f);
        let handle = ScopedJoinHandle {
            handle,
            children: Arc::clone(&self.children),
            scope: PhantomData,
            value: PhantomData,
        };
        (fiber, handle)
    }
}

/// Creates a fiber among `children` that is not queued yet. It inherits the deadline of the caller.
pub(super) fn child<F, T>(
    identity: Identity,
    children: &Arc<Children>,
    f: F,
) -> (FiberRef, JoinHandle<T>)
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let children = Some(Arc::clone(children));
    let (fiber, joinable) = Fiber::borrowing(identity, cancellation::deadline(), f, children);
    (fiber, JoinHandle::new(joinable))
}

/// A handle to join a fiber of a scope. See the example of [`Scope::spawn`].
pub struct ScopedJoinHandle<'scope, T> {
    handle: JoinHandle<T>,
    children: Arc<Children>,
    scope: PhantomData<&'scope ()>,
    /// Makes the handle `Send` and `Sync` if the value is `Send`, as in `std`.
    value: PhantomData<Arc<Mutex<T>>>,
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(formatter)
    }
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the fiber to end and returns its result. The scope does not panic for a panic that
    /// is returned here.
    ///
    /// # Errors
    ///
    /// The errors of [`JoinHandle::join`].
    ///
    /// ```
    /// uthread::scope(|scope| {
    ///     let fiber = scope.spawn(|| "5".parse::<u32>());
    ///     assert_eq!(fiber.join().unwrap(), Ok(5));
    /// });
    /// ```
    pub fn join(self) -> Result<T> {
        let result = self.handle.join();
        if let Err(payload) = &result {
            self.children.take_end(payload);
        }
        result
    }

    /// Waits for the fiber to end, at most for `timeout`; see [`JoinHandle::join_timeout`].
    ///
    /// # Errors
    ///
    /// The handle if the fiber has not ended in that time, or if the caller is cancelled.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// uthread::scope(|scope| {
    ///     let fiber = scope.spawn(|| 6 * 7);
    ///     assert_eq!(fiber.join_timeout(Duration::from_secs(60)).unwrap().unwrap(), 42);
    /// });
    /// ```
    pub fn join_timeout(self, timeout: Duration) -> std::result::Result<Result<T>, Self> {
        match self.handle.join_timeout(timeout) {
            Ok(result) => {
                if let Err(payload) = &result {
                    self.children.take_end(payload);
                }
                Ok(result)
            }
            Err(handle) => Err(ScopedJoinHandle { handle, ..self }),
        }
    }

    /// Requests the fiber to end; see [`JoinHandle::cancel`]. The scope does not panic for a
    /// cancelled fiber.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// uthread::scope(|scope| {
    ///     let ticking = scope.spawn(|| loop {
    ///         uthread::sleep(Duration::from_millis(1));
    ///     });
    ///     ticking.cancel();
    /// });
    /// ```
    pub fn cancel(&self) {
        self.handle.cancel();
    }

    /// Returns the identity of the fiber; see [`JoinHandle::thread`].
    ///
    /// ```
    /// uthread::scope(|scope| {
    ///     let parked = scope.spawn(uthread::thread::park);
    ///     parked.thread().unpark();
    /// });
    /// ```
    #[must_use]
    pub fn thread(&self) -> &Thread {
        self.handle.thread()
    }

    /// Returns `true` if the fiber has ended, so that [`join`](ScopedJoinHandle::join) will not
    /// wait.
    ///
    /// ```
    /// uthread::scope(|scope| {
    ///     let fiber = scope.spawn(|| ());
    ///     while !fiber.is_finished() {
    ///         uthread::yield_now();
    ///     }
    /// });
    /// ```
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Returns the handle, and the fibers of the scope, for a joiner that takes care of the panic.
    pub(super) fn into_parts(self) -> (JoinHandle<T>, Arc<Children>) {
        (self.handle, self.children)
    }
}

impl<T> Joins for ScopedJoinHandle<'_, T> {
    fn has_ended(&self) -> bool {
        self.handle.has_ended()
    }

    fn await_end(&self, waiter: ArmHandle) -> bool {
        self.handle.await_end(waiter)
    }

    fn withdraw(&self) {
        self.handle.withdraw();
    }
}

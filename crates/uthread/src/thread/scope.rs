//! Scopes, whose fibers may borrow: none outlives the call of `scope`.

use std::fmt;
use std::marker::PhantomData;
use std::panic::{self, Location, RefUnwindSafe};
use std::sync::{Arc, Mutex};

use super::builder::start;
use super::{JoinHandle, Result, Thread};
use crate::fiber::{Children, Control, Fiber, FiberRef, Identity};
use crate::sched::wait;

/// Runs `f` with a scope in which fibers may borrow from the caller; returns when all of them have
/// ended, also when `f` panics.
///
/// The fibers have the deadline of whoever spawns them, and once the caller is cancelled and has come to the
/// end of `f`, they are too. [`try_scope`](super::try_scope) cancels them when one of them fails.
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
        children: Arc::new(Children::new(wait::wake_handle())),
        scope: PhantomData,
        env: PhantomData,
    };
    let result = wait::catch_unwind(|| f(&scope));
    await_end(&scope.children, result.is_err());
    match result {
        Err(payload) => panic::resume_unwind(payload),
        Ok(value) => {
            if scope.children.were_cut_off() {
                // Like them, and as quietly.
                wait::unwind_if_cancelled();
            }
            value
        }
    }
}

/// Waits for the fibers of a scope.
///
/// # Panics
///
/// When one has panicked that nobody joined, unless the caller does already.
pub(super) fn await_end(children: &Children, unwinds: bool) {
    // Soundness rests on this wait: no child runs after it, so no borrow is used after it.
    wait::park_until_or_cancel(|| children.have_ended(), || children.cancel());
    assert!(
        unwinds || !children.panicked(),
        "a fiber of the scope panicked"
    );
}

/// A scope to spawn borrowing fibers in; see the example of [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    children: Arc<Children>,
    /// Invariant in both, as `std`'s: shrinking `'scope` would let a fiber outlive its borrows.
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
    /// Starts a fiber of this scope.
    ///
    /// # Panics
    ///
    /// As [`spawn`](super::spawn).
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

    /// A new fiber of this scope that nobody runs yet.
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

/// A new fiber among these children that nobody runs yet. It has the deadline of its caller.
pub(super) fn child<F, T>(
    identity: Identity,
    children: &Arc<Children>,
    f: F,
) -> (FiberRef, JoinHandle<T>)
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let control = Control::with_deadline(identity, wait::deadline());
    let (fiber, joinable) = Fiber::borrowing(control, f, Some(Arc::clone(children)));
    (fiber, JoinHandle::new(joinable))
}

/// A handle to join a fiber of a scope; see the example of [`Scope::spawn`].
pub struct ScopedJoinHandle<'scope, T> {
    handle: JoinHandle<T>,
    children: Arc<Children>,
    scope: PhantomData<&'scope ()>,
    /// It is sent and shared where its value may be sent, as `std`'s.
    value: PhantomData<Arc<Mutex<T>>>,
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

    /// Asks the fiber to end, as [`JoinHandle::cancel`]. The scope does not panic for a fiber that was
    /// cancelled.
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

    /// The fiber's identity; see [`JoinHandle::thread`].
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

    /// Whether the fiber has ended, so that [`join`](ScopedJoinHandle::join) will not wait.
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

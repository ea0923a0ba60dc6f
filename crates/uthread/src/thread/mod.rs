//! Fibers, with the names of `std::thread`: `spawn`, `scope`, `sleep`, `yield_now`, `park`,
//! `current`.
//!
//! All functions work in fibers and outside the runtime; outside, waiting blocks the thread.

mod builder;
mod handle;
mod on_runtime;
mod scope;
mod shared_stack;
mod try_scope;

mod join_set;

mod block_on;

mod identity;

use std::time::{Duration, Instant};

pub use std::thread::{AccessError, LocalKey, Result, available_parallelism};

pub use self::block_on::{block_on, try_block_on};
pub use self::builder::{Builder, spawn};
pub use self::handle::JoinHandle;
pub use self::identity::{Thread, ThreadId, current};
pub use self::join_set::JoinSet;
pub use self::scope::{Scope, ScopedJoinHandle, scope};
pub use self::shared_stack::on_shared_stack;
pub use self::try_scope::{TryJoinHandle, TryScope, try_scope};
pub use crate::fiber::Cancelled;
use crate::fiber::limits::Limits;
use crate::sched::caller::{self, cancellation, panics, turn, wait};
use crate::sched::features::offload;

/// Waits until [`Thread::unpark`] is called for the caller. It may also return spuriously, so call
/// it in a loop that checks a condition.
///
/// If `unpark` was called before, `park` returns at once. Several such calls count as one.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// static GO: AtomicBool = AtomicBool::new(false);
///
/// let fiber = uthread::spawn(|| {
///     while !GO.load(Ordering::Acquire) {
///         uthread::thread::park();
///     }
/// });
/// GO.store(true, Ordering::Release);
/// fiber.thread().unpark();
/// fiber.join().unwrap();
/// ```
pub fn park() {
    wait::park_cancellable(None);
}

/// Waits until [`Thread::unpark`] is called for the caller, at most for `duration`. See [`park`].
///
/// ```
/// use std::time::Duration;
/// uthread::spawn(|| uthread::thread::park_timeout(Duration::from_millis(1))).join().unwrap();
/// ```
pub fn park_timeout(duration: Duration) {
    wait::park_cancellable(Some(caller::after(caller::now(), duration)));
}

/// Returns `true` if the calling fiber, or the calling thread outside the runtime, is unwinding
/// because of a panic.
///
/// [`std::thread::panicking`] counts per worker instead: while a fiber is suspended in a destructor
/// during its panic, it returns `true` in all fibers of that worker. In that time, this function
/// misses a panic of another fiber if [`resume_unwind`](std::panic::resume_unwind) started it, or
/// if the program has replaced the panic hook after the first runtime was built.
///
/// ```
/// struct Guard;
///
/// impl Drop for Guard {
///     fn drop(&mut self) {
///         assert!(uthread::thread::panicking());
///     }
/// }
///
/// let failing = uthread::spawn(|| {
///     let _guard = Guard;
///     panic!("on purpose");
/// });
/// assert!(failing.join().is_err());
/// assert!(!uthread::thread::panicking());
/// ```
#[inline]
#[must_use]
pub fn panicking() -> bool {
    panics::is_panicking()
}

/// The runtime that a fiber belongs to, or none for a thread. Public for `uthread-futures`.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuntimeId(Option<usize>);

/// Returns the runtime of the caller. It is equal to no other one until all fibers of the runtime
/// have ended.
#[doc(hidden)]
#[must_use]
pub fn runtime_id() -> RuntimeId {
    RuntimeId(caller::runtime_id())
}

/// Returns `true` if the calling fiber was [cancelled](JoinHandle::cancel) or its
/// [deadline](crate::time::timeout) has passed, so that calls return `ECANCELED` or `ETIMEDOUT`
/// instead of waiting. A loop that computes without such calls can check this function.
///
/// ```
/// let endless = uthread::spawn(|| {
///     let mut rounds = 0_u64;
///     while !uthread::thread::is_cancelled() {
///         rounds += 1;
///     }
///     rounds
/// });
/// endless.cancel();
/// let _rounds = endless.join();
/// ```
#[must_use]
pub fn is_cancelled() -> bool {
    cancellation::is_cancelled()
}

/// Runs `f` unaffected by cancellation and deadlines of the caller. Use it for work that must not
/// be interrupted and ends by itself: even the shutdown of the runtime waits for it.
///
/// ```
/// use std::time::Duration;
/// use uthread::{shield, sleep, timeout};
///
/// let kept = timeout(Duration::from_millis(1), || {
///     shield(|| sleep(Duration::from_millis(5)));
///     "done"
/// });
/// assert_eq!(kept, Ok("done"));
/// ```
pub fn shield<T>(f: impl FnOnce() -> T) -> T {
    let _within = cancellation::Within::enter(Limits::enter_shield);
    f()
}

/// Lets other fibers of this worker run.
///
/// ```
/// uthread::spawn(|| {
///     for number in 0..3 {
///         println!("{number}");
///         uthread::yield_now();
///     }
/// });
/// ```
#[inline]
pub fn yield_now() {
    turn::yield_now();
}

/// Waits for at least `duration`; a fiber waits at most about a millisecond longer.
///
/// ```
/// use std::time::{Duration, Instant};
/// let start = Instant::now();
/// uthread::spawn(|| uthread::sleep(Duration::from_millis(5))).join().unwrap();
/// assert!(start.elapsed() >= Duration::from_millis(5));
/// ```
///
/// If the runtime is dropped, the fiber is unwound. Only if the fiber is already unwinding, or
/// possibly is, does the function return early instead.
pub fn sleep(duration: Duration) {
    wait::sleep_until(caller::after(caller::now(), duration));
}

/// Waits until `deadline`. If it has passed, other fibers run once. See [`sleep`].
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

/// Runs `call`, which may block, while the worker runs other fibers. A fiber may block anywhere,
/// and its worker goes on with the others after a millisecond; here it does so at once, on a spare
/// thread. Outside the runtime, `call` runs on the calling thread.
///
/// A [lean](crate::runtime::Builder::lean) fiber must use it for system calls and libraries that
/// block: `call` then runs on another thread, whose thread-locals and values of
/// [`local!`](crate::local!) it finds. So it does if no spare thread can start. Each runtime has at
/// most [`Builder::blocking_threads`](crate::runtime::Builder::blocking_threads) such threads, by
/// default 512; further calls are queued. `call` may borrow from the caller.
///
/// If the fiber is cancelled, or its deadline passes, while `call` is queued, the fiber is unwound
/// and `call` is dropped without running. Once started, `call` runs to its end and its result is
/// returned.
///
/// # Panics
///
/// Panics with the payload of `call` if it panics.
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
    offload::run_or_unwind(call)
}

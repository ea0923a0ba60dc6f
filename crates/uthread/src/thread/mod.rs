//! Fibers by the names of `std::thread`: `spawn`, `scope`, `sleep`, `yield_now`, `park`, `current`.
//!
//! Each works inside a fiber and outside the runtime alike: outside, waiting blocks the thread.

mod builder;
mod handle;
mod scope;
mod try_scope;

mod identity;

use std::time::{Duration, Instant};

pub use std::thread::{AccessError, LocalKey, Result, available_parallelism};

pub use self::builder::{Builder, spawn};
pub use self::handle::JoinHandle;
pub use self::identity::{Thread, ThreadId, current};
pub use self::scope::{Scope, ScopedJoinHandle, scope};
pub use self::try_scope::{TryJoinHandle, TryScope, try_scope};
pub use crate::fiber::Cancelled;
use crate::fiber::limits::Limits;
use crate::sched::{offload, wait};

/// Waits until [`Thread::unpark`] is called for the caller; may return without, so check in a loop.
///
/// Like `std`'s: an `unpark` that comes first is remembered, once.
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

/// As [`park`], for at most `duration`.
///
/// ```
/// use std::time::Duration;
/// uthread::spawn(|| uthread::thread::park_timeout(Duration::from_millis(1))).join().unwrap();
/// ```
pub fn park_timeout(duration: Duration) {
    wait::park_cancellable(Some(wait::after(wait::now(), duration)));
}

/// Whether the calling fiber unwinds because of a panic, or the calling thread outside the runtime.
///
/// [`std::thread::panicking`] returns true in every fiber of a worker while one of them is suspended in a destructor during its
/// panic. While one is, a panic of another fiber goes unnoticed if [`resume_unwind`](std::panic::resume_unwind) began it, or if
/// the program has replaced the panic hook since the first runtime was built.
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
    wait::is_panicking()
}

/// Whether calls fail with `ECANCELED` or `ETIMEDOUT` instead of waiting: the fiber was
/// [cancelled](JoinHandle::cancel), or its [deadline](crate::time::timeout) has passed. A loop that
/// computes without any such call looks here.
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
    wait::is_cancelled()
}

/// Runs `f` as if nobody had cancelled the caller, and without its deadline: for what must not be left half
/// done, and ends by itself. Even the end of the runtime waits for it.
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
    let _within = wait::Within::enter(Limits::enter_shield);
    f()
}

/// Lets the other fibers of this worker run.
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
/// borrow from the caller. Thread-locals are those of the other thread, and so are the values of [`local!`](crate::local!).
///
/// A fiber that is cancelled, or whose deadline passes, while `call` waits its turn is unwound, and `call` is dropped without
/// having run. Once a thread has begun it, `call` runs to its end and its result is returned.
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
    offload::run_or_unwind(call)
}

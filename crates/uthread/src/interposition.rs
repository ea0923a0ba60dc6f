//! What `uthread-interpose` and `uthread-simulation` need, which take the place of functions of the C
//! library in a program with fibers. Not for others.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::atomic;
use crate::clock::{self, VirtualClock};
use crate::forked;
use crate::runtime::Builder;
use crate::sched::worker::current;
use crate::sync::futex;

/// Returns `true` if a call of the C library may suspend the caller instead of its thread: it is a
/// fiber on a worker, with thread-local storage of its own, and runs code that is not this library's.
///
/// ```
/// use uthread::Runtime;
/// use uthread::interposition::may_suspend;
///
/// assert!(!may_suspend());
/// let runtime = Runtime::new()?;
/// assert_eq!(runtime.run(may_suspend), !runtime.is_lean());
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn may_suspend() -> bool {
    current::runs_foreign_code() && !atomic::is_locking()
}

/// Wakes waiters like [`futex::wake`](crate::sync::futex::wake()). Never suspends the caller, which
/// may be this library.
///
/// ```
/// use std::sync::atomic::AtomicU32;
///
/// assert_eq!(uthread::interposition::wake(&AtomicU32::new(0), 1), 0); // Nobody waits.
/// ```
pub fn wake(word: &AtomicU32, count: usize) -> usize {
    futex::wake_in_turn(word, count)
}

/// Makes the time of a runtime virtual. It has one worker. The program has to ask [`time`] and
/// [`random`] wherever it asks the C library. With a seed, that decides which fiber runs next, the date,
/// and the random numbers.
///
/// ```
/// let builder = uthread::interposition::virtual_time(uthread::Runtime::builder(), Some(1));
/// assert!(builder.workers(2).build().is_err());
/// ```
#[must_use]
pub fn virtual_time(builder: Builder, seed: Option<u64>) -> Builder {
    builder.virtual_time(seed)
}

/// Returns the next random number of the caller's runtime, if that has virtual time by a seed.
///
/// ```
/// assert_eq!(uthread::interposition::random(), None);
/// ```
#[must_use]
pub fn random() -> Option<u64> {
    current::with_virtual_clock(VirtualClock::random)
}

/// Returns `true` if what the caller creates as a thread is to be a fiber: it may be suspended, and its
/// runtime has virtual time.
///
/// ```
/// assert!(!uthread::interposition::has_virtual_time());
/// ```
#[must_use]
pub fn has_virtual_time() -> bool {
    may_suspend() && !forked::is_spawning() && time(libc::CLOCK_MONOTONIC).is_some()
}

/// Returns the time by a clock of `clock_gettime(2)`, since its epoch, if the caller is a fiber of a
/// runtime with virtual time, or its worker. Returns `None` for the clocks of CPU time.
///
/// ```
/// assert_eq!(uthread::interposition::time(0), None);
/// ```
#[must_use]
pub fn time(clock: i32) -> Option<Duration> {
    let time = current::with_virtual_clock(|virtual_clock| virtual_clock.time(clock));
    time.or_else(|| clock::beginning(clock))
}

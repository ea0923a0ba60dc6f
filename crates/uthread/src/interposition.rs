//! What `uthread-interpose` needs, which takes the place of functions of the C library in a program
//! with fibers. Not for others.

use std::sync::atomic::AtomicU32;

use crate::atomic;
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

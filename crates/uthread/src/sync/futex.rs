//! Waiting for a change of a 32-bit word: the building block of locks of one's own.
//!
//! The calls follow [`futex(2)`](https://man7.org/linux/man-pages/man2/futex.2.html), for fibers and
//! threads of this process in any combination. A waiting fiber is suspended, and its worker runs
//! other fibers.
//!
//! ```
//! use uthread::sync::atomic::{AtomicU32, Ordering};
//! use uthread::sync::futex;
//!
//! static GATE: AtomicU32 = AtomicU32::new(0);
//!
//! let waiting = uthread::spawn(|| {
//!     while GATE.load(Ordering::Acquire) == 0 {
//!         // An error is returned, too, if the gate has been opened meanwhile.
//!         let _ = futex::wait(&GATE, 0, None);
//!     }
//! });
//! GATE.store(1, Ordering::Release);
//! futex::wake(&GATE, usize::MAX);
//! waiting.join().unwrap();
//! ```

use std::io;
use std::ptr;
use std::time::Instant;

use super::parking_lot::{self, Dequeued, WaitEnd};
use crate::atomic::{AtomicU32, Ordering};
use crate::sched::caller::{cancellation, turn};

/// Waits until [`wake`] is called for this word, unless the word has another value than `expected`.
/// Whoever changes the value and then calls `wake` is not missed. Waiters are woken in the order in
/// which they arrived.
///
/// ```
/// use std::io::ErrorKind;
/// use uthread::sync::atomic::AtomicU32;
/// use uthread::sync::futex;
///
/// let word = AtomicU32::new(7);
/// let refused = futex::wait(&word, 6, None).unwrap_err();
/// assert_eq!(refused.kind(), ErrorKind::WouldBlock);
/// ```
///
/// # Errors
///
/// `WouldBlock` (`EAGAIN`) if the word has another value; `TimedOut` once the deadline has passed;
/// `ECANCELED` if the fiber is [cancelled](crate::thread::Cancelled). A cancelled fiber that cannot
/// continue without what it waits for waits in a [`shield`](crate::thread::shield).
pub fn wait(word: &AtomicU32, expected: u32, deadline: Option<Instant>) -> io::Result<()> {
    let waiter = parking_lot::with_queue(word, |queue| {
        // The queue is locked: a change after this load is followed by a `wake` that finds the
        // caller.
        (word.load(Ordering::SeqCst) == expected).then(|| queue.enqueue(0))
    });
    let Some(waiter) = waiter else {
        turn::spend_try();
        return Err(io::ErrorKind::WouldBlock.into());
    };
    let give_back = || {
        wake(word, 1);
    };
    match waiter.wait_for(deadline, |_| Dequeued::default(), give_back) {
        WaitEnd::Dequeued => Ok(()),
        WaitEnd::TimedOut => Err(io::ErrorKind::TimedOut.into()),
        WaitEnd::Cancelled => cancellation::refuse_if_cancelled(),
    }
}

/// Wakes the first `count` fibers and threads that [wait](wait()) for this word, or all if there are
/// fewer, and returns their number.
///
/// ```
/// use uthread::sync::atomic::AtomicU32;
///
/// assert_eq!(uthread::sync::futex::wake(&AtomicU32::new(0), 1), 0); // Nobody waits.
/// ```
pub fn wake(word: &AtomicU32, count: usize) -> usize {
    wake_at(ptr::from_ref(word), count)
}

/// Wakes waiters like [`wake`], by the address of the word, which is not accessed: its memory may have
/// been freed since somebody waited there.
///
/// ```
/// use uthread::sync::atomic::AtomicU32;
///
/// assert_eq!(uthread::sync::futex::wake_at(std::ptr::null::<AtomicU32>(), 1), 0);
/// ```
pub fn wake_at(word: *const AtomicU32, count: usize) -> usize {
    let number = wake_in_turn(word, count);
    turn::spend_try();
    number
}

/// Wakes waiters like [`wake`], and never lets others run.
pub(crate) fn wake_in_turn(word: *const AtomicU32, count: usize) -> usize {
    let woken = parking_lot::with_queue(word, |queue| queue.dequeue(count));
    let number = woken.len();
    woken.wake();
    number
}
